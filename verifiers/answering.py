"""What verifiers of extracted answers share: extract, judge each distinct answer once, never raise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from verifiers.answers.extract import extract
from verifiers.answers.rules import Extraction, Rule
from verifiers.base import Candidate, Problem, Verdict, failed, unknown

WHY_NO_ANSWER = {
    "unclosed_thinking": "the thinking never ended, so there is no answer",
    "unterminated_box": "the last box is never closed, so there is no answer",
    "too_long": "the answer is too long to be a final answer",
    "nothing_found": "no answer was found in the text",
}

Judge = Callable[[str], Verdict]
"""The verdict on an extracted answer."""


class Unjudgeable(Exception):
    """A problem on which no answer can be judged: no gold, unusable gold, unreadable statement."""

    def __init__(self, reason: str, status: str) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


class AnswerVerifier(ABC):
    """A verifier whose verdict depends on the problem and the extracted answer alone.

    A subclass gives `name`, `needs_gold`, `rules`, and two pure functions: `canonical` and `judge_of`.
    """

    name: str
    needs_gold: bool
    rules: Sequence[Rule]

    @abstractmethod
    def canonical(self, problem: Problem, answer: str) -> str:
        """The class of `answer` in a vote: equal answers, equal strings."""

    @abstractmethod
    def judge_of(self, problem: Problem) -> Judge:
        """Reads the problem once, for all its answers. Raises Unjudgeable."""

    def extract(self, problem: Problem, candidate: Candidate) -> str | None:
        return extract(candidate, self.rules).answer

    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict:
        return (await self.verify_many(problem, [candidate]))[0]

    async def verify_many(self, problem: Problem, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Verdicts in the order of `candidates`; equal extracted answers are judged once.

        `details["rule"]` names the rule that found the answer. A fault of ours is `unknown` with status
        `error`: never a wrong answer, never an exception in the caller.
        """
        judge, judged = self._judge(problem), dict[str, Verdict]()
        verdicts = []
        for candidate in candidates:
            start = perf_counter()
            verdict, found = self._verdict(candidate, judge, judged)
            details = {**verdict.details, "rule": found.rule}
            elapsed = perf_counter() - start
            verdicts.append(replace(verdict, answer=found.answer, details=details, elapsed=elapsed))
        return verdicts

    def _judge(self, problem: Problem) -> Judge | Verdict:
        """The judge of this problem, or the one verdict that every candidate gets."""
        try:
            return self.judge_of(problem)
        except Unjudgeable as unfit:
            return unknown(unfit.reason, status=unfit.status)
        except Exception as fault:
            return self._fault(fault)

    def _verdict(
        self, candidate: Candidate, judge: Judge | Verdict, judged: dict[str, Verdict]
    ) -> tuple[Verdict, Extraction]:
        found = Extraction("none", None)
        try:
            found = extract(candidate, self.rules)
            verdict = judged.get(found.answer or "") or _judged(found, judge)
        except Exception as fault:
            return self._fault(fault), found
        if found.answer is not None:
            judged[found.answer] = verdict
        return verdict, found

    def _fault(self, fault: Exception) -> Verdict:
        return unknown(f"{self.name} failed: {fault!r:.200}")


def _judged(found: Extraction, judge: Judge | Verdict) -> Verdict:
    if isinstance(judge, Verdict):
        return judge
    if found.answer is None:
        return failed(WHY_NO_ANSWER[found.rule], status="no_answer")
    return judge(found.answer)
