"""Verifiers and policies that behave in known ways, and a short way to run a script."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from reasoner import Reasoner
from reasoner.actions import Action, Cancel, CloseThinking, Select, Spawn, Stop, Verify
from reasoner.backends.scripted import ScriptedBackend, ScriptedPath
from reasoner.events import Event
from reasoner.policies.base import Capabilities, Policy
from reasoner.problem import Task
from reasoner.result import Result
from reasoner.view import View
from verifiers.base import Candidate, Problem, Verdict, failed, passed, unknown

RIGHT, WRONG, OTHER = "right", "wrong", "other"


def path(answer: str = WRONG, think: int = 20, answer_tokens: int = 4, **more: Any) -> ScriptedPath:
    return ScriptedPath(answer, think, answer_tokens, **more)


@dataclass
class Judge:
    """Passes RIGHT, fails anything else; the whole text is the answer. steps: how often it lets others run first."""

    steps: int = 0
    needs_gold: bool = False
    name: str = "judge"
    seen: list[Problem] = field(default_factory=list, repr=False)

    def extract(self, problem: Problem, candidate: Candidate) -> str | None:
        return candidate.text.strip() or None

    def canonical(self, problem: Problem, answer: str) -> str:
        return answer.lower()

    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict:
        self.seen.append(problem)
        for _ in range(self.steps):
            await asyncio.sleep(0)
        if candidate.text == RIGHT:
            return passed(f"the answer is {problem.answer}", answer=RIGHT)
        return failed(f"the answer is {problem.answer}", answer=candidate.text, secret=problem.answer)

    async def verify_many(self, problem: Problem, candidates: Sequence[Candidate]) -> list[Verdict]:
        return [await self.verify(problem, candidate) for candidate in candidates]


class Raising(Judge):
    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict:
        raise RuntimeError("out of order")


class Hanging(Judge):
    """Never answers; on the text `stubborn` it also ignores the first time it is cancelled."""

    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if candidate.text != "stubborn":
                raise
        await asyncio.sleep(3600)
        return unknown("this is never reached")


class Undecided(Judge):
    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict:
        return unknown("nothing was learnt")


class Scored(Judge):
    """Scores by a table of answers; nothing passes."""

    scores: ClassVar[dict[str, float]] = {RIGHT: 0.9, WRONG: 0.4, OTHER: 0.4}

    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict:
        verdict = failed("by the table", answer=candidate.text)
        return Verdict(verdict.outcome, self.scores[candidate.text], "score", verdict.reason, candidate.text)


@dataclass
class Dice(Policy):
    """Does anything at any time, sensible or not, as its dice say. It may forget to stop."""

    name: ClassVar[str] = "dice"
    wild: int = 3
    rng: random.Random = field(default_factory=random.Random, init=False)

    def start(self, task: Task, capabilities: Capabilities, rng: random.Random) -> Sequence[Action]:
        self.rng = rng
        return [Spawn(self.n)]

    def on(self, event: Event, view: View) -> Sequence[Action]:
        return [self._any(len(view.paths)) for _ in range(self.wild) if self.rng.random() < 0.15]

    def _any(self, paths: int) -> Action:
        index = self.rng.randrange(paths + 2)
        kinds: list[Action] = [Cancel((index,), "dice"), Cancel((index, index + 1), "dice"), CloseThinking((index,)),
                               Verify(index), Select(path=index), Select(key=WRONG)]
        rare: list[Action] = [Spawn(1), Spawn(2), Stop("dice")]
        return self.rng.choice(rare if self.rng.random() < 0.1 else kinds)


async def solve(paths: Any, **options: Any) -> Result:
    """Solves over scripted paths; backend options by the name of `backend`."""
    backend = ScriptedBackend(paths, **options.pop("backend", {}))
    options.setdefault("seed", 0)
    async with Reasoner(backend) as reasoner:
        result = await reasoner.solve("Which one?", **options)
    check_bill(result)
    assert backend.stats().pages_used == 0
    return result


def check_bill(result: Result) -> None:
    """The identities that hold for every result, whatever happened."""
    usage = result.usage
    tokens = [p.tokens for p in result.paths]
    assert usage.completion_tokens == usage.think_tokens + usage.answer_tokens + usage.injected_tokens
    assert usage.completion_tokens == sum(t.generated for t in tokens)
    assert usage.think_tokens == sum(t.think for t in tokens)
    assert usage.injected_tokens == sum(t.injected for t in tokens)
    assert usage.cancelled_tokens == sum(p.tokens.generated for p in result.paths if p.cancelled)
    assert all(t.generated == t.think + t.answer + t.injected and min(t.think, t.answer, t.injected) >= 0
               for t in tokens)
    assert all(p.tokens.generated <= result.budget.path for p in result.paths)
    assert 0 <= usage.critical_path_tokens <= usage.completion_tokens
    assert 0 <= usage.after_stop_tokens <= usage.completion_tokens
    assert result.verified == (result.outcome == "verified")
    assert not any(p.cancelled and p.index in v.paths for p in result.paths for v in result.votes)
