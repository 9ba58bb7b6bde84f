"""The events of a running problem for anybody who wants to follow, from the first one, at their own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from reasoner.events import Event


class Feed:
    """Keeps every event: their number is bounded by the problem's tokens over the progress interval."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._waiting: set[asyncio.Event] = set()
        self._closed = False

    def put(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def close(self) -> None:
        self._closed = True
        self._wake()

    async def follow(self) -> AsyncIterator[Event]:
        """All events so far, then each new one; ends when the feed is closed."""
        position = 0
        more = asyncio.Event()
        self._waiting.add(more)
        try:
            while True:
                while position < len(self._events):
                    position += 1
                    yield self._events[position - 1]
                if self._closed:
                    return
                more.clear()
                await more.wait()
        finally:
            self._waiting.discard(more)

    def _wake(self) -> None:
        for more in self._waiting:
            more.set()
