"""Reading and judging: what a candidate contains can never raise, and nothing is learnt where nothing can be."""

from __future__ import annotations

from reasoner.checking import Checker, Reading
from reasoner.problem import Message, Problem
from tests.reasoner.support import RIGHT, Judge
from verifiers.base import Candidate, Outcome
from verifiers.base import Problem as Checked

PROBLEM = Problem((Message("user", "Which one?"),), answer="hush")


class Illiterate(Judge):
    def extract(self, problem: Checked, candidate: Candidate) -> str | None:
        raise ValueError("cannot\nread")


class Muddled(Judge):
    async def verify(self, problem: Checked, candidate: Candidate) -> bool:  # type: ignore[override]
        return True


class Abrupt(Judge):
    def verify(self, problem: Checked, candidate: Candidate) -> None:  # type: ignore[override]
        raise RuntimeError("before it began")


def test_an_unfinished_thought_has_no_answer_whatever_it_contains() -> None:
    checker = Checker(PROBLEM, Judge(), None, 1.0)
    assert checker.read(Candidate(RIGHT, closed=False)) == Reading()
    assert checker.read(Candidate(RIGHT)) == Reading(RIGHT, RIGHT)


def test_an_extractor_that_raises_is_no_answer_and_one_line_of_warning() -> None:
    reading = Checker(PROBLEM, Illiterate(), None, 1.0).read(Candidate(RIGHT))
    assert reading == Reading(fault="judge failed to read an answer: ValueError: cannot read")


def test_reading_never_sees_the_known_answer() -> None:
    seen: list[Checked] = []

    class Peeking(Judge):
        def extract(self, problem: Checked, candidate: Candidate) -> str | None:
            seen.append(problem)
            return None

    gold = Judge(needs_gold=True)
    Checker(PROBLEM, Peeking(), gold, 1.0).read(Candidate(RIGHT))
    assert seen[0].answer is None


async def test_what_is_no_verdict_is_unknown() -> None:
    for verifier in (Muddled(), Abrupt(), None):
        verdict = await Checker(PROBLEM, Judge(), verifier, 1.0).judge(Candidate(RIGHT))
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.score is None
