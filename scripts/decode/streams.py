"""The caller whose clock counts: groups of an engine, and when their tokens are in its hands."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np

from engine.async_engine import AsyncEngine, GroupHandle
from engine.errors import EngineError
from engine.types import Committed, FinishReason, Group, PathFinished, SamplingParams
from scripts.decode.points import Point

# As the peer was measured.
SAMPLING = SamplingParams(1, temperature=0.8, top_p=0.95, ignore_eos=True)
FIRST = 8  # tokens of a path that do not count: its start is behind it


class Meter:
    """When each of `paths` paths has received its n-th token, for each n of `marks`; and when all have ended."""

    def __init__(self, paths: int, marks: Iterable[int]) -> None:
        loop = asyncio.get_running_loop()
        self._marks = sorted(marks)
        self._left = dict.fromkeys(self._marks, paths)
        self._reached: dict[int, asyncio.Future[float]] = {mark: loop.create_future() for mark in self._marks}
        self._running = paths
        self._over: asyncio.Future[float] = loop.create_future()

    async def at(self, mark: int) -> float:
        """time.perf_counter() of the moment when the last path had that many tokens. Raises EngineError."""
        return await asyncio.shield(self._reached[mark])

    async def over(self) -> float:
        """The moment when the last path had ended. Raises EngineError."""
        return await asyncio.shield(self._over)

    def received(self, before: int, after: int) -> None:
        """A path has now `after` tokens, and had `before`."""
        # Thousands of paths report here every few milliseconds: most calls end in this line.
        for mark in self._marks[bisect_right(self._marks, before) : bisect_right(self._marks, after)]:
            self._left[mark] -= 1
            if not self._left[mark] and not self._reached[mark].done():
                self._reached[mark].set_result(time.perf_counter())

    def ended(self) -> None:
        self._running -= 1
        if not self._running and not self._over.done():
            self._over.set_result(time.perf_counter())

    def fail(self, error: EngineError) -> None:
        for future in (*self._reached.values(), self._over):
            if not future.done():
                future.set_exception(error)
                future.exception()  # nobody need be waiting for this one


class Stream:
    """One open group and the task that receives its events. leave_at: a path is cancelled when it has so many tokens,
    while that is set. times: of every event with tokens, while it is a list."""

    def __init__(self, handle: GroupHandle, meter: Meter) -> None:
        self.handle, self.meter = handle, meter
        self.leave_at: int | None = None
        self.times: list[float] | None = None
        self._counts: dict[int, int] = {}
        self._leaving: set[asyncio.Task[int]] = set()
        self._task = asyncio.create_task(self._receive())

    async def close(self) -> None:
        await self.handle.close()
        await self._task

    async def _receive(self) -> None:
        try:
            async for event in self.handle.events():
                if isinstance(event, Committed):
                    self._count(event)
                elif isinstance(event, PathFinished):
                    self._counts.pop(event.index, None)
                    self.meter.ended()
                    if event.reason is FinishReason.ERROR:
                        self.meter.fail(EngineError(event.message))
        except EngineError as error:
            self.meter.fail(error)

    def _count(self, event: Committed) -> None:
        if self.times is not None:
            self.times.append(time.perf_counter())
        for path in event.paths:
            before, after = self._counts.get(path.index, 0), path.generated
            self._counts[path.index] = after
            self.meter.received(before, after)
            if self.leave_at is not None and before < self.leave_at <= after:
                self._leave(path.index)

    def _leave(self, index: int) -> None:
        task = asyncio.create_task(self.handle.cancel([index]))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


class Streams:
    """Groups with a prompt each. The prompts' pages stay until the end, so that each round of paths starts warm."""

    def __init__(self, streams: list[Stream], meter: Meter, prefill_seconds: float) -> None:
        self.streams = streams
        self.prefill_seconds = prefill_seconds
        self._meter = meter

    @classmethod
    async def open(
        cls,
        engine: AsyncEngine,
        prompts: Sequence[tuple[int, ...]],
        sampling: SamplingParams,
        *,
        watched: bool,
    ) -> Streams:
        """A path a group runs to its FIRST tokens and leaves. prefill_seconds: until the last has them."""
        meter = Meter(len(prompts), (FIRST,))
        begun = time.perf_counter()

        async def one(prompt: tuple[int, ...], seed: int) -> Stream:
            group = Group(prompt, 1, sampling, seed=seed, stays_open=True, watched=watched)
            stream = Stream(await engine.open(group), meter)
            stream.leave_at = FIRST
            return stream

        streams = await asyncio.gather(*(one(prompt, seed) for seed, prompt in enumerate(prompts)))
        seconds = await meter.at(FIRST) - begun
        await meter.over()
        return cls(list(streams), meter, seconds)

    async def add(self, marks: Iterable[int], paths: int = 1) -> Meter:
        """So many new paths for each group; those before them must be over."""
        self._meter = meter = Meter(paths * len(self.streams), marks)
        for stream in self.streams:
            stream.leave_at, stream.meter = None, meter
        await asyncio.gather(*(stream.handle.add_paths(paths) for stream in self.streams))
        return meter

    async def cancel(self) -> None:
        """Ends all paths; on return their pages are free and their events received."""
        await asyncio.gather(*(stream.handle.cancel() for stream in self.streams))
        await self._meter.over()

    async def close(self) -> None:
        await asyncio.gather(*(stream.close() for stream in self.streams))


@asynccontextmanager
async def opened(
    engine: AsyncEngine, point: Point, sampling: SamplingParams, *, watched: bool = False
) -> AsyncIterator[Streams]:
    """One group a path, so that every row of a step reads keys and values of its own."""
    prompts = random_prompts(point.batch, point.context, engine.model.vocab_size)
    streams = await Streams.open(engine, prompts, sampling, watched=watched)
    try:
        yield streams
    finally:
        await streams.close()


def random_prompts(count: int, length: int, vocab: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Different in the first token already: no two share a page."""
    ids = np.random.default_rng(seed).integers(0, vocab, (count, length))
    ids[:, 0] = np.arange(count) % vocab
    return [tuple(row) for row in ids.tolist()]


def sampling_for(budget: int, base: SamplingParams = SAMPLING) -> SamplingParams:
    return replace(base, max_tokens=budget)
