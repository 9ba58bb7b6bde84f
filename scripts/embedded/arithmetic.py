"""Exact value of a written expression, and the numbers it uses: what replay and grading rest on."""

from __future__ import annotations

from fractions import Fraction

from verifiers.arithmetic import evaluate as exact
from verifiers.arithmetic.parser import parse
from verifiers.arithmetic.tokens import ExpressionError


def evaluate(text: str) -> tuple[Fraction, list[int]] | None:
    """(value, literals in order), or None for anything but + - * / and brackets over integers."""
    try:
        tree = parse(text)
        literals = list(exact.numbers(tree))
        if any(negative or number.value.denominator != 1 for number, negative in literals):
            return None
        return exact.evaluate(tree), [number.value.numerator for number, _ in literals]
    except ExpressionError:
        return None
