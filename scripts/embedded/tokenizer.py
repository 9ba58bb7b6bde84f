"""The tokenizer: 256 bytes, the whole words of the templates, five special tokens; no merges.

A pre-token is one entry of the vocabulary or falls apart into its bytes, so any text survives the round
trip, every digit, operator and bracket is one token, and a number is read digit by digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from reasoner.evaluate.tasks.integer_math import SENTENCES, SUFFIXES
from reasoner.evaluate.tasks.phrasings import PHRASINGS
from scripts.embedded.conversation import GREETINGS, REPLY, SYSTEMS

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
TRACE_WORDS = (" no", " yes", "back", " to", " mod", "check", " ->", "\\boxed", "The answer is", " x")
ROLES = ("user", "assistant", "system")
PRE_TOKEN = r" ?[A-Za-z]+|\\[a-z]+| ->|[\s\S]"  # the same in Python and in the tokenizers library
_SLOT = re.compile(r"\{[a-z]+\}")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """words: the entries 256.. in order; the specials follow them. size: padded to a multiple of 64."""

    words: tuple[str, ...]
    ids: dict[str, int]
    end_of_text: int
    end_of_turn: int
    think: int
    end_think: int
    newline: int
    size: int

    def encode(self, text: str) -> list[int]:
        """Ids of a text; special tokens are recognised where they stand."""
        found: list[int] = []
        for piece in _pieces(text):
            known = self.ids.get(piece)
            if known is None:
                found.extend(piece.encode())
            else:
                found.append(known)
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids, special tokens included; ids of the padding rows and broken UTF-8 are replaced."""
        entries = _bytes_of_ids(self.words)
        return b"".join(entries[i] if i < len(entries) else b"\xff" for i in ids).decode("utf-8", "replace")


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary that the templates define."""
    words = _words()
    ids = {chr(byte): byte for byte in range(128)}
    ids |= {entry: 256 + i for i, entry in enumerate((*words, *SPECIALS))}
    used = 256 + len(words) + len(SPECIALS)
    end_of_text, _, end_of_turn, think, end_think = (ids[special] for special in SPECIALS)
    size = -(-used // 64) * 64
    return Vocabulary(words, ids, end_of_text, end_of_turn, think, end_think, ids["\n"], size)


def _words() -> tuple[str, ...]:
    """Every word of the templates, at a line's start and after a space; first words also in lower case."""
    texts = [phrasing.text for phrasing in PHRASINGS]
    texts += [sentence for sentences in SENTENCES.values() for sentence in sentences]
    texts += [*SUFFIXES, *SYSTEMS, *GREETINGS, REPLY, *TRACE_WORDS, *ROLES]
    found: set[str] = set()
    for text in texts:
        found.update(re.findall(PRE_TOKEN, _SLOT.sub("0", text)))
        first = text.split(" ")[0]
        found.update((first.lower(), first.capitalize()) if first.isalpha() else ())
    plain = {word.strip() for word in found if word.strip().isalpha()}
    found |= plain | {" " + word for word in plain}
    return tuple(sorted(word for word in found if len(word) > 1))


@cache
def _bytes_of_ids(words: tuple[str, ...]) -> tuple[bytes, ...]:
    entries = (*words, *SPECIALS)
    return (*(bytes([byte]) for byte in range(256)), *(entry.encode() for entry in entries))


_FIND = re.compile("|".join(map(re.escape, SPECIALS)) + "|" + PRE_TOKEN)


def _pieces(text: str) -> list[str]:
    return _FIND.findall(text)
