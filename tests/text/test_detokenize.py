"""Deltas joined are the text of all ids, and equal what the tokenizers library decodes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Fast
from tokenizers import decoders, models

from engine.errors import ModelLoadError
from engine.text.pieces import Pieces
from engine.text.tokenizer import Tokenizer
from tests.text.conftest import KINDS, byte_fallback, byte_level

TEXTS = st.text(max_size=40) | st.text(alphabet=" \n the7ü数😀e\u0301<|im_end|>�", max_size=40)


def library(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    return str(tokenizer._inner.backend_tokenizer.decode(list(ids), skip_special_tokens=True))


def stream(tokenizer: Tokenizer, ids: Sequence[int], cuts: Sequence[int]) -> list[str]:
    detokenizer = tokenizer.detokenizer()
    edges = [0, *sorted(cut % (len(ids) + 1) for cut in cuts), len(ids)]
    deltas = [detokenizer.push(ids[a:b]) for a, b in itertools.pairwise(edges)]
    return [*deltas, detokenizer.flush()]


@settings(deadline=None, max_examples=300)
@given(kind=st.sampled_from(list(KINDS)), text=TEXTS, cuts=st.lists(st.integers(0, 99), max_size=20))
def test_any_split_of_any_text(kind: str, text: str, cuts: list[int]) -> None:
    tokenizer = KINDS[kind]()
    ids = tokenizer.encode(text)
    deltas = stream(tokenizer, ids, cuts)
    assert "".join(deltas) == tokenizer.decode(ids) == library(tokenizer, ids)
    if "<|im_" not in text:
        assert "".join(deltas) == text


@settings(deadline=None, max_examples=300)
@given(ids=st.lists(st.integers(0, byte_level().vocab_size + 5), max_size=40),
       cuts=st.lists(st.integers(0, 99), max_size=20))
def test_any_ids_byte_level_invalid_bytes_included(ids: list[int], cuts: list[int]) -> None:
    tokenizer = byte_level()
    assert "".join(stream(tokenizer, ids, cuts)) == tokenizer.decode(ids) == library(tokenizer, ids)


@settings(deadline=None, max_examples=300)
@given(ids=st.lists(st.integers(0, byte_fallback().vocab_size + 5), max_size=40),
       cuts=st.lists(st.integers(0, 99), max_size=20))
def test_any_ids_byte_fallback(ids: list[int], cuts: list[int]) -> None:
    """Where bytes are invalid the library replaces the whole run of byte tokens, which no stream can know yet."""
    tokenizer = byte_fallback()
    text = "".join(stream(tokenizer, ids, cuts))
    assert text == tokenizer.decode(ids)
    if "�" not in text:
        assert text == library(tokenizer, ids)


def test_only_whole_characters_come_out(tokenizer: Tokenizer) -> None:
    detokenizer = tokenizer.detokenizer()
    for char in "😀é数😀":
        ids = [token for token in tokenizer.encode(char) if tokenizer.pieces[token] != b" "]
        deltas = [detokenizer.push([token]) for token in ids]
        assert deltas == [""] * (len(ids) - 1) + [char]


def test_a_replacement_character_of_the_model_is_text(tokenizer: Tokenizer) -> None:
    assert "".join(stream(tokenizer, tokenizer.encode("a�b"), range(9))) == "a�b"


def test_special_tokens_have_no_text_and_cut_no_character(tokenizer: Tokenizer) -> None:
    ids = [token for token in tokenizer.encode("😀") if tokenizer.pieces[token] != b" "]
    end = tokenizer.eos_ids[0]
    mixed = [end, *ids[:2], end, *ids[2:], end]
    assert "".join(stream(tokenizer, mixed, range(9))) == library(tokenizer, mixed) == "😀"


def test_the_artificial_first_space_is_dropped_once() -> None:
    tokenizer = byte_fallback()
    detokenizer = tokenizer.detokenizer()
    the = tokenizer.encode("the")
    assert [detokenizer.push(the), detokenizer.push(the)] == ["the", " the"]
    assert detokenizer.flush() == ""
    assert detokenizer.push(the) == "the"


@pytest.mark.parametrize("byte", [0x80, 0xF0, 0xFF])
def test_a_stream_that_never_becomes_text_costs_the_same_per_token(byte: int, tokenizer: Tokenizer) -> None:
    token = next(i for i in range(tokenizer.vocab_size) if tokenizer.pieces[i] == bytes([byte]))

    def seconds(detokenizer_pushes: int) -> float:
        detokenizer = tokenizer.detokenizer()
        start = time.process_time()
        for _ in range(detokenizer_pushes):
            detokenizer.push((token,))
        return time.process_time() - start

    short, long = min(seconds(1_000) for _ in range(5)), min(seconds(20_000) for _ in range(3))
    assert long < 20 * short * 3


def test_an_unknown_decoder_is_refused() -> None:
    fast = Fast(models.WordPiece({"[UNK]": 0}))
    fast.decoder = decoders.WordPiece()
    with pytest.raises(ModelLoadError, match="not supported"):
        Pieces(fast)
