"""The exact value of a tree, within bounds that keep a hostile one cheap."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from verifiers.arithmetic.parser import Negation, Node, Number, Operation
from verifiers.arithmetic.tokens import ExpressionError

MAX_BITS = 12_000
"""Of a numerator or denominator: about 3,600 digits, below what Python refuses to print."""


def evaluate(node: Node) -> Fraction:
    """The value of `node`. Raises ExpressionError on a division by zero and where no small value exists."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Negation):
        return -evaluate(node.operand)
    left, right = evaluate(node.left), evaluate(node.right)
    value = _apply(node.operator, left, right)
    if _bits(value) > MAX_BITS:
        raise ExpressionError("the value is too large")
    return value


def numbers(node: Node) -> Iterator[tuple[Number, bool]]:
    """Each number of the tree from left to right, and whether a minus sign stands directly before it."""
    if isinstance(node, Number):
        yield node, False
    elif isinstance(node, Negation):
        if isinstance(node.operand, Number):
            yield node.operand, True
        else:
            yield from numbers(node.operand)
    else:
        yield from numbers(node.left)
        yield from numbers(node.right)


def has_operation(node: Node) -> bool:
    """Whether two values are combined anywhere; a number, signed or in brackets, is none."""
    while isinstance(node, Negation):
        node = node.operand
    return isinstance(node, Operation)


def _apply(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        if right == 0:
            raise ExpressionError("divides by zero")
        return left / right
    return _power(left, right)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ExpressionError("an exponent is no integer")
    if base == 0 and exponent <= 0:
        raise ExpressionError("zero to the power of zero or less")
    # Guards before work: 9^(9^9) must never be started.
    if abs(exponent) * _bits(base) > MAX_BITS and abs(base) != 1:
        raise ExpressionError("the value is too large")
    if abs(base) == 1:
        return base if exponent % 2 else Fraction(1)
    return Fraction(base**exponent.numerator)


def _bits(value: Fraction) -> int:
    return max(abs(value.numerator).bit_length(), value.denominator.bit_length())
