"""Splits an arithmetic expression into numbers, operators and brackets, or says what does not belong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto


class ExpressionError(ValueError):
    """An expression that cannot be read or has no value; the message is a reason for people."""


class Kind(Enum):
    NUMBER = auto()
    OPERATOR = auto()
    OPEN = auto()
    CLOSE = auto()
    FRACTION = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str


END = Token(Kind.END, "")
MAX_CHARS = 2_000
MAX_TOKENS = 400

_TOKEN = re.compile(
    r"\s*(?:(?P<NUMBER>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<FRACTION>\\frac(?![a-zA-Z]))|(?P<OPERATOR>\*\*|//|[-+*/^xX])"
    r"|(?P<OPEN>[(\[{])|(?P<CLOSE>[)\]}]))"
)
_CULPRIT = re.compile(r"\\?[^\W\d_]+|.", re.DOTALL)


def tokenize(text: str) -> tuple[Token, ...]:
    """The tokens of `text`. The letter x is the sign of multiplication.

    Raises ExpressionError for anything else that is no arithmetic, and above MAX_CHARS or MAX_TOKENS.
    """
    if len(text) > MAX_CHARS:
        raise ExpressionError(f"longer than {MAX_CHARS} characters")
    tokens: list[Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise ExpressionError(f"{_culprit(text, position)!r} is no part of an arithmetic expression")
        name = found.lastgroup or ""
        tokens.append(Token(Kind[name], "*" if found[name] in ("x", "X") else found[name]))
        position = found.end()
    if len(tokens) > MAX_TOKENS:
        raise ExpressionError(f"more than {MAX_TOKENS} numbers and signs")
    return tuple(tokens)


def _culprit(text: str, position: int) -> str:
    found = _CULPRIT.match(text[position:].lstrip())
    return found[0][:20] if found else ""
