"""The `countdown` verifier: needs no gold answer, any right expression passes."""

from __future__ import annotations

from verifiers.answering import AnswerVerifier, Judge, Unjudgeable
from verifiers.answers.canonical import normal_text
from verifiers.answers.rules import EXPRESSIVE, Rule
from verifiers.base import Problem, Verdict, failed, passed
from verifiers.countdown.check import IllegalExpression, check
from verifiers.countdown.statement import BadProblem, Statement, read_statement


class Countdown(AnswerVerifier):
    """Statuses: ok, wrong_value, false_claim ("3+4=8"), illegal, no_answer; bad_problem (unknown).

    A sign of minus before a number or bracket is accepted: with positive numbers and a positive target it
    reaches nothing that subtraction does not.
    """

    name = "countdown"
    needs_gold = False

    def __init__(self, rules: tuple[Rule, ...] = EXPRESSIVE) -> None:
        self.rules = rules

    def canonical(self, problem: Problem, answer: str) -> str:
        """The exact value of a legal expression, else its text: the answers that pass share one class.

        Voting by text would split the right answers, which differ in form, and let a repeated wrong one win.
        """
        try:
            legal = check(read_statement(problem), answer)
        except (BadProblem, IllegalExpression):
            return f"illegal: {normal_text(answer)}"
        if legal.claim is not None and legal.claim != legal.value:
            return f"false claim: {normal_text(answer)}"
        return str(legal.value)

    def judge_of(self, problem: Problem) -> Judge:
        try:
            statement = read_statement(problem)
        except BadProblem as error:
            raise Unjudgeable(f"not readable as countdown: {error}", status="bad_problem") from None
        return lambda answer: _judge(statement, answer)


def _judge(statement: Statement, answer: str) -> Verdict:
    try:
        legal = check(statement, answer)
    except IllegalExpression as error:
        return failed(str(error), status="illegal")
    if legal.claim is not None and legal.claim != legal.value:
        return failed(f"says {legal.claim}, but equals {legal.value}", status="false_claim")
    if legal.value != statement.target:
        return failed(f"equals {legal.value}, not {statement.target}", status="wrong_value")
    return passed(f"equals {statement.target}")
