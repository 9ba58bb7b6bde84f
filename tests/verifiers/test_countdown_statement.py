"""Reading numbers, target and rule out of a sentence or the data of a problem."""

from __future__ import annotations

from fractions import Fraction

import pytest

from verifiers.base import Problem
from verifiers.countdown.phrases import uses_all
from verifiers.countdown.statement import BadProblem, Statement, read_statement

FOUR = (3, 7, 11, 25)


def statement(numbers: tuple[int, ...], target: int | str, use_all: bool = False) -> Statement:
    return Statement(tuple(map(Fraction, numbers)), Fraction(target), use_all)


TRAINED = [
    ("Using the numbers [15, 21, 13], create an equation that equals 23.", (15, 21, 13), 23, False),
    (
        "Using the numbers [15, 21, 13], create an equation that equals 23. You can use basic arithmetic "
        "operations (+, -, *, /) and each number can only be used once.",
        (15, 21, 13),
        23,
        False,
    ),
    ("Use 3, 7, 11, 25 and the operations + - * / to make 56. Use each number once.", FOUR, 56, True),
    ("Countdown: numbers 3 7 11 25, target 56.", FOUR, 56, False),
    ("Use 3, 7, 11 and 25 to make 56.", FOUR, 56, False),
    ("Make 24 from 4, 7, 8 and 8.", (4, 7, 8, 8), 24, False),
    ("Combine the numbers 3, 7, 11 and 25 to get 56.", FOUR, 56, False),
    ("Numbers: 3 7 11 25. Target: 56.", FOUR, 56, False),
    ("Find an expression with 3, 7, 11, 25 that equals 56.", FOUR, 56, False),
]


@pytest.mark.parametrize(("prompt", "numbers", "target", "use_all"), TRAINED)
def test_the_usual_phrasings(prompt: str, numbers: tuple[int, ...], target: int, use_all: bool) -> None:
    assert read_statement(Problem(prompt)) == statement(numbers, target, use_all)


@pytest.mark.parametrize(
    "prompt",
    [
        "Can you make 56 from 3, 7, 11 and 25?",
        "How can I get 56 from 3, 7, 11, and 25?",
        "Using 3, 7, 11 and 25, get 56.",
        "Numbers: 3, 7, 11, 25\nTarget: 56",
        "Target: 56\nNumbers: 3 7 11 25",
        "Given the numbers [3, 7, 11, 25], find a way to reach 56.",
        "Target 56, numbers 3 7 11 25",
        "target 56: 3 7 11 25",
        "[3,7,11,25] -> 56",
        "3 7 11 25 → 56",
        "3, 7, 11, 25 = 56?",
        "Make 56 (3, 7, 11, 25)",
        r"Use $3$, $7$, $11$ and $25$ to make $\mathbf{56}$.",
        "Use **3, 7, 11, 25** to make **56**!",
        "The numbers are 3, 7, 11 and 25 and the target is 56.",
        "numbers = [3, 7, 11, 25], target = 56",
        "Write 56 using 3, 7, 11, 25, (+, -, *, /).",
        "With 3, 7, 11 & 25 — using +, −, ×, ÷ — reach exactly 56.",
        "Form the number 56 out of 3, 7, 11 and 25.",
        "I have the 4 numbers 3, 7, 11 and 25. How do I reach 56?",
        "Obtain 56 by adding, subtracting, multiplying or dividing 3, 7, 11 and 25",
        "Create an arithmetic expression equal to 56 with {3, 7, 11, 25}.",
        "Use the numbers 3, 7, 11, 25 to make 56. Answer in <answer> </answer> tags, for example "
        "<answer>(1 + 2) / 3 = 1</answer>.",
    ],
)
def test_variations_of_one_problem(prompt: str) -> None:
    assert read_statement(Problem(prompt)) == statement(FOUR, 56)


def test_large_negative_and_fractional_numbers() -> None:
    assert read_statement(Problem("Using 100, 75, 50, 3 make 1,000.")) == statement((100, 75, 50, 3), 1000)
    assert read_statement(Problem("Make -5 from 3, -8 and 2")) == statement((3, -8, 2), -5)
    assert read_statement(Problem("Make 1/2 from 1, 2")) == statement((1, 2), "1/2")


