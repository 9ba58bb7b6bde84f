"""One place where everything that concerns a problem arrives: its session's events, verdicts, and commands.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from reasoner.backends.protocol import SessionEvent
from verifiers.base import Verdict


@dataclass(frozen=True, slots=True)
class Judged:
    path: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class BackendDied:
    error: str


@dataclass(frozen=True, slots=True)
class FinishEarly:
    """The user wants an answer now."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The user wants no answer any more."""


Arrival = SessionEvent | Judged | BackendDied | FinishEarly | Abort


class Inbox:
    """Unbounded, single consumer, same event loop on both sides."""

    def __init__(self) -> None:
        self._arrivals: deque[Arrival] = deque()
        self._ready = asyncio.Event()

    def put(self, arrival: Arrival) -> None:
        self._arrivals.append(arrival)
        self._ready.set()

    async def take(self) -> list[Arrival]:
        """Everything that has arrived, at least one thing."""
        await self._ready.wait()
        return self.drain()

    def drain(self) -> list[Arrival]:
        arrivals = list(self._arrivals)
        self._arrivals.clear()
        self._ready.clear()
        return arrivals
