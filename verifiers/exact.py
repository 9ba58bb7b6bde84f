"""The `exact` verifier: the answer equals the gold answer as text, after normalisation of its spelling."""

from __future__ import annotations

from verifiers.answering import AnswerVerifier, Judge, Unjudgeable
from verifiers.answers.canonical import normal_text
from verifiers.answers.rules import TEXTUAL, Rule
from verifiers.base import Problem, Verdict, failed, passed


class Exact(AnswerVerifier):
    """Statuses: ok, wrong, no_answer; unknown: no_gold, bad_gold.

    Knows no numbers: "0.5" is not "1/2". Without a marked answer the last line of the text is the answer.
    """

    name = "exact"
    needs_gold = True

    def __init__(self, rules: tuple[Rule, ...] = TEXTUAL) -> None:
        self.rules = rules

    def canonical(self, problem: Problem, answer: str) -> str:
        return normal_text(answer)

    def judge_of(self, problem: Problem) -> Judge:
        if problem.answer is None:
            raise Unjudgeable("the problem has no gold answer", status="no_gold")
        gold = normal_text(problem.answer)
        if not gold:
            raise Unjudgeable("the gold answer is empty", status="bad_gold")
        return lambda answer: _judge(gold, normal_text(answer))


def _judge(gold: str, answer: str) -> Verdict:
    if answer == gold:
        return passed("equals the gold answer")
    return failed(f"says {answer[:60]!r}, not {gold[:60]!r}")
