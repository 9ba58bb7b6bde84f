"""Reading and judging answers: the only place where a problem's gold answer meets a candidate. Never raises.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from reasoner.problem import Problem
from verifiers.base import Candidate, Verdict, Verifier, unknown
from verifiers.base import Problem as Checked


@dataclass(frozen=True, slots=True)
class Reading:
    """An extracted answer and its vote class; fault: why reading failed, where it did."""

    answer: str | None = None
    key: str | None = None
    fault: str | None = None


class Checker:
    """extractor: reads answers and says which are equal. verifier: judges them, None where nobody can.

    timeout: seconds until a verdict is given up as unknown. The gold answer goes only to a verifier that
    needs it.
    """

    def __init__(self, problem: Problem, extractor: Verifier, verifier: Verifier | None, timeout: float) -> None:
        self.extractor = extractor
        self.verifier = verifier
        self._timeout = timeout
        self._blind = Checked(problem.prompt, None, problem.data)
        self._checked = Checked(problem.prompt, problem.answer if self.oracle else None, problem.data)

    @property
    def oracle(self) -> bool:
        """Its verdicts rest on the gold answer."""
        return self.verifier is not None and self.verifier.needs_gold

    def read(self, candidate: Candidate) -> Reading:
        """The answer of a path that ended. An unfinished thought has none, whatever it contains."""
        if not candidate.closed:
            return Reading()
        try:
            answer = self.extractor.extract(self._blind, candidate)
            if answer is None:
                return Reading()
            return Reading(_text(answer, "extract"), _text(self.extractor.canonical(self._blind, answer), "canonical"))
        except Exception as error:
            return Reading(fault=f"{self.extractor.name} failed to read an answer: {_line(error)}")

    async def judge(self, candidate: Candidate) -> Verdict:
        """The verdict; unknown where the verifier raises, hangs, or returns something else."""
        started = time.perf_counter()
        verdict = await self._judge(candidate)
        return verdict.with_elapsed(round(time.perf_counter() - started, 6))

    def public(self, verdict: Verdict) -> Verdict:
        """What a policy may see: a reason given by somebody who knows the gold answer may give it away."""
        return replace(verdict, reason="", details={}) if self.oracle else verdict

    async def _judge(self, candidate: Candidate) -> Verdict:
        if self.verifier is None:
            return unknown("there is no verifier", status="no_verifier")
        try:
            task = asyncio.ensure_future(_as_coroutine(self.verifier.verify(self._checked, candidate)))
        except Exception as error:
            return unknown(f"the verifier raised {_line(error)}", status="error")
        try:
            await asyncio.wait({task}, timeout=self._timeout)
            return self._outcome(task)
        finally:
            # Not awaited: a verifier that ignores its cancellation must not hold the problem up.
            task.cancel()

    def _outcome(self, task: asyncio.Future[Verdict]) -> Verdict:
        if not task.done():
            return unknown(f"no verdict within {self._timeout:g} s", status="timeout")
        if task.cancelled():
            return unknown("the verifier was cancelled", status="error")
        error = task.exception()
        if error is not None:
            return unknown(f"the verifier raised {_line(error)}", status="error")
        verdict: object = task.result()
        if not isinstance(verdict, Verdict):
            return unknown(f"the verifier returned a {type(verdict).__name__}, not a verdict", status="error")
        return verdict


async def _as_coroutine(awaitable: Awaitable[Verdict]) -> Verdict:
    return await awaitable


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text(value: object, method: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{method} returned {type(value).__name__}, not text")
    return value
