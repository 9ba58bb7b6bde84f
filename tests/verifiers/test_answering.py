"""What every verifier of extracted answers gets from its base class."""

from __future__ import annotations

from verifiers.answering import AnswerVerifier, Judge, Unjudgeable
from verifiers.answers.rules import EXPLICIT
from verifiers.base import Candidate, Outcome, Problem, Verdict, Verifier, passed

PROBLEM = Problem("?")


class Counting(AnswerVerifier):
    """Passes everything, notes what it was asked, breaks on "bug"."""

    name = "counting"
    needs_gold = False
    rules = EXPLICIT

    def __init__(self) -> None:
        self.problems_read = 0
        self.judged: list[str] = []

    def canonical(self, problem: Problem, answer: str) -> str:
        return answer

    def judge_of(self, problem: Problem) -> Judge:
        self.problems_read += 1
        if problem.prompt == "unfit":
            raise Unjudgeable("not this one", status="bad_problem")
        if problem.prompt == "bug":
            raise RuntimeError("in the problem")
        return self._judge_answer

    def _judge_answer(self, answer: str) -> Verdict:
        self.judged.append(answer)
        if answer == "bug":
            raise ZeroDivisionError("in the answer")
        return passed("fine")


def boxed(*answers: str) -> list[Candidate]:
    return [Candidate(rf"\boxed{{{answer}}}") for answer in answers]


def test_it_satisfies_the_protocol() -> None:
    assert isinstance(Counting(), Verifier)


async def test_equal_answers_are_judged_once_and_keep_their_place() -> None:
    verifier = Counting()
    candidates = [*boxed("1", "2", "1"), Candidate("The answer is 2."), Candidate("nothing"), *boxed("1")]
    verdicts = await verifier.verify_many(PROBLEM, candidates)
    assert verifier.judged == ["1", "2"]
    assert verifier.problems_read == 1
    assert [verdict.answer for verdict in verdicts] == ["1", "2", "1", "2", None, "1"]
    assert [verdict.status for verdict in verdicts] == ["ok", "ok", "ok", "ok", "no_answer", "ok"]
    assert [verdict.details["rule"] for verdict in verdicts[:4]] == ["boxed", "boxed", "boxed", "answer_is"]
    assert all(verdict.elapsed > 0 for verdict in verdicts)


async def test_no_candidates_no_verdicts() -> None:
    assert await Counting().verify_many(PROBLEM, []) == []


async def test_a_fault_on_one_answer_is_unknown_and_spares_the_others() -> None:
    verdicts = await Counting().verify_many(PROBLEM, boxed("1", "bug", "2"))
    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASS, Outcome.UNKNOWN, Outcome.PASS]
    assert verdicts[1].status == "error"
    assert verdicts[1].answer == "bug"
    assert "ZeroDivisionError" in verdicts[1].reason


async def test_an_unfit_problem_is_unknown_for_every_candidate() -> None:
    for prompt, status in (("unfit", "bad_problem"), ("bug", "error")):
        verdicts = await Counting().verify_many(Problem(prompt), [*boxed("1"), Candidate("", closed=False)])
        assert [verdict.status for verdict in verdicts] == [status, status]
        assert [verdict.score for verdict in verdicts] == [None, None]
