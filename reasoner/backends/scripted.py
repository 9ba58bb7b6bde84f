"""Paths that say what they are told to say, one token per path and virtual step: for tests and examples.

Runs in milliseconds and without a model. The same script and seed give the same events in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from engine.types import EngineStats, FinishReason, Phase
from reasoner.backends.protocol import (
    Advanced,
    Facts,
    ModelCard,
    PathAdvanced,
    PathEnded,
    Prompt,
    SessionEnded,
    SessionEvent,
    SessionRequest,
)
from reasoner.errors import BackendFailed, InvalidRequest
from reasoner.policies.base import Capability
from reasoner.problem import Message
from reasoner.sampling import Sampling

CLOSE = 2                          # tokens of a forced close, as with "</think>\n\n"


@dataclass(frozen=True, slots=True)
class ScriptedPath:
    """One path: think_tokens of thinking, then answer_tokens of answer; lengths do not depend on the texts.

    think_tokens 0: it does not think. forced_answer: what it says when its thinking was closed by force
    (None: the same). delay: steps before its first token. fails_at: tokens after which the engine fails it.
    """

    answer: str = ""
    think_tokens: int = 0
    answer_tokens: int = 4
    thinking: str = "..."
    forced_answer: str | None = None
    delay: int = 0
    fails_at: int | None = None


Script = Callable[[int, int], ScriptedPath]


@dataclass
class ScriptedBackend:
    """paths: one script per index, the last one for all further indices; or a function of (seed, index).

    thinks: prompts lead to thinking that can be closed. dies_at: virtual step at which the whole backend
    fails. step_seconds: real time per step, for demonstrations. pages: one per live path, so that leaks show
    in `stats`.
    """

    paths: Sequence[ScriptedPath] | Script
    context_length: int = 4096
    thinks: bool = True
    able: frozenset[Capability] = frozenset(Capability) - {Capability.VERIFIER}
    sampling: Sampling = field(default_factory=Sampling)
    path_default: int | None = None
    margin: int = 2
    dies_at: int | None = None
    step_seconds: float = 0.0
    sessions: list[ScriptedSession] = field(default_factory=list, init=False)

    @property
    def facts(self) -> Facts:
        card = ModelCard("scripted", "scripted", self.context_length)
        return Facts(card, self.able, self.sampling, self.path_default, CLOSE if self.thinks else 0, self.margin)

    def prepare(self, messages: tuple[Message, ...], enable_thinking: bool | None) -> Prompt:
        """One token per word."""
        tokens = sum(len(message.content.split()) for message in messages)
        return Prompt(messages, tokens, self.thinks and enable_thinking is not False)

    async def open(self, request: SessionRequest) -> ScriptedSession:
        await asyncio.sleep(0)
        session = ScriptedSession(self, request)
        self.sessions.append(session)
        return session

    def stats(self) -> EngineStats:
        used = sum(session.live for session in self.sessions)
        return EngineStats(steps=max((s.step for s in self.sessions), default=0), pages_used=used, page_size=1,
                           paths_running=used, groups_running=sum(not s.ended for s in self.sessions))

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()

    def script(self, seed: int, index: int) -> ScriptedPath:
        if callable(self.paths):
            return self.paths(seed, index)
        if not self.paths:
            raise InvalidRequest("a scripted backend needs at least one path")
        return self.paths[min(index, len(self.paths) - 1)]


class ScriptedSession:
    """Virtual time: each turn of `events` is a step that gives every live path one token (a forced close:
    two).
    """

    def __init__(self, backend: ScriptedBackend, request: SessionRequest) -> None:
        self.step = 0
        self.ended = False
        self._backend = backend
        self._request = request
        self._paths: list[_Path] = []
        self._out: deque[SessionEvent] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._spawn(request.n)

    @property
    def live(self) -> int:
        return sum(path.ended is None for path in self._paths)

    @property
    def steps_of(self) -> dict[int, int]:
        """The last step that gave each path a token."""
        return {path.index: path.last_step for path in self._paths}

    async def events(self) -> AsyncIterator[SessionEvent]:
        while not self.ended:
            await self._turn()
            while self._out:
                yield self._out.popleft()

    async def add_paths(self, n: int) -> range:
        if self._closed:
            raise InvalidRequest("the session is closed: no path can be added")
        await asyncio.sleep(0)
        return self._spawn(n)

    async def cancel(self, indices: Sequence[int]) -> int:
        await asyncio.sleep(0)
        chosen = [path for path in self._paths if path.index in set(indices) and path.ended is None]
        for path in chosen:
            self._end(path, FinishReason.CANCELLED)
        return sum(path.generated for path in chosen)

    async def close_thinking(self, indices: Sequence[int]) -> None:
        await asyncio.sleep(0)
        for path in self._paths:
            if path.index in set(indices) and path.phase is Phase.THINKING:
                path.close_next = True

    async def close(self) -> None:
        for path in self._paths:
            if path.ended is None:
                self._end(path, FinishReason.CANCELLED)
        self._closed = True
        self._wake.set()

    async def _turn(self) -> None:
        await asyncio.sleep(self._backend.step_seconds)
        if self._backend.dies_at is not None and self.step >= self._backend.dies_at:
            self.ended = True
            raise BackendFailed("the scripted backend died as it was told to")
        if not self.live and not self._out and not self._closed:
            self._wake.clear()
            await self._wake.wait()
        if self.live:
            self._advance()
        if self._closed and not self.live:
            self._out.append(SessionEnded(self._request.prompt.tokens, self._request.prompt.tokens))
            self.ended = True

    def _spawn(self, n: int) -> range:
        first = len(self._paths)
        for index in range(first, first + n):
            script = self._backend.script(self._request.seed, index)
            self._paths.append(_Path(index, script, self._request, self.step + script.delay))
        self._wake.set()
        return range(first, first + n)

    def _advance(self) -> None:
        moved = [path for path in self._paths if path.ended is None and path.starts_at <= self.step]
        steps = [path.take(self.step) for path in moved]
        self.step += 1
        if steps:
            self._out.append(Advanced(tuple(steps)))
        for path in moved:
            reason = path.finish()
            if reason is not None:
                self._end(path, reason)

    def _end(self, path: _Path, reason: FinishReason) -> None:
        path.ended = reason
        self._out.append(path.summary(reason))
        self._wake.set()


class _Path:
    """One scripted path while it is being told."""

    def __init__(self, index: int, script: ScriptedPath, request: SessionRequest, starts_at: int) -> None:
        self.index = index
        self.starts_at = starts_at
        self.ended: FinishReason | None = None
        self.phase = Phase.UNDECIDED
        self.think = self.answered = self.injected = 0
        self.thinking = self.text = ""
        self.close_next = False
        self.last_step = -1
        self._script = script
        self._request = request
        self._thinks = request.prompt.thinks and script.think_tokens > 0
        self._stopped = False

    @property
    def generated(self) -> int:
        return self.think + self.answered + self.injected

    def take(self, step: int) -> PathAdvanced:
        """One step's tokens."""
        self.last_step = step
        before = len(self.thinking), len(self.text)
        if self._thinks and self.phase is not Phase.ANSWER:
            self._think()
        else:
            self._answer()
        return PathAdvanced(self.index, self.phase, self.think, self.generated, self.injected,
                            self.thinking[before[0]:], self.text[before[1]:])

    def finish(self) -> FinishReason | None:
        """Why the path is over after this step, if it is."""
        if self._script.fails_at is not None and self.generated >= self._script.fails_at:
            return FinishReason.ERROR
        if self._stopped:
            return FinishReason.STOP_STRING
        if self.phase is Phase.ANSWER and self.answered >= self._script.answer_tokens:
            return FinishReason.EOS
        return FinishReason.LENGTH if self.generated >= self._request.path_budget else None

    def summary(self, reason: FinishReason) -> PathEnded:
        closed = not self._thinks or self.phase is Phase.ANSWER
        message = "failed as scripted" if reason is FinishReason.ERROR else ""
        return PathEnded(self.index, reason, self.think, self.generated, self.injected, self.thinking, self.text,
                         closed, message)

    def _think(self) -> None:
        if self.close_next or self._must_close():
            self.phase, self.injected = Phase.ANSWER, min(CLOSE, self._request.path_budget - self.generated)
            return
        if self.think >= max(self._script.think_tokens, self._request.min_think):
            self.phase = Phase.ANSWER
            self._answer()
            return
        self.phase = Phase.THINKING
        self.think += 1
        whole = self._script.thinking
        self.thinking = whole[:len(whole) * self.think // max(self._script.think_tokens, self.think)]

    def _must_close(self) -> bool:
        request = self._request
        over = request.think_budget is not None and self.think >= request.think_budget
        return over or self.generated + CLOSE + request.answer_reserve >= request.path_budget

    def _answer(self) -> None:
        self.phase = Phase.ANSWER
        self.answered += 1
        forced = self._script.forced_answer
        whole = self._script.answer if forced is None or not self.injected else forced
        self.text = whole[:len(whole) * self.answered // max(self._script.answer_tokens, 1)]
        hits = [self.text.find(stop) for stop in self._request.stop if stop in self.text]
        if hits:
            self.text, self._stopped = self.text[:min(hits)], True
