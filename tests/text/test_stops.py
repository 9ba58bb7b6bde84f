"""Text ends exactly before the first stop string, wherever the deltas are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.errors import InvalidParameter
from engine.text.stops import StopStrings
from tests.text.conftest import KINDS

ALPHABET = st.text(alphabet="ab\n数😀", max_size=30)
STOPS = st.lists(st.text(alphabet="ab\n数😀", min_size=1, max_size=6), max_size=4)


def first_stop(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The definition: read character by character; the first prefix that ends in a stop ends the text."""
    for end in range(len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            stop = max(hits, key=len)
            return text[:end - len(stop)], stop
    return text, None


def feed(stops: list[str], deltas: list[str]) -> tuple[str, str | None]:
    matcher = StopStrings(stops)
    emitted = ""
    for delta in deltas:
        part, hit = matcher.push(delta)
        emitted += part
        assert hit == matcher.hit
    return emitted + matcher.flush(), matcher.hit


@settings(deadline=None, max_examples=500)
@given(text=ALPHABET, stops=STOPS, cuts=st.lists(st.integers(0, 30), max_size=12))
def test_equals_the_definition_for_any_split(text: str, stops: list[str], cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    deltas = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert feed(stops, deltas) == first_stop(text, stops)
    assert feed(stops, list(text)) == first_stop(text, stops)


@settings(deadline=None, max_examples=300)
@given(kind=st.sampled_from(list(KINDS)), text=st.text(max_size=30), at=st.integers(0, 30),
       stop=st.text(min_size=1, max_size=5), after=st.text(max_size=10))
def test_random_unicode_stops_through_a_tokenizer(kind: str, text: str, at: int, stop: str, after: str) -> None:
    tokenizer = KINDS[kind]()
    text = text[:at] + stop + after
    assume("<" not in text)  # the text of a special token is encoded as that token, which has no text
    detokenizer = tokenizer.detokenizer()
    ids = tokenizer.encode(text)
    deltas = [*(detokenizer.push([token]) for token in ids), detokenizer.flush()]
    emitted, hit = feed([stop], deltas)
    assert hit == stop
    assert emitted == text[:text.find(stop)]


def test_only_what_may_become_a_stop_is_held_back() -> None:
    matcher = StopStrings(["STOP", "TOMB"])
    assert matcher.push("xSTO") == ("x", None)
    assert matcher.push("M") == ("S", None)
    assert matcher.push("x") == ("TOMx", None)
    assert matcher.push("no stop here ") == ("no stop here ", None)
    assert matcher.push("ST") == ("", None)
    assert matcher.flush() == "ST"


def test_after_a_hit_everything_is_swallowed() -> None:
    matcher = StopStrings(["\n\n"])
    assert matcher.push("a\n\nb") == ("a", "\n\n")
    assert matcher.push("c") == ("", "\n\n")
    assert matcher.flush() == ""


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        StopStrings(["a", ""])
