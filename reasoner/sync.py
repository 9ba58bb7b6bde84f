"""The API for programs without an event loop: the same calls, carried out by a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from engine.types import EngineStats
from reasoner.backends.protocol import ModelCard
from reasoner.errors import BackendFailed
from reasoner.events import Event
from reasoner.options import Options
from reasoner.problem import Problem
from reasoner.result import Result

if TYPE_CHECKING:
    from reasoner.api import Reasoner

T = TypeVar("T")
Askable = Problem | str | Sequence[Mapping[str, str]]


class SyncReasoner:
    """Made by `Reasoner.load_sync`. Safe to call from several threads. Close it, or use it in a `with`."""

    def __init__(self, load: Callable[[], Awaitable[Reasoner]]) -> None:
        """load: makes the Reasoner inside the loop's thread; what it raises is raised here."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="reasoner", daemon=True)
        self._thread.start()
        try:
            self._reasoner = self._call(_awaited(load))
        except BaseException:
            self._end_loop()
            raise

    @property
    def model(self) -> ModelCard:
        return self._reasoner.model

    def stats(self) -> EngineStats:
        return self._reasoner.stats()

    def solve(self, problem: Askable, **options: Unpack[Options]) -> Result:
        """See Reasoner.solve. An interrupt ends all paths and frees their pages before it is raised."""
        return self._call(self._reasoner.solve(problem, **options))

    def batch(self, problems: Iterable[Askable], *, concurrency: int = 8,
              **options: Unpack[Options]) -> list[Result]:
        """See Reasoner.batch."""
        return self._call(self._reasoner.batch(problems, concurrency=concurrency, **options))

    def stream(self, problem: Askable, **options: Unpack[Options]) -> Iterator[Event]:
        """See Reasoner.stream. Leaving the loop, or closing the iterator, ends the run."""
        events = self._reasoner.stream(problem, **options)
        try:
            while (event := self._call(_next(events))) is not None:
                yield event
        finally:
            # Nobody is left to answer when the interpreter goes down with an iterator open.
            if not self._loop.is_closed() and not sys.is_finalizing():
                self._call(_closed(events))

    def close(self) -> None:
        """Idempotent."""
        if self._thread.is_alive():
            self._call(self._reasoner.close())
            self._end_loop()

    def __enter__(self) -> SyncReasoner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise BackendFailed("the reasoner is closed")
        done = threading.Event()
        outcome: list[asyncio.Task[T]] = []

        def begin() -> None:
            started = self._loop.create_task(work)
            outcome.append(started)
            started.add_done_callback(lambda _: done.set())

        self._loop.call_soon_threadsafe(begin)
        try:
            done.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(lambda: outcome[0].cancel())
            done.wait()
            raise
        return outcome[0].result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _awaited(load: Callable[[], Awaitable[T]]) -> T:
    return await load()


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)


async def _closed(events: AsyncIterator[Event]) -> None:
    await events.aclose()  # type: ignore[attr-defined]
