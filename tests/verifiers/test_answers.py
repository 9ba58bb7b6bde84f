"""Numbers, normal forms and the classes of a vote."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifiers.answers.canonical import canonical_class, choice_letter
from verifiers.answers.numbers import Quantity, read_number
from verifiers.answers.plain import plain

SAME = [
    ["1/2", "0.5", ".5", r"\frac{1}{2}", r"\dfrac12", "50%", "50\\%", "½", "0.50", r"$\frac 1 2$", "2/4"],
    ["1234", "1,234", "1 234", r"1{,}234", r"1,\!234", r"1\,234", "1234.", "1234.0", "+1234", r"\$1,234"],
    ["5/2", "2.5", r"2\frac{1}{2}", "2 1/2", "x = 5/2"],
    ["-5/8", r"-\frac58", r"\frac{-5}{8}", "−5/8", "-0.625"],
    ["7/20000000", "3.5e-7", r"3.5 \times 10^{-7}", r"3.5\mathrm{e}{-7}", "3.5E-7", r"3.5\cdot10^{-7}"],
    ["16", "016", "１６", "2^4", "4²", r"\textbf{16}", r"\text{16}", "**16**"],
    ["12 cm", r"12\text{ cm}", "12 cm."],
    ["yes", "Yes", "YES.", r"\text{Yes}", '"yes"'],
    ["(1, 2)", "(1,2)", "（1，2）", r"\left( 1, 2 \right)"],
    ["2:3", "2 : 3", "2{:}3"],
]
DIFFERENT = [
    ("0.3", "1/3"),
    ("1,234", "(1, 234)"),
    ("1, 234", "1,234"),
    ("01", "0,1"),
    ("0.0000001", "0.0000002"),
    ("5", "5x"),
    ("4", r"4\sqrt(2)"),
    ("3", "3 or 5"),
    ("121_3", "121_4"),
    ("5 cm", "5 km"),
    ("20", "20%"),
    ("p", "P"),
    ("3²", "32"),
    (r"\Pi", r"\pi"),
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_one_class_for_all_spellings(spellings: list[str]) -> None:
    assert {canonical_class(text) for text in spellings} == {canonical_class(spellings[0])}


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_answers_have_different_classes(one: str, other: str) -> None:
    assert canonical_class(one) != canonical_class(other)


ANSWERS = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="0123456789.,/-+*^() %eExX{}\\frac", max_size=20),
    st.sampled_from([text for spellings in SAME for text in spellings]),
    st.builds(lambda a, b: rf"\frac{{{a}}}{{{b}}}", st.integers(-99, 99), st.integers(1, 99)),
)


@given(ANSWERS)
def test_a_class_is_the_class_of_itself(answer: str) -> None:
    assert canonical_class(canonical_class(answer)) == canonical_class(answer)


@given(st.lists(ANSWERS, min_size=3, max_size=3))
def test_equality_of_classes_is_symmetric_and_transitive(answers: list[str]) -> None:
    def same(one: str, other: str) -> bool:
        return canonical_class(one) == canonical_class(other)

    a, b, c = answers
    assert same(a, a)
    assert same(a, b) == same(b, a)
    assert not (same(a, b) and same(b, c)) or same(a, c)


@given(st.fractions())
def test_every_way_to_write_a_fraction_has_its_value(value: Fraction) -> None:
    a, b = value.numerator, value.denominator
    for text in (str(value), rf"\frac{{{a}}}{{{b}}}", rf"$\dfrac{{{2 * a}}}{{{2 * b}}}$", f"x = {a} / {b}"):
        assert canonical_class(text) == str(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4))
def test_decimals_are_exact(value: object) -> None:
    number = read_number(f"{value:,f}")
    assert number is not None
    assert number.value == Fraction(str(value))


@given(st.text(max_size=40))
def test_plain_text_is_its_own_plain_text(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("15%", Quantity(Fraction(3, 20), percent=True)),
        ("15 percent", Quantity(Fraction(3, 20), percent=True)),
        ("42 apples", Quantity(Fraction(42), unit="apples")),
        (r"12\text{ cm}^2", Quantity(Fraction(12), unit="cm^2")),
        ("2hours", Quantity(Fraction(2), unit="hours")),
    ],
)
def test_percent_and_units_are_kept_beside_the_value(text: str, quantity: Quantity) -> None:
    assert read_number(text) == quantity


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        ".",
        "1.2.3",
        "0,1",
        "1,23",
        "1 2",
        "2 5/3",
        "1e999999",
        "9^{9^{9}}",
        "1/0",
        "5 m",
        "5x",
        "٣",
        "3 or 5",
        "5 million",
        "five",
        r"\sqrt{4}",
        "3x4",
        "--",
        "1" * 5000,
        "__import__('os')",
    ],
)
def test_what_is_not_one_plain_number_is_no_number(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("B: the long one", "B"),
        (r"\text{B}", "B"),
        ("Option B", "B"),
        ("None of the above", None),
        ("b", None),
        ("AB", None),
        ("", None),
        ("12", None),
    ],
)
def test_choice_letters(text: str, letter: str | None) -> None:
    assert choice_letter(text) == letter
