"""A run's connection to its session: commands out, the session's events into the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from reasoner.backends.protocol import Backend, Session, SessionRequest
from reasoner.errors import ReasonerError
from reasoner.inbox import BackendDied, Inbox

GRACE = 30.0                       # seconds that a closed session may take to say its last word

T = TypeVar("T")


class Wire:
    """warn: told of every command that the session refused; that a session is dead arrives as BackendDied."""

    def __init__(self, backend: Backend, inbox: Inbox, warn: Callable[[str], None]) -> None:
        self._backend = backend
        self._inbox = inbox
        self._warn = warn
        self._session: Session | None = None
        self._pump: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._session is not None

    async def open(self, request: SessionRequest) -> range:
        """Starts the first paths and returns their indices. Raises InvalidRequest, BackendFailed."""
        self._session = await self._backend.open(request)
        self._pump = asyncio.create_task(self._read(self._session))
        return range(request.n)

    async def add_paths(self, n: int) -> range:
        """The indices of the new paths; empty where they were refused."""
        if self._session is None:
            return range(0)
        return await self._tried(self._session.add_paths(n)) or range(0)

    async def cancel(self, indices: Sequence[int]) -> None:
        if self._session is not None and indices:
            await self._tried(self._session.cancel(indices))

    async def close_thinking(self, indices: Sequence[int]) -> None:
        if self._session is not None and indices:
            await self._tried(self._session.close_thinking(indices))

    async def release(self) -> None:
        """Ends every path; on return the session holds nothing and its last event is in the inbox."""
        if self._session is None or self._pump is None:
            return
        await self._session.close()
        _, late = await asyncio.wait({self._pump}, timeout=GRACE)
        if late:
            self._pump.cancel()
            self._warn(f"the backend did not confirm the end of its paths within {GRACE:g} s")

    async def _read(self, session: Session) -> None:
        try:
            async for event in session.events():
                self._inbox.put(event)
        except Exception as error:
            self._inbox.put(BackendDied(str(error) or type(error).__name__))

    async def _tried(self, command: Awaitable[T]) -> T | None:
        try:
            return await command
        except ReasonerError as error:
            self._warn(str(error))
            return None
