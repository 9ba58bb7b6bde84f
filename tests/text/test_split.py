"""Thinking and answer, split by ids; no marker leaks; stop strings see the side they are meant for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.path_text import PathText, TextDelta
from engine.text.split import ThinkingSplit, split_output
from engine.text.tokenizer import Tokenizer
from engine.types import PathTokens, Phase
from tests.text.conftest import KINDS

TEXTS = st.text(alphabet=" \n the7ü数😀", max_size=20)


def tokens(ids: list[int]) -> PathTokens:
    return PathTokens(0, tuple(ids), Phase.ANSWER, 0, 0)


def play(text: PathText, ids: list[int], cuts: list[int]) -> list[TextDelta]:
    edges = [0, *sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]
    return [*(text.push(tokens(ids[a:b])) for a, b in itertools.pairwise(edges)), text.finish()]


@settings(deadline=None, max_examples=300)
@given(kind=st.sampled_from(list(KINDS)), thinking=TEXTS, answer=TEXTS, cuts=st.lists(st.integers(0, 99), max_size=9))
def test_any_split_of_a_whole_path(kind: str, thinking: str, answer: str, cuts: list[int]) -> None:
    tokenizer = KINDS[kind]()
    markers = tokenizer.markers
    assert markers is not None
    ids = [markers.open_id, *tokenizer.encode(thinking), *markers.close_ids, *tokenizer.encode(answer),
           tokenizer.eos_ids[0]]
    text = PathText(tokenizer)
    deltas = play(text, ids, cuts)
    split = split_output(ids, markers, tokenizer)
    assert split == (text.thinking, text.answer, text.closed)
    assert split == ("".join(d.thinking for d in deltas), "".join(d.answer for d in deltas), True)
    assert text.thinking == thinking.lstrip("\n") or kind == "byte_fallback"
    assert text.answer == answer.lstrip("\n") or kind == "byte_fallback"
    for delta in play(PathText(tokenizer), ids, list(range(len(ids)))):
        assert not (delta.thinking and delta.answer)


def test_thinking_that_never_closes_is_no_answer(tokenizer: Tokenizer) -> None:
    markers = tokenizer.markers
    assert markers is not None
    ids = [markers.open_id, *tokenizer.encode("the 7")]
    assert split_output(ids, markers, tokenizer) == ("the 7", "", False)
    body = tokenizer.encode("the 7")
    assert split_output(body, markers, tokenizer, Phase.THINKING) == ("the 7", "", False)
    assert split_output(body, markers, tokenizer, Phase.ANSWER) == ("", "the 7", True)
    assert split_output(body, markers, tokenizer) == ("", "the 7", True)
    assert split_output(body, None, tokenizer) == ("", "the 7", True)


def test_markers_leak_nowhere(tokenizer: Tokenizer) -> None:
    markers = tokenizer.markers
    assert markers is not None
    a, b, c = (tokenizer.encode(word) for word in ("a", "b", "c"))
    again = [markers.open_id, *a, markers.open_id, *b, markers.close_id, *c, markers.close_id, markers.open_id, *a]
    thinking, answer, closed = split_output(again, markers, tokenizer)
    assert (thinking.replace(" ", ""), answer.replace(" ", ""), closed) == ("ab", "ca", True)


def test_a_part_holds_one_side_and_comes_in_order(tokenizer: Tokenizer) -> None:
    markers = tokenizer.markers
    assert markers is not None
    split = ThinkingSplit(tokenizer.detokenizer(), markers)
    ids = [markers.open_id, *tokenizer.encode("a"), *markers.close_ids, *tokenizer.encode("b")]
    parts = split.push(ids)
    assert [part.phase for part in parts] == [Phase.THINKING, Phase.ANSWER]
    assert [part.text.strip() for part in parts] == ["a", "b"]


def test_stops_are_dormant_in_the_thinking_unless_asked_for(tokenizer: Tokenizer) -> None:
    markers = tokenizer.markers
    assert markers is not None
    ids = [markers.open_id, *tokenizer.encode("a7b"), *markers.close_ids, *tokenizer.encode("c7d")]
    text = PathText(tokenizer, ["7"])
    assert play(text, ids, list(range(40)))[-1].stop_hit == "7"
    assert (text.thinking, text.answer.strip()) == ("a7b", "c")
    text = PathText(tokenizer, ["7"], thinking_stops=["7"])
    assert play(text, ids, [3])[-1].stop_hit == "7"
    assert (text.thinking, text.answer) == ("a", "")


def test_what_a_stop_held_back_comes_out_on_its_own_side(tokenizer: Tokenizer) -> None:
    markers = tokenizer.markers
    assert markers is not None
    ids = [markers.open_id, *tokenizer.encode("ab"), *markers.close_ids, *tokenizer.encode("cde"), 0]
    text = PathText(tokenizer, ["dex"], thinking_stops=["bcd"])
    deltas = play(text, ids[:-1], list(range(40)))
    assert (text.thinking, text.answer.strip(), deltas[-1].stop_hit) == ("ab", "cde", None)
    assert deltas[-1].answer == "de"


@pytest.mark.parametrize("stop", ["7", "\n"])
def test_stop_ids_have_no_text(stop: str, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the " + stop)
    text = PathText(tokenizer, stop_ids=ids[-1:])
    play(text, ids, [1])
    assert text.answer == tokenizer.decode(ids[:-1]) != ""


def test_the_cost_of_a_push_does_not_grow(tokenizer: Tokenizer) -> None:
    """Nothing is re-read: after many pushes each side is one list of deltas, joined when it is asked for."""
    text = PathText(tokenizer, ["never"])
    ids = tokenizer.encode("the 7")
    for _ in range(2000):
        text.push(tokens(ids))
    assert len(text.answer) == len(text.answer.strip())
    assert text.answer.count("7") == 2000
