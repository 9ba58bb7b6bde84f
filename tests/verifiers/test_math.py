"""The `math` and `exact` verifiers: what passes, what fails, and what teaches nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifiers.base import Candidate, Outcome, Problem, Verdict
from verifiers.exact import Exact
from verifiers.math import Math

MATH, EXACT = Math(), Exact()


async def grade(gold: str | None, text: str) -> Verdict:
    return await MATH.verify(Problem("", answer=gold), Candidate(text))


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("42", r"The answer is \boxed{42}."),
        ("42", "The answer is 42."),
        ("42", "6 * 7 is 42"),
        ("1/2", r"\boxed{0.5}"),
        ("0.5", r"\boxed{\frac{1}{2}}"),
        (r"\frac{3}{4}", r"\boxed{\dfrac{3}{4}}"),
        ("1234", r"\boxed{1,234}"),
        ("16", r"\boxed{016}"),
        ("29", "Final answer: $29.00"),
        ("5", r"\boxed{x = 5}"),
        (r"2\frac{1}{2}", r"\boxed{2.5}"),
        (r"3.5 \times 10^{-7}", "Final answer: 3.5e-7"),
        (r"50\%", r"\boxed{0.5}"),
        ("20", r"\boxed{20\%}"),
        ("12", r"\boxed{12\text{ cm}^2}"),
        (r"2\text{ hours}", r"\boxed{2}"),
        (r"\boxed{7}", r"\boxed{7}"),
        ("9 * 2 = 18\n#### 18", "She makes 18 dollars.\n#### 18"),
        ("B", "The answer is B. Note that A is close."),
        ("C", r"\boxed{\text{C}}"),
        ("E", r"\boxed{E: the long one}"),
        (r"\text{even}", r"\boxed{Even}"),
        (r"\frac{\pi}{2}", r"$\boxed{\dfrac{\pi}{2}}$"),
        ("3:30", r"\boxed{3{:}30}"),
    ],
)
async def test_right_answers_pass(gold: str, text: str) -> None:
    verdict = await grade(gold, text)
    assert (verdict.outcome, verdict.score) == (Outcome.PASS, 1.0), verdict.reason


@pytest.mark.parametrize(
    ("gold", "text", "status"),
    [
        ("42", r"\boxed{41}", "wrong"),
        (r"\frac{1}{3}", r"\boxed{0.3}", "wrong"),
        ("0.0000001", r"\boxed{0.0000002}", "wrong"),
        (r"\frac{1}{2^{99}}", r"\boxed{\frac{1}{2^{98}}}", "wrong"),
        ("1.5", r"\boxed{1.50001}", "wrong"),
        (r"15\%", r"\boxed{1.5\%}", "wrong"),
        ("0.5", r"\boxed{0.5\%}", "wrong"),
        ("3", r"I first thought \boxed{3}, but it is \boxed{5}", "wrong"),
        ("5", r"\boxed{3 \text{ or } 5}", "not_a_number"),
        ("5", r"\boxed{5x}", "not_a_number"),
        ("0", r"\boxed{exec('1') or 0}", "not_a_number"),
        ("5", r"\boxed{5", "no_answer"),
        ("5", "<think>5", "no_answer"),
        ("0", "I am not able to solve this problem.", "no_answer"),
        ("A", "ANSWER: None of the above", "wrong"),
        ("No", r"\boxed{\text{Yes}}", "wrong"),
    ],
)
async def test_wrong_answers_fail(gold: str, text: str, status: str) -> None:
    verdict = await grade(gold, text)
    assert (verdict.outcome, verdict.score, verdict.status) == (Outcome.FAIL, 0.0, status), verdict.reason


@pytest.mark.parametrize(
    ("gold", "text", "status"),
    [
        (None, r"\boxed{5}", "no_gold"),
        ("", r"\boxed{5}", "bad_gold"),
        ("$$", r"\boxed{5}", "bad_gold"),
        (None, "no answer at all", "no_gold"),
        ("x^3-x", r"\boxed{x(x-1)(x+1)}", "unsupported"),
        ("2", r"\boxed{\sqrt{4}}", "unsupported"),
        ("5 cm", r"\boxed{5\text{ metres}}", "unsupported"),
    ],
)
async def test_what_cannot_be_judged_is_unknown_and_never_wrong(
    gold: str | None, text: str, status: str
) -> None:
    verdict = await grade(gold, text)
    assert (verdict.outcome, verdict.score, verdict.status) == (Outcome.UNKNOWN, None, status)


async def test_the_reason_shows_both_values_and_the_rule() -> None:
    verdict = await grade("1/3", "So it is 0.25")
    assert verdict.reason == "equals 1/4, not 1/3"
    assert verdict.answer == "0.25"
    assert verdict.details["rule"] == "last_number"


@given(st.fractions(), st.fractions())
async def test_numbers_pass_exactly_when_equal(gold: Fraction, answer: Fraction) -> None:
    assert (await grade(str(gold), rf"\boxed{{{gold}}}")).passed
    assert (await grade(str(gold), rf"\boxed{{{answer}}}")).passed == (gold == answer)


MODEL_LIKE = st.text(alphabet="0123456789.,+-*/^%(){}\\boxedfracsqrt <>\n=$", max_size=80)


@given(st.one_of(st.text(max_size=60), MODEL_LIKE), st.one_of(st.text(max_size=60), MODEL_LIKE))
async def test_arbitrary_gold_and_text_never_raise(gold: str, text: str) -> None:
    for verifier in (MATH, EXACT):
        verdict = await verifier.verify(Problem(text, answer=gold), Candidate(text))
        assert verdict.status != "error", verdict.reason
        assert verifier.canonical(Problem(text), text) == verifier.canonical(Problem(""), text)


@given(MODEL_LIKE.filter(lambda text: "\\boxed" not in text and text.strip() and len(text) < 60))
async def test_an_answer_in_one_class_with_the_gold_never_fails(text: str) -> None:
    verdict = await MATH.verify(Problem("", answer=text), Candidate(f"<answer>{text}</answer>"))
    assert verdict.outcome is not Outcome.FAIL, verdict.reason


async def test_exact_compares_text_and_knows_no_numbers() -> None:
    problem = Problem("", answer="Paris")
    assert (await EXACT.verify(problem, Candidate("It is simple.\nparis."))).passed
    assert (await EXACT.verify(problem, Candidate("The answer is London."))).status == "wrong"
    assert (await EXACT.verify(Problem("", answer="1/2"), Candidate(r"\boxed{0.5}"))).status == "wrong"
    assert (await EXACT.verify(Problem(""), Candidate("Paris"))).status == "no_gold"
