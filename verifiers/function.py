"""A plain function as a verifier: its argument names say what it wants to see."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

from verifiers.answering import WHY_NO_ANSWER
from verifiers.answers.canonical import canonical_class
from verifiers.answers.extract import extract
from verifiers.answers.rules import TEXTUAL, Extraction
from verifiers.answers.trace import answer_text
from verifiers.base import Candidate, Outcome, Problem, Verdict, failed, passed, unknown
from verifiers.errors import BadVerifier

Result = Verdict | bool | float | int | None
"""What a function returns: a verdict, right or wrong, a score in [0, 1] (1 passes), None for unknown."""

VerifierFunction = Callable[..., Result | Awaitable[Result]]

_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
INPUTS = ("answer", "text", "thinking", "problem", "gold")


class FunctionVerifier:
    """Calls `function` with those of INPUTS that its arguments name.

    answer: str, and the function is not called where there is none (fail, `no_answer`). text: what follows
    the thinking ("" where it never ended). thinking: str. problem: Problem. gold: the gold answer as str; to
    name it makes the function an oracle (`needs_gold`), and a problem without one is `no_gold` (unknown).
    A synchronous function runs in a thread, so that it may block. What it raises is `unknown`.

    Raises BadVerifier for a function that needs anything else or takes none of these; what has a default
    keeps it.
    """

    def __init__(self, function: VerifierFunction, name: str | None = None) -> None:
        self.function = function
        self.inputs = _inputs_of(function)
        self.needs_gold = "gold" in self.inputs
        self.name = name or _name_of(function)

    def extract(self, problem: Problem, candidate: Candidate) -> str | None:
        return extract(candidate, TEXTUAL).answer

    def canonical(self, problem: Problem, answer: str) -> str:
        return canonical_class(answer)

    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict:
        return (await self.verify_many(problem, [candidate]))[0]

    async def verify_many(self, problem: Problem, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Verdicts in the order of `candidates`; one call for those that the function cannot tell apart."""
        seen: dict[Hashable, Verdict] = {}
        verdicts = []
        for candidate in candidates:
            found = extract(candidate, TEXTUAL)
            key = self._key(candidate, found.answer)
            if key not in seen:
                seen[key] = await self._call(problem, candidate, found)
            verdicts.append(seen[key])
        return verdicts

    def _key(self, candidate: Candidate, answer: str | None) -> Hashable:
        sees_text = "text" in self.inputs or "thinking" in self.inputs
        return (answer, candidate) if sees_text else answer

    async def _call(self, problem: Problem, candidate: Candidate, found: Extraction) -> Verdict:
        if problem.answer is None and self.needs_gold:
            return unknown("the problem has no gold answer", status="no_gold", answer=found.answer)
        if found.answer is None and "answer" in self.inputs:
            return failed(WHY_NO_ANSWER[found.rule], status="no_answer", rule=found.rule)
        offered = {
            "answer": found.answer,
            "text": answer_text(candidate) or "",
            "thinking": candidate.thinking,
            "problem": problem,
            "gold": problem.answer,
        }
        start = perf_counter()
        verdict = await self._guarded({name: offered[name] for name in self.inputs}, found.answer)
        return verdict.with_elapsed(perf_counter() - start)

    async def _guarded(self, arguments: dict[str, Any], answer: str | None) -> Verdict:
        try:
            if inspect.iscoroutinefunction(self.function):
                result = await self.function(**arguments)
            else:
                result = await _in_thread(self.function, arguments)
                if inspect.isawaitable(result):
                    result = await result
            return verdict_of(result, answer)
        except Exception as fault:
            return unknown(f"{self.name} raised {type(fault).__name__}: {fault}"[:300], answer=answer)


async def _in_thread(function: VerifierFunction, arguments: dict[str, Any]) -> Any:
    """The result of a function that may block. Its thread is a daemon: one that hangs holds up neither the loop's
    shared threads nor the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def tell(result: object, fault: Exception | None) -> None:
        if future.done():
            return
        if fault is not None:
            future.set_exception(fault)
        else:
            future.set_result(result)

    def work() -> None:
        result, fault = None, None
        try:
            result = function(**arguments)
        except Exception as error:
            fault = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, result, fault)

    threading.Thread(target=work, name=f"verifier {_name_of(function)}", daemon=True).start()
    return await future


def verdict_of(result: object, answer: str | None) -> Verdict:
    """The verdict that a result stands for. Raises TypeError or ValueError for what is no verdict."""
    if isinstance(result, Verdict):
        return result
    if result is None:
        return unknown("the function could not tell", answer=answer, status="unknown")
    if isinstance(result, bool):
        return (
            passed("the function accepts it", answer=answer) if result else failed("refused", answer=answer)
        )
    if isinstance(result, int | float):
        score = float(result)
        outcome = Outcome.PASS if score >= 1.0 else Outcome.FAIL
        status = "ok" if score >= 1.0 else "partial" if score > 0.0 else "wrong"
        return Verdict(outcome, score, status, f"the function scores it {score:g}", answer)
    raise TypeError(f"returned {type(result).__name__}; a verifier returns a Verdict, bool, score or None")


def _name_of(function: VerifierFunction) -> str:
    return str(function.__name__) if inspect.isroutine(function) else type(function).__name__


def _inputs_of(function: VerifierFunction) -> tuple[str, ...]:
    may_take = f"it may take: {', '.join(INPUTS)}"
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise BadVerifier(f"verifier {function!r:.60} hides its arguments; {may_take}") from None
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in _REST]
    strange = [name for name in needed if name not in INPUTS]
    if strange:
        raise BadVerifier(f"verifier function {_name_of(function)} asks for {', '.join(strange)}; {may_take}")
    inputs = tuple(one.name for one in parameters if one.name in INPUTS)
    if not inputs:
        raise BadVerifier(f"verifier function {_name_of(function)} looks at nothing; {may_take}")
    return inputs
