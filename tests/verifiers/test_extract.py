"""Which text is searched, which rule speaks, and what it hands over."""

from __future__ import annotations

from time import perf_counter

import pytest

from verifiers.answers.boxed import last_box
from verifiers.answers.extract import extract
from verifiers.answers.rules import EXPLICIT, EXPRESSIVE, NUMERIC, TEXTUAL, Extraction
from verifiers.base import Candidate


@pytest.mark.parametrize(
    ("text", "rule", "answer"),
    [
        (r"So \boxed{4}.", "boxed", "4"),
        (r"\boxed{\frac{1}{1+\frac{1}{x}}}", "boxed", r"\frac{1}{1+\frac{1}{x}}"),
        (r"First \boxed{3}, corrected: \boxed{5}", "boxed", "5"),
        (r"\boxed {7}", "boxed", "7"),
        (r"\fbox{5}", "boxed", "5"),
        (r"\boxed 12", "boxed", "12"),
        (r"\boxed{\{1,2\}}", "boxed", r"\{1,2\}"),
        (r'{"answer": "\\boxed{5}"}', "boxed", "5"),
        (r"I will use \boxed{} as asked. The answer is 8.", "answer_is", "8"),
        (r"Marked with \boxed as asked: \boxed{4}", "boxed", "4"),
        (r"The answer is \boxed{6}, not 5.", "boxed", "6"),
        ("<answer> (1+2)*3 </answer>", "answer_tag", "(1+2)*3"),
        ("She makes $18.\n#### 18", "hashes", "18"),
        ("The answer is 42.", "answer_is", "42"),
        ("The answer is 3.5.", "answer_is", "3.5"),
        ("The answer to the question is 42 because it is.", "answer_is", "42"),
        ("**Final answer:** 42", "answer_is", "42"),
        ("**Final Answer**: $\\frac{1}{2}$", "answer_is", r"\frac{1}{2}"),
        ("Final answer:\n\n**7**\n", "answer_is", "7"),
        ("The answer is 4. No: the answer is 5.", "answer_is", "5"),
        ("答案是 3", "answer_is", "3"),
        ("Ответ: 3", "answer_is", "3"),
        ("It was 3.\nSo we have 1,234 seats", "last_number", "1,234"),
        ("-7", "last_number", "-7"),
    ],
)
def test_numeric_rules_in_order(text: str, rule: str, answer: str) -> None:
    assert extract(Candidate(text), NUMERIC) == Extraction(rule, answer)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (r"\boxed{3}, or better \boxed{4", "unterminated_box"),
        ("<think>The answer is 4", "unclosed_thinking"),
        ("</think> 3 <think> \\boxed{4}", "unclosed_thinking"),
        (r"\boxed{" + "1+" * 2000 + "1}", "too_long"),
        ("I cannot solve this.", "nothing_found"),
        ("", "nothing_found"),
        ("12\nI cannot solve this.", "nothing_found"),
    ],
)
def test_no_answer_says_why(text: str, rule: str) -> None:
    assert extract(Candidate(text), NUMERIC) == Extraction(rule, None)


@pytest.mark.parametrize(
    "text",
    [
        "<think>Maybe \\boxed{9}?</think>\nThe answer is \\boxed{8}.",
        "2+2, maybe \\boxed{9}\n</think>\n\\boxed{8}",
        "<think>\n\n</think>\n\n\\boxed{8}",
        "<think>a</think> \\boxed{9} <think>b</think> \\boxed{8}",
    ],
)
def test_only_what_follows_the_closed_thinking_counts(text: str) -> None:
    assert extract(Candidate(text), EXPLICIT).answer == "8"


def test_thinking_that_never_closed_has_no_answer_whatever_the_text_says() -> None:
    assert extract(Candidate(r"\boxed{8}", closed=False), NUMERIC).answer is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("7*(11-3)", "7*(11-3)"),
        ("So: **7 × (11 − 3) = 56**", "7 * (11 - 3) = 56"),
        ("First 1+1.\nThen $56 = 7 \\cdot (11-3)$.", "56 = 7 * (11-3)"),
    ],
)
def test_an_unmarked_expression_is_found_in_the_last_line(text: str, answer: str) -> None:
    assert extract(Candidate(text), EXPRESSIVE) == Extraction("last_expression", answer)


def test_an_unmarked_number_is_no_expression() -> None:
    assert extract(Candidate("It is 56."), EXPRESSIVE).answer is None


def test_the_last_line_is_the_answer_where_text_is_asked_for() -> None:
    assert extract(Candidate("Let me see.\nParis"), TEXTUAL) == Extraction("last_line", "Paris")


def test_an_escaped_brace_does_not_close_the_box() -> None:
    box = last_box(r"\boxed{\left\{1\right\}}")
    assert box is not None
    assert box.content == r"\left\{1\right\}"


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{" * 100000,
        "the answer is " * 50000,
        "1 " * 300000,
        "answer: \n" * 50000,
        "{" * 500000,
        "\\text{" * 50000,
        "<answer>" * 50000,
        "####  " * 50000,
        "((((1+" * 50000,
        "\n" * 300000,
        "-" * 300000,
        "#### a" + " " * 300000,
        "answer" + " " * 300000,
        "</answer>" * 50000,
    ],
    ids=lambda text: text[:10].strip(),
)
def test_huge_texts_are_searched_in_linear_time(text: str) -> None:
    start = perf_counter()
    extract(Candidate(text), NUMERIC)
    extract(Candidate(text), EXPRESSIVE)
    assert perf_counter() - start < 2.0
