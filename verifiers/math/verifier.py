"""The `math` verifier: a final answer against the gold answer of the problem."""

from __future__ import annotations

from verifiers.answering import AnswerVerifier, Judge, Unjudgeable
from verifiers.answers.canonical import canonical_class
from verifiers.answers.rules import NUMERIC, Rule
from verifiers.base import Problem
from verifiers.math.compare import compare, read_gold


class Math(AnswerVerifier):
    """Statuses: ok, wrong, not_a_number, no_answer; unknown: no_gold, bad_gold, unsupported.

    rules: how an answer is found, in order. The last one by default takes the last number of the last line,
    a guess that `answers.rules.EXPLICIT` does without.
    """

    name = "math"
    needs_gold = True

    def __init__(self, rules: tuple[Rule, ...] = NUMERIC) -> None:
        self.rules = rules

    def canonical(self, problem: Problem, answer: str) -> str:
        return canonical_class(answer)

    def judge_of(self, problem: Problem) -> Judge:
        if problem.answer is None:
            raise Unjudgeable("the problem has no gold answer", status="no_gold")
        gold = read_gold(problem.answer)
        if gold is None:
            raise Unjudgeable(f"the gold answer {problem.answer!r:.60} is unusable", status="bad_gold")
        return lambda answer: compare(gold, answer)
