"""AsyncEngine: the engine as an asyncio program sees it. The step loop lives in a host: a thread or a process.

Only messages of `engine.messages` cross between the two: commands one by one, everything else in batches, one wake-up
of the event loop a step.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from engine.build import ModelInfo
from engine.config import EngineConfig
from engine.errors import EngineClosed, EngineError, InvalidParameter, error_named
from engine.hosts import LoopHost, start_host
from engine.messages import (
    AddPaths,
    CloseGroup,
    CloseThinking,
    Command,
    Emitted,
    EndPaths,
    Message,
    Open,
    Refusal,
    Reply,
    Resume,
    Shutdown,
)
from engine.sampling.state import check_ids
from engine.stream import GroupStream
from engine.types import EngineStats, FinishReason, Group, GroupEvent, GroupFinished, check_count

log = logging.getLogger("engine")

CLOSE_SECONDS = 30.0  # a step, the releases behind it, and the end of a process take a few at most


class AsyncEngine:
    """Made by `start`. All methods belong to the event loop that started it."""

    def __init__(self, host: LoopHost) -> None:
        self.model: ModelInfo = host.model
        self._host = host
        self._event_loop = asyncio.get_running_loop()
        self._tickets = itertools.count()
        self._ids = itertools.count()
        self._asked: dict[int, tuple[Command, asyncio.Future[Reply]]] = {}
        self._streams: dict[int, GroupStream] = {}
        self._closed: EngineClosed | None = None
        self._given_up = False

    @classmethod
    async def start(cls, config: EngineConfig) -> AsyncEngine:
        """Loads the model. Raises ModelLoadError, InvalidParameter, DoesNotFit."""
        engine = cls(await asyncio.to_thread(start_host, config))
        engine._host.run(
            lambda messages: engine._call(engine._receive, messages),
            lambda cause: engine._call(engine._ended, cause),
        )
        # A thread that is inside torch when the interpreter goes down aborts the process.
        atexit.register(engine._abandon)
        return engine

    async def open(self, group: Group) -> GroupHandle:
        """Queues a group. Raises DoesNotFit, InvalidParameter, EngineClosed."""
        check_ids(group.sampling, self.model.vocab_size)
        if max(group.prompt_ids) >= self.model.vocab_size or min(group.prompt_ids) < 0:
            raise InvalidParameter(f"the prompt holds ids outside the vocabulary of {self.model.vocab_size}")
        group_id = next(self._ids)
        stream = self._streams[group_id] = GroupStream(group)
        try:
            await self._ask(Open(next(self._tickets), group_id, group))
        except BaseException:
            # A refusal left nothing behind; a caller that was cancelled here may have opened it all the same.
            self._streams.pop(group_id, None)
            self._host.send(CloseGroup(next(self._tickets), group_id))
            raise
        return GroupHandle(self, group_id, stream.events)

    def stats(self) -> EngineStats:
        return self._host.stats

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Ends every path, waits for the loop. Idempotent. A loop that is not over after `timeout` seconds, because
        its device hangs, is given up: streams end with reason `error`; its process is killed, a thread is left behind.
        """
        if self._given_up:
            return
        deadline = time.monotonic() + timeout
        stuck = f"the engine did not stop within {timeout:g} s"
        try:
            async with asyncio.timeout(timeout):
                await self._ask(Shutdown(next(self._tickets)))
        except EngineClosed:
            pass
        except TimeoutError:
            self._ended(stuck)
        if not await asyncio.to_thread(self._host.stop, max(0.0, deadline - time.monotonic())):
            self._given_up = True
            log.warning("%s; its thread is left behind", stuck)
        self._ended(stuck)
        atexit.unregister(self._abandon)

    # -- the caller's side -----------------------------------------------------------------------------------

    async def _ask(self, command: Command) -> Reply:
        if self._closed is not None:
            raise self._closed
        future: asyncio.Future[Reply] = self._event_loop.create_future()
        self._asked[command.ticket] = command, future
        self._host.send(command)
        return await future

    def _receive(self, messages: list[Message]) -> None:
        for message in messages:
            match message:
                case Emitted(group_id, event):
                    if group_id in self._streams:
                        self._streams[group_id].put(event)
                        if isinstance(event, GroupFinished):
                            del self._streams[group_id]
                case Reply(ticket):
                    self._resolve(ticket, message)
                case Refusal(ticket, kind, text):
                    self._resolve(ticket, error_named(kind, text))

    def _resolve(self, ticket: int, outcome: Reply | EngineError) -> None:
        command, future = self._asked.pop(ticket, (None, None))
        # Now and not when the caller wakes up: events of these paths may be next, and it may never.
        if isinstance(command, AddPaths) and isinstance(outcome, Reply) and command.group_id in self._streams:
            self._streams[command.group_id].add(outcome.indices)
        if future is None or future.done():
            return
        if isinstance(outcome, Reply):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    def _ended(self, cause: str) -> None:
        """The loop is over: every stream that it has left open ends here, then whoever still waits learns it."""
        if self._closed is not None:
            return
        self._closed = EngineClosed(cause)
        for stream in self._streams.values():
            stream.fail(cause)
        for _, future in self._asked.values():
            if not future.done():
                future.set_exception(EngineClosed(cause))
        self._asked.clear()
        self._streams.clear()

    def _abandon(self) -> None:
        """The interpreter is going down without a `close`."""
        self._host.send(Shutdown(next(self._tickets)))
        self._host.stop(timeout=10)

    def _call(self, function: Callable[..., None], *args: object) -> None:
        """From the host's thread."""
        with suppress(RuntimeError):  # the caller's event loop is closed: nobody is left to tell
            self._event_loop.call_soon_threadsafe(function, *args)


