"""Random integer expressions: a tree, its value, and the two ways to write it."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Union

LARGEST = 9999

Expression = Union[int, "Operation"]


class Operation(NamedTuple):
    operator: str
    left: Expression
    right: Expression


def random_expression(rng: Random, leaves: int) -> tuple[Expression, int]:
    """A tree with that many leaves (2-99, quotients exact) and its value; no node leaves 0..LARGEST."""
    while True:
        tree = _build(rng, leaves)
        result = value(tree)
        if result is not None:
            return tree, result


def _build(rng: Random, leaves: int) -> Expression:
    if leaves == 1:
        return rng.randint(2, 99)
    operator = rng.choice("++--**/" if leaves == 2 else "++--**")
    if operator == "/":
        divisor = rng.randint(2, 20)
        return Operation("/", divisor * rng.randint(2, 49), divisor)
    left = rng.randint(1, leaves - 1)
    return Operation(operator, _build(rng, left), _build(rng, leaves - left))


def value(tree: Expression) -> int | None:
    """The value, or None where a node is negative, too large, no integer, or a product of two long
    factors, which could not be written out in one line."""
    if isinstance(tree, int):
        return tree
    left, right = value(tree.left), value(tree.right)
    if left is None or right is None:
        return None
    if tree.operator == "/":
        return left // right if right and left % right == 0 else None
    if tree.operator == "*":
        return left * right if left * right <= LARGEST and min(left, right) <= 99 else None
    result = left + right if tree.operator == "+" else left - right
    return result if 0 <= result <= LARGEST else None


def show(tree: Expression, top: bool = True) -> str:
    """Written with brackets around every inner operation: the canonical form."""
    if isinstance(tree, int):
        return str(tree)
    text = f"{show(tree.left, False)}{tree.operator}{show(tree.right, False)}"
    return text if top else f"({text})"


def show_short(tree: Expression) -> str:
    """Written with the brackets that the usual precedence needs, and no others."""
    if isinstance(tree, int):
        return str(tree)
    left, right = show_short(tree.left), show_short(tree.right)
    if _rank(tree.left) < _rank(tree):
        left = f"({left})"
    same = _rank(tree.right) == _rank(tree)
    if _rank(tree.right) < _rank(tree) or (same and tree.operator in "-/"):
        right = f"({right})"
    return f"{left}{tree.operator}{right}"


def _rank(tree: Expression) -> int:
    if isinstance(tree, int):
        return 2
    return 1 if tree.operator in "*/" else 0
