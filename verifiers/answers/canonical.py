"""The class of an answer in a vote: a string that equal answers share.

Comparing strings makes the relation symmetric and transitive by construction. Classes are finer than what a
verifier accepts against a gold answer: "20%" passes for a gold "20", yet votes as 1/5.
"""

from __future__ import annotations

import re

from verifiers.answers.numbers import read_number
from verifiers.answers.plain import plain

_QUOTES = "\"'“”‘’"
_CHOICE = re.compile(r"(?:option\s+|choice\s+)?\(?(?P<letter>[A-Z])(?:\)?[.:)](?:\s.*)?|\))?", re.DOTALL)
_SIGN = re.compile(r"\s*([^\w\s.,])\s*")
_COMMA = re.compile(r"\s*,\s*")
# Not a macro: \\Pi and \\pi differ. Not one letter: neither do P and p agree.
_WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}")
_OPTION = re.compile(r"(?:option|choice)\s+", re.IGNORECASE)


def canonical_class(answer: str) -> str:
    """The exact value for a number (`1/2`, `1234`, `12 cm`), else the normal form of the text. Idempotent."""
    number = read_number(answer)
    if number is None:
        text = normal_text(answer)
        number = read_number(text)
        if number is None:
            return text
    return f"{number.value} {number.unit}".strip()


def normal_text(answer: str) -> str:
    """Plain spelling without quotes, final stop or blanks around signs; words of two letters in lower case.

    A comma keeps one blank behind it, so that the list "1, 234" never meets the number "1,234".
    """
    text, before = answer, None
    while text != before:
        before = text
        text = plain(text.strip(_QUOTES + " ").removesuffix("."))
        text = _COMMA.sub(", ", _SIGN.sub(r"\1", text))
        text = _WORD.sub(lambda word: word[0].lower(), text)
    return text


def choice_letter(answer: str) -> str | None:
    """The capital letter of `B`, `(B)`, `B.`, `B: the option's text`, `Option B`; None for anything else."""
    found = _CHOICE.fullmatch(_OPTION.sub("", plain(answer), count=1))
    return found["letter"] if found else None