class GroupHandle:
    """One open group. `events` has a single consumer."""

    def __init__(self, engine: AsyncEngine, group_id: int, events: asyncio.Queue[GroupEvent]) -> None:
        self.id = group_id
        self._engine = engine
        self._events = events

    async def events(self) -> AsyncIterator[GroupEvent]:
        """Every event of the group, GroupFinished last: also where the engine ends first, with reason `error` for each
        path that was live."""
        while True:
            event = await self._events.get()
            over = isinstance(event, GroupFinished)
            if over:
                self._events.put_nowait(event)  # a second reader learns of the end, too
            yield event
            if over:
                return

    async def add_paths(self, n: int) -> range:
        """Queues n more paths and returns their indices. Raises InvalidParameter where the group has ended."""
        check_count(n)
        reply = await self._ask(AddPaths(self._ticket(), self.id, n))
        return range(reply.indices[0], reply.indices[-1] + 1)

    async def cancel(self, indices: Sequence[int] | None = None) -> int:
        """Ends these paths (None: all) and returns the tokens that they had generated; on return their pages are
        free. Paths that have ended already count nothing."""
        return await self._end(indices, FinishReason.CANCELLED)

    async def finish(self, index: int, reason: FinishReason = FinishReason.STOP_STRING) -> None:
        """Ends a path for a reason that only the text layer can see."""
        await self._end([index], reason)

    async def close_thinking(self, indices: Sequence[int] | None = None) -> None:
        """Closes the thinking of these paths (None: all) by force from the next step on."""
        chosen = None if indices is None else tuple(indices)
        await self._ask(CloseThinking(self._ticket(), self.id, chosen))

    async def resume(self, indices: Sequence[int] | None = None) -> None:
        """Lets held paths go on (None: all that are held). Raises InvalidParameter for an index that is no path's; a
        path that is not held is left as it is."""
        chosen = None if indices is None else tuple(indices)
        await self._ask(Resume(self._ticket(), self.id, chosen))

    async def close(self) -> None:
        """Ends what still runs; on return every page of the group is free. Idempotent, also on a closed engine."""
        with suppress(EngineClosed):
            await self._ask(CloseGroup(self._ticket(), self.id))

    async def _end(self, indices: Sequence[int] | None, reason: FinishReason) -> int:
        chosen = None if indices is None else tuple(indices)
        return (await self._ask(EndPaths(self._ticket(), self.id, chosen, reason))).tokens

    def _ticket(self) -> int:
        return next(self._engine._tickets)

    async def _ask(self, command: Command) -> Reply:
        return await self._engine._ask(command)
