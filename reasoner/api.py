"""Reasoner: one problem in, one answered and accounted Result out. docs/api.md shows every option and field.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

from engine.types import EngineStats
from reasoner.backends.protocol import Backend, ModelCard
from reasoner.errors import InvalidRequest
from reasoner.events import Event
from reasoner.options import EngineOptions, Options
from reasoner.problem import Problem
from reasoner.resolve import resolve, seed_of
from reasoner.result import Result
from reasoner.run import Run
from reasoner.sync import SyncReasoner
from reasoner.waiting import uninterrupted

Askable = Problem | str | Sequence[Mapping[str, str]]


class Reasoner:
    """A loaded model that solves problems. Made by `load`, or directly over any backend.

    All methods belong to the event loop that made it; SyncReasoner is the same without a loop. Errors of the
    caller are ReasonerErrors of one line, raised before anything runs.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @classmethod
    def load(cls, model: str | Path | None = None, **options: Unpack[EngineOptions]) -> Loading:
        """A model to be loaded, for `async with` (which closes it again) or `await`.

        model: None for the one that ships with the package, else a folder or a name on the hub. Options: see
        `reasoner.options.EngineOptions`. Raises ModelError, InvalidRequest.
        """
        return Loading(model, options)

    @classmethod
    def load_sync(cls, model: str | Path | None = None, **options: Unpack[EngineOptions]) -> SyncReasoner:
        """The same, loaded at once, for programs without an event loop."""
        return cls.load(model, **options).sync()

    @property
    def model(self) -> ModelCard:
        return self._backend.facts.card

    def stats(self) -> EngineStats:
        """A snapshot of the engine: pages, running paths, tokens."""
        return self._backend.stats()

    def start(self, problem: Askable, **options: Unpack[Options]) -> Run:
        """Starts a problem and returns at once. Must be called inside the event loop. Raises as `solve`
        does.
        """
        return Run(resolve(problem, self._backend, **options), self._backend)

    async def solve(self, problem: Askable, **options: Unpack[Options]) -> Result:
        """The result of one problem: its text, messages, or a Problem. Options: see
        `reasoner.options.Options`.

        Cancelling the await ends all paths and frees their pages before it returns. Raises InvalidRequest,
        UnknownName, MissingCapability before anything runs, BackendFailed where the engine is dead.
        """
        return await self.start(problem, **options).join()

    async def stream(self, problem: Askable, **options: Unpack[Options]) -> AsyncIterator[Event]:
        """The events of one problem as they happen, ProblemFinished(result) last. Leaving the loop ends the
        run.
        """
        run = self.start(problem, **options)
        try:
            async for event in run:
                yield event
        finally:
            if not run.done:
                await uninterrupted(run.cancel())

    async def batch(self, problems: Iterable[Askable], *, concurrency: int = 8,
                    **options: Unpack[Options]) -> list[Result]:
        """The results of many problems, in their order, `concurrency` of them at a time.

        Problem i runs with seed + i. events: a folder, for one log per problem. All problems are checked
        before the first one runs; cancelling ends all.
        """
        if concurrency < 1:
            raise InvalidRequest(f"concurrency must be >= 1, got {concurrency}")
        plans = [resolve(problem, self._backend, **each)
                 for problem, each in _numbered(problems, options)]
        turns = asyncio.Semaphore(concurrency)

        async def one(index: int) -> Result:
            async with turns:
                return await Run(plans[index], self._backend).join()

        tasks = [asyncio.create_task(one(index)) for index in range(len(plans))]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Ends everything and frees the model. Idempotent."""
        await self._backend.close()

    async def __aenter__(self) -> Reasoner:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()


class Loading:
    """A model about to be loaded: `async with`, `await`, or `.sync()`."""

    def __init__(self, model: str | Path | None, options: EngineOptions) -> None:
        self._model = model
        self._options = options
        self._reasoner: Reasoner | None = None

    def __await__(self) -> Generator[Any, None, Reasoner]:
        return self._load().__await__()

    async def __aenter__(self) -> Reasoner:
        self._reasoner = await self._load()
        return self._reasoner

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._reasoner is not None:
            await self._reasoner.close()

    def sync(self) -> SyncReasoner:
        """Loads now, in a thread of its own. Raises as `load` does."""
        return SyncReasoner(self._load)

    async def _load(self) -> Reasoner:
        from reasoner.backends.native import NativeBackend

        return Reasoner(await NativeBackend.load(self._model, **self._options))


def _numbered(problems: Iterable[Askable], options: Options) -> list[tuple[Askable, Options]]:
    seed = seed_of(options.get("seed"))
    folder = options.get("events")
    numbered: list[tuple[Askable, Options]] = []
    for index, problem in enumerate(problems):
        each: Options = {**options, "seed": seed + index}
        if folder is not None:
            name = problem.id if isinstance(problem, Problem) and problem.id else f"{index:05d}"
            each["events"] = Path(folder) / f"{name}.jsonl"
        numbered.append((problem, each))
    return numbered
