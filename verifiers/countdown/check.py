"""Decides on one expression: is it legal, and does it equal the target? Pure, exact, no eval."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from verifiers.answers.plain import plain
from verifiers.arithmetic.evaluate import evaluate, has_operation, numbers
from verifiers.arithmetic.parser import BASIC, Node, Number, parse
from verifiers.arithmetic.tokens import ExpressionError
from verifiers.countdown.statement import Statement


class IllegalExpression(ValueError):
    """An expression that the rules of countdown do not allow; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Legal:
    """value: what a legal expression equals. claim: the number after or before an equals sign, if any."""

    value: Fraction
    claim: Fraction | None


def check(statement: Statement, answer: str) -> Legal:
    """The exact value of `answer`. Raises IllegalExpression where it breaks a rule or is no expression."""
    try:
        tree, claim = _read(plain(answer))
        if not has_operation(tree):
            raise IllegalExpression("it is only a number, no expression")
        _count(statement, tree)
        return Legal(evaluate(tree), claim)
    except ExpressionError as error:
        raise IllegalExpression(str(error)) from None


def _read(text: str) -> tuple[Node, Fraction | None]:
    """The tree, and the claimed value of "... = 56" or "56 = ..."."""
    sides = text.rstrip(". ").split("=")
    if len(sides) == 1:
        return parse(sides[0], BASIC), None
    if len(sides) > 2:
        raise IllegalExpression("it has more than one '='")
    left, right = (parse(side, BASIC) for side in sides)
    if has_operation(left) and has_operation(right):
        raise IllegalExpression("there is an expression on both sides of '='")
    expression, claim = (left, right) if has_operation(left) else (right, left)
    return expression, evaluate(claim)


def _count(statement: Statement, tree: Node) -> None:
    """Each given number at most once, and exactly once where the statement says so."""
    given, used = Counter(statement.numbers), Counter[Fraction]()
    for number, negated in numbers(tree):
        value = _named(number, negated, given, used)
        if value not in given:
            raise IllegalExpression(f"{number.text} is not among the numbers")
        used[value] += 1
    for value, count in used.items():
        if count > given[value]:
            raise IllegalExpression(f"uses {value} {_times(count)}{_but_given(given[value])}")
    unused = given - used
    if statement.use_all and unused:
        raise IllegalExpression(f"does not use {', '.join(str(value) for value in unused.elements())}")


def _named(number: Number, negated: bool, given: Counter[Fraction], used: Counter[Fraction]) -> Fraction:
    """Which given number is meant: "-5" is a given -5 while one is left, else a subtracted 5."""
    return -number.value if negated and used[-number.value] < given[-number.value] else number.value


def _times(count: int) -> str:
    return {2: "twice", 3: "three times", 4: "four times"}.get(count, f"{count} times")


def _but_given(count: int) -> str:
    return "" if count == 1 else f", but it is given {_times(count)}"