@pytest.mark.parametrize("prompt", ["Game of 24: 4, 7, 8, 8", "Solve the 24 game for 4 7 8 8."])
def test_the_game_of_24_knows_its_target_and_uses_every_number(prompt: str) -> None:
    assert read_statement(Problem(prompt)) == statement((4, 7, 8, 8), 24, True)


MUST = [
    "Use each number once.",
    "Use every number exactly once.",
    "Use all the numbers.",
    "Use all four numbers.",
    "Use all of them.",
    "using each number once",
    "Every number must be used.",
    "All numbers have to be used.",
    "The numbers must all be used.",
    "Combine all the numbers to reach it.",
    "You may use + and -, and each number exactly once.",
    "Each number can be used exactly once.",
    "It uses each of 3, 7, 11, 25 exactly once.",
    "Use each once.",
    "Use 3, 7, 11, 25, once each.",
]
MAY = [
    "",
    "Each number can only be used once.",
    "Each number may be used once.",
    "Each number can be used only once.",
    "Use each number at most once.",
    "Use each number only once.",
    "Use each number no more than once.",
    "You can use each number once.",
    "You don't have to use all the numbers.",
    "You need not use every number.",
    "Not all numbers need to be used.",
    "Use some or all of the numbers.",
    "All operations are allowed.",
    "Use all basic operations you like.",
    "All numbers are positive.",
    "You must use only these numbers.",
]


@pytest.mark.parametrize("sentence", MUST)
def test_sentences_that_make_every_number_a_duty(sentence: str) -> None:
    assert uses_all(sentence)


@pytest.mark.parametrize("sentence", MAY)
def test_sentences_that_only_limit(sentence: str) -> None:
    assert not uses_all(sentence)


def test_a_limit_in_one_sentence_does_not_lift_the_duty_of_another() -> None:
    assert uses_all("Use all the numbers. Each number can only be used once.")


def test_data_wins_over_the_text_and_the_text_fills_its_gaps() -> None:
    prompt = "Use 1, 2 and 3 to make 6. Use each number once."
    assert read_statement(Problem(prompt, data={"numbers": [4, 5], "target": 9})) == statement(
        (4, 5), 9, True
    )
    assert read_statement(Problem(prompt, data={"use_all": False})) == statement((1, 2, 3), 6)
    assert read_statement(Problem("Go!", data={"numbers": [4, 5], "target": 9})) == statement((4, 5), 9)


def test_decimals_in_data_are_what_was_written() -> None:
    found = read_statement(Problem("", data={"numbers": [0.1, "0.2"], "target": "3/10"}))
    assert found == Statement((Fraction(1, 10), Fraction(1, 5)), Fraction(3, 10), False)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("Hello", "no target"),
        ("What is 3 + 4?", "no target"),
        ("Make 24.", "no list of numbers"),
        ("Use 1, 2, 3 to make 6 or use 4, 5, 6 to make 6", "2 different lists"),
        ("Use 1, 2, 3 to make 6. Then use them to make 5.", "target is ambiguous: 6, 5"),
        ("Use the numbers 3 7 11 25", "no target"),
        ("make 1 from 2, 3 " * 1000, "longer than"),
    ],
)
def test_unreadable_problems_say_why(prompt: str, reason: str) -> None:
    with pytest.raises(BadProblem, match=reason):
        read_statement(Problem(prompt))


@pytest.mark.parametrize(
    "data",
    [
        {"numbers": "3 7", "target": 10},
        {"numbers": [], "target": 10},
        {"numbers": [3, None], "target": 10},
        {"numbers": [3, True], "target": 10},
        {"numbers": [3, 7], "target": "ten"},
        {"numbers": [3, 7], "target": float("nan")},
        {"numbers": [3, 7], "target": "1/0"},
        {"numbers": [3, 7], "target": 10, "use_all": "yes"},
    ],
)
def test_malformed_data_is_a_bad_problem(data: dict[str, object]) -> None:
    with pytest.raises(BadProblem, match="data"):
        read_statement(Problem("Use 3 and 7 to make 10.", data=data))
