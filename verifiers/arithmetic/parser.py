"""Tokens to a tree, by recursive descent with a depth limit.

sum     = product { ("+" | "-") product }
product = signed { ("*" | "/") signed | power that starts with "(" }
signed  = ("+" | "-") signed | power
power   = primary [ "^" signed ]
primary = number | "(" sum ")" | "\\frac" "{" sum "}" "{" sum "}"
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from verifiers.arithmetic.tokens import END, ExpressionError, Kind, Token, tokenize

MAX_DEPTH = 40
BASIC = frozenset("+-*/")
WITH_POWERS = BASIC | {"^"}

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Number:
    """value: exact. text: as written ("3", "0.50")."""

    value: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class Negation:
    operand: Node


@dataclass(frozen=True, slots=True)
class Operation:
    operator: str
    left: Node
    right: Node


Node = Number | Negation | Operation


def parse(text: str, operators: frozenset[str] = BASIC) -> Node:
    """The tree of an expression that uses only `operators`.

    A number or bracket before "(" multiplies it, except right after "/", where readers disagree.
    Raises ExpressionError with the reason, also for nesting above MAX_DEPTH.
    """
    parser = _Parser(tokenize(text), operators)
    if parser.peek is END:
        raise ExpressionError("there is no expression")
    tree = parser.sum(0)
    if parser.peek is not END:
        raise parser.unexpected()
    return tree


class _Parser:
    def __init__(self, tokens: tuple[Token, ...], operators: frozenset[str]) -> None:
        self.tokens, self.operators, self.position = tokens, operators, 0

    @property
    def peek(self) -> Token:
        return self.tokens[self.position] if self.position < len(self.tokens) else END

    def take(self) -> Token:
        token = self.peek
        self.position += 1
        return token

    def operator(self, among: str) -> str | None:
        """Takes the next token where it is one of these operators."""
        token = self.peek
        if token.kind is not Kind.OPERATOR:
            return None
        if token.text not in self.operators:
            raise ExpressionError(f"{token.text!r} is not allowed")
        return self.take().text if token.text in among else None

    def sum(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH}")
        tree = self.product(depth)
        while sign := self.operator("+-"):
            tree = Operation(sign, tree, self.product(depth))
        return tree

    def product(self, depth: int) -> Node:
        tree = self.signed(depth)
        last = ""
        while True:
            if sign := self.operator("*/"):
                tree, last = Operation(sign, tree, self.signed(depth)), sign
            elif self.peek == Token(Kind.OPEN, "("):
                if last == "/":
                    raise ExpressionError("a sign is missing before '(': after '/' it is ambiguous")
                tree, last = Operation("*", tree, self.power(depth)), "*"
            else:
                return tree

    def signed(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH}")
        sign = self.operator("+-")
        if sign is None:
            return self.power(depth)
        operand = self.signed(depth + 1)
        return Negation(operand) if sign == "-" else operand

    def power(self, depth: int) -> Node:
        base = self.primary(depth)
        return Operation("^", base, self.signed(depth + 1)) if self.operator("^") else base

    def primary(self, depth: int) -> Node:
        token = self.peek
        if token.kind is Kind.NUMBER:
            self.take()
            return Number(Fraction(token.text), token.text)
        if token.kind is Kind.OPEN:
            return self.group(depth)
        if token.kind is Kind.FRACTION:
            self.take()
            return Operation("/", self.braced(depth), self.braced(depth))
        raise self.unexpected()

    def group(self, depth: int) -> Node:
        opening = self.take()
        tree = self.sum(depth + 1)
        if self.peek.text != _CLOSING[opening.text]:
            raise self.unexpected()
        self.take()
        return tree

    def braced(self, depth: int) -> Node:
        if self.peek.text != "{":
            raise ExpressionError(r"\frac needs two arguments in braces")
        return self.group(depth)

    def unexpected(self) -> ExpressionError:
        token, before = self.peek, self.tokens[self.position - 1] if self.position else END
        if token is END:
            return ExpressionError("the expression ends too early")
        if token.kind in (Kind.NUMBER, Kind.OPEN, Kind.FRACTION) and before.kind in (Kind.NUMBER, Kind.CLOSE):
            return ExpressionError(f"no sign between {before.text!r} and {token.text!r}")
        return ExpressionError(f"{token.text!r} is out of place")
