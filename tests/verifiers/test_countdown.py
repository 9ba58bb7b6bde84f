"""Verdicts on expressions: exact, with a reason, never an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifiers.base import Candidate, Outcome, Problem, Verdict
from verifiers.countdown import Countdown

PROBLEM = Problem("Use 3, 7, 11 and 25 to make 56.")
ALL_USED = Problem("Use 3, 7, 11, 25 and the operations + - * / to make 46. Use each number once.")
COUNTDOWN = Countdown()


async def judge(answer: str, problem: Problem = PROBLEM) -> Verdict:
    return await COUNTDOWN.verify(problem, Candidate(rf"The answer is \boxed{{{answer}}}."))


@pytest.mark.parametrize(
    "answer",
    [
        "7*(11-3)",
        "(11 - 3) * 7",
        "7×(11−3)",
        r"7 \times \left(11-3\right)",
        r"7 \cdot (11-3)",
        "7(11-3)",
        "7*(11-3) = 56",
        "56 = 7*(11-3)",
        "-7*(3-11)",
        "$7*(11-3)$",
    ],
)
async def test_right_expressions_pass(answer: str) -> None:
    verdict = await judge(answer)
    assert verdict.passed
    assert verdict.score == 1.0
    assert verdict.answer == answer
    assert verdict.details["rule"] == "boxed"


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ("7*7+7", "illegal", "uses 7 three times"),
        ("7+7*7-7+7*7", "illegal", "uses 7 6 times"),
        ("25+11+7*3", "wrong_value", "equals 57, not 56"),
        ("(25+3)/11", "wrong_value", "equals 28/11, not 56"),
        ("7*8", "illegal", "8 is not among the numbers"),
        ("37+25-7+1", "illegal", "37 is not among the numbers"),
        ("3 7 + 11", "illegal", "no sign between '3' and '7'"),
        ("56", "illegal", "it is only a number, no expression"),
        ("-(56)", "illegal", "it is only a number, no expression"),
        ("56=56", "illegal", "it is only a number, no expression"),
        ("25/(7-(11-3-1))", "illegal", "1 is not among the numbers"),
        ("7^2+7", "illegal", "'^' is not allowed"),
        ("7*(11-3)=55", "false_claim", "says 55, but equals 56"),
        ("11-3=8=8", "illegal", "it has more than one '='"),
        ("7*11=25+3", "illegal", "there is an expression on both sides of '='"),
        ("I do not know", "illegal", "'I' is no part of an arithmetic expression"),
    ],
)
async def test_wrong_expressions_fail_with_the_reason(answer: str, status: str, reason: str) -> None:
    verdict = await judge(answer)
    assert (verdict.outcome, verdict.status, verdict.reason) == (Outcome.FAIL, status, reason)


async def test_division_by_zero_is_a_fail() -> None:
    problem = Problem("Make 24 from 4, 7, 8 and 8.")
    verdict = await judge("(4+7)/(8-8)", problem)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "divides by zero")


async def test_repeated_numbers_may_be_used_as_often_as_given() -> None:
    problem = Problem("Make 24 from 4, 7, 8 and 8.")
    assert (await judge("8+8+4*7-4*7", problem)).reason == "uses 4 twice"
    assert (await judge("8+8+8", problem)).reason == "uses 8 three times, but it is given twice"
    assert (await judge("(7-8/8)*4", problem)).passed


async def test_a_number_may_stay_unused_unless_the_problem_asks_for_all() -> None:
    assert (await judge("25+7*3", ALL_USED)).reason == "does not use 11"
    assert (await judge("25+7+3+11", ALL_USED)).passed
    assert (await judge("25+7*3", Problem("Use 3, 7, 11, 25 to make 46."))).passed


async def test_a_given_negative_number_is_used_with_its_sign() -> None:
    problem = Problem("Make 5 from 3, -8 and 6", data={"numbers": [3, -8, 10], "target": 5})
    assert (await judge("-8+3+10", problem)).passed
    assert (await judge("3+10-8", problem)).reason == "8 is not among the numbers"


async def test_an_unreadable_problem_is_unknown_for_every_answer() -> None:
    for text in (r"\boxed{1+2}", "", "<think>"):
        verdict = await COUNTDOWN.verify(Problem("Tell me a joke."), Candidate(text))
        assert (verdict.outcome, verdict.score, verdict.status) == (Outcome.UNKNOWN, None, "bad_problem")


async def test_thinking_that_never_ended_is_no_answer() -> None:
    verdict = await COUNTDOWN.verify(PROBLEM, Candidate("", thinking="7*(11-3)", closed=False))
    assert (verdict.outcome, verdict.status, verdict.answer) == (Outcome.FAIL, "no_answer", None)


def test_votes_are_by_exact_value_among_legal_expressions() -> None:
    assert COUNTDOWN.canonical(PROBLEM, "7*(11-3)") == COUNTDOWN.canonical(PROBLEM, r"(11-3) \times 7 = 56")
    assert COUNTDOWN.canonical(PROBLEM, "7*8") != COUNTDOWN.canonical(PROBLEM, "7*(11-3)")
    assert COUNTDOWN.canonical(PROBLEM, "7*(11-3)=55") != COUNTDOWN.canonical(PROBLEM, "7*(11-3)")
    assert COUNTDOWN.canonical(PROBLEM, "25+7") == COUNTDOWN.canonical(PROBLEM, "7 + 25")


EXPRESSIONS = st.recursive(
    st.sampled_from(["3", "7", "11", "25", "56", "8"]),
    lambda inner: st.builds(lambda a, sign, b: f"({a}{sign}{b})", inner, st.sampled_from("+-*/"), inner),
    max_leaves=5,
)


@given(st.one_of(EXPRESSIONS, st.text(max_size=40)), st.one_of(EXPRESSIONS, st.text(max_size=40)))
async def test_one_class_means_one_outcome(one: str, other: str) -> None:
    if COUNTDOWN.canonical(PROBLEM, one) == COUNTDOWN.canonical(PROBLEM, other):
        first, second = await COUNTDOWN.verify_many(
            PROBLEM, [Candidate(f"<answer>{one}</answer>"), Candidate(f"<answer>{other}</answer>")]
        )
        assert first.outcome == second.outcome


@given(st.one_of(st.text(max_size=200), st.text(alphabet="0123456789+-*/()={}\\boxedfrac <>\n", max_size=80)))
async def test_arbitrary_output_and_prompts_never_raise(text: str) -> None:
    verdict = await COUNTDOWN.verify(PROBLEM, Candidate(text))
    assert verdict.status != "error", verdict.reason
    verdict = await COUNTDOWN.verify(Problem(text), Candidate(r"\boxed{1+2}"))
    assert verdict.status != "error", verdict.reason
    COUNTDOWN.canonical(Problem(text), text)
