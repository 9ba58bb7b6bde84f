"""The parser against fractions computed beside it, and its limits."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifiers.answers.plain import plain
from verifiers.arithmetic.evaluate import evaluate, has_operation, numbers
from verifiers.arithmetic.parser import WITH_POWERS, parse
from verifiers.arithmetic.tokens import ExpressionError

Tree = tuple[str, Fraction | None, int]
"""Text, exact value (None: divides by zero somewhere), and how tightly the text binds (3 number .. 1 sum)."""

BINDING = {"+": 1, "-": 1, "*": 2, "/": 2}


def _leaf(value: int) -> Tree:
    return str(value), Fraction(value), 3


def _joined(parts: tuple[Tree, str, Tree]) -> Tree:
    (left, a, tight_left), operator, (right, b, tight_right) = parts
    tight = BINDING[operator]
    left = left if tight_left >= tight else f"({left})"
    right = right if tight_right > tight else f"({right})"
    return f"{left}{operator}{right}", _combined(a, operator, b), tight


def _combined(a: Fraction | None, operator: str, b: Fraction | None) -> Fraction | None:
    if a is None or b is None or (operator == "/" and b == 0):
        return None
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / (b or 1)}[operator]


TREES = st.recursive(
    st.integers(0, 99).map(_leaf),
    lambda trees: st.tuples(trees, st.sampled_from("+-*/"), trees).map(_joined),
    max_leaves=12,
)


@given(TREES)
def test_random_trees_have_the_value_of_the_fraction_oracle(tree: Tree) -> None:
    text, value, _ = tree
    if value is None:
        with pytest.raises(ExpressionError, match="divides by zero"):
            evaluate(parse(text))
    else:
        assert evaluate(parse(text)) == value


LATEX_SIGNS = str.maketrans({"*": r" \times ", "/": r" \div ", "-": "−", "(": r"\left(", ")": r"\right)"})


@given(TREES)
def test_latex_and_unicode_signs_mean_the_same(tree: Tree) -> None:
    text, value, _ = tree
    if value is not None:
        assert evaluate(parse(plain(f"${text.translate(LATEX_SIGNS)}$"))) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"\frac{3}{4}*8", Fraction(6)),
        (r"\dfrac{1+2}{4}", Fraction(3, 4)),
        ("3(4+5)", Fraction(27)),
        ("(1+2)(3+4)", Fraction(21)),
        ("[1+2]*{3}", Fraction(9)),
        ("3 x 4", Fraction(12)),
        ("-(3-8)", Fraction(5)),
        ("8÷2×4", Fraction(16)),
        ("7 · 3", Fraction(21)),
        ("2-3-4", Fraction(-5)),
        ("0.1+0.2", Fraction(3, 10)),
    ],
)
def test_accepted_spellings(text: str, value: Fraction) -> None:
    assert evaluate(parse(plain(text))) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no expression"),
        ("3+", "ends too early"),
        ("3 7", "no sign between '3' and '7'"),
        ("(3+4", "ends too early"),
        ("(3+4]", "out of place"),
        ("3**2", r"'\*\*' is not allowed"),
        ("3^2", r"'\^' is not allowed"),
        ("3²", r"'\^' is not allowed"),
        ("7//2", "'//' is not allowed"),
        ("6/2(1+2)", "ambiguous"),
        ("a+1", "'a' is no part"),
        ("5!", "'!' is no part"),
        ("__import__('os')", "'_' is no part"),
        (r"\frac(3)(4)", "two arguments"),
        (r"\sqrt{4}", "is no part"),
        ("1+" * 250 + "1", "more than 400"),
        ("(" * 100 + "1" + ")" * 100, "nested deeper"),
        ("-" * 200 + "1", "nested deeper"),
        ("1" * 3000, "longer than"),
    ],
)
def test_what_is_no_expression_says_why(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        parse(plain(text))


@pytest.mark.parametrize("text", ["9^9^9", "9^(9^9)", "(10^3000)*(10^3000)", "2^(1/2)", "0^0", "0^(-1)"])
def test_powers_without_a_small_exact_value_are_refused_at_once(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(parse(text, WITH_POWERS))


def test_powers_bind_to_the_right_and_before_the_sign() -> None:
    assert evaluate(parse("-2^{3}^2", WITH_POWERS)) == -512
    assert evaluate(parse("10^{-2}", WITH_POWERS)) == Fraction(1, 100)


def test_numbers_come_from_left_to_right_with_their_sign() -> None:
    found = [(number.text, negated) for number, negated in numbers(parse("3-(-5+7)*-(2)"))]
    assert found == [("3", False), ("5", True), ("7", False), ("2", True)]


def test_a_signed_number_in_brackets_is_no_operation() -> None:
    assert not has_operation(parse("-((7))"))
    assert has_operation(parse("-(7+1)"))


@given(st.text(alphabet="0123456789+-*/^()[]{}. \\fracx=", max_size=60))
def test_arbitrary_text_is_a_value_or_an_expression_error(text: str) -> None:
    try:
        evaluate(parse(text, WITH_POWERS))
    except ExpressionError:
        return
