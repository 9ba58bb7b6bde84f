"""The step loop: launch step k + 1, then commit step k. The only file that knows about the lag.

`turn` is one round: plan, launch, commit what is due. With overlap 0 a step is committed in the round that
launched it; with overlap 1 one more step is in flight while the host handles the last one's results, and a token
sampled for a path that has ended meanwhile is dropped, never emitted.

The loop is synchronous and owns no thread: commands go in through `handle`, messages come out of `take`.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.errors import EngineClosed, EngineError, InvalidParameter
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
from engine.reports import committed, group_finished
from engine.scheduler.lifecycle import PathState
from engine.scheduler.plan import Pending, StepPlan
from engine.scheduler.scheduler import Scheduler
from engine.scheduler.state import PathEntry
from engine.types import EngineStats, FinishReason, PathFinished, PathHeld, SamplingParams, check_indices


class Runner(Protocol):
    def check(self, sampling: SamplingParams) -> None:
        """Raises InvalidParameter for what this device cannot honour."""

    def launch(self, plan: StepPlan) -> Pending:
        """Starts a step and returns at once where the device allows it. Steps take effect in this order."""
        ...

    def close(self) -> None:
        """Gives back what outlives its last reference otherwise. Nothing is launched afterwards."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A step that has been launched, when, and the host's seconds for it."""

    plan: StepPlan
    pending: Pending
    launched: float
    host_seconds: float


@dataclass(slots=True)
class Waiter:
    """A reply that is due when these paths own nothing any more (group_id: when that group is gone as well)."""

    reply: Reply
    paths: list[PathEntry]
    group_id: int | None = None


class StepLoop:
    def __init__(self, scheduler: Scheduler, runner: Runner, *, overlap: int, kv_bytes_per_page: int) -> None:
        self.scheduler = scheduler
        self._runner = runner
        self._overlap = overlap
        self._kv_bytes_per_page = kv_bytes_per_page
        self._flight: deque[Flight] = deque()
        self._waiters: list[Waiter] = []
        self._out: list[Message] = []
        self._failure = ""
        self._stalled = False
        self._generated = self._prefilled = 0
        self._step_seconds = self._host_seconds = self._last_result = 0.0
        self.stats = self._snapshot()

    @property
    def idle(self) -> bool:
        """Nothing in flight, nobody waiting, and nothing that could start: sleep until a command comes."""
        return not self._flight and not self._waiters and (self._stalled or not self.scheduler.has_work)

    def take(self) -> list[Message]:
        out, self._out = self._out, []
        return out

    # -- commands --------------------------------------------------------------------------------------------

    def handle(self, command: Command) -> None:
        """Applies a command between two steps. Whatever is wrong with it goes back as a refusal."""
        self._stalled = False
        try:
            if self._failure and not isinstance(command, Shutdown):
                raise EngineClosed(self._failure)
            self._dispatch(command)
        except EngineError as error:
            self._out.append(Refusal(command.ticket, type(error).__name__, str(error)))
        except Exception as error:  # a bad value must not end the thread, and with it everybody's paths
            self._out.append(
                Refusal(command.ticket, InvalidParameter.__name__, f"{type(error).__name__}: {error}")
            )

    def _dispatch(self, command: Command) -> None:
        match command:
            case Open():
                self._runner.check(command.group.sampling)
                self.scheduler.submit(command.group_id, command.group)
                self._out.append(Reply(command.ticket))
            case AddPaths():
                self._add_paths(command)
            case EndPaths():
                ended = self.scheduler.end_paths(command.group_id, self._indices(command), command.reason)
                self._ended(command.ticket, ended, None)
            case CloseGroup():
                known = command.group_id in self.scheduler.groups
                ended = self.scheduler.close(command.group_id)
                self._ended(command.ticket, ended, command.group_id if known else None)
            case CloseThinking():
                self.scheduler.close_thinking(command.group_id, self._indices(command))
                self._out.append(Reply(command.ticket))
            case Resume():
                self.scheduler.resume(command.group_id, self._indices(command))
                self._out.append(Reply(command.ticket))
            case Shutdown():
                for group_id in list(self.scheduler.groups):
                    self._finish_all(self.scheduler.close(group_id))
                self._waiters.append(Waiter(Reply(command.ticket), []))

    def _add_paths(self, command: AddPaths) -> None:
        entry = self.scheduler.groups.get(command.group_id)
        if entry is None or entry.closing:
            raise InvalidParameter(
                f"group {command.group_id} has ended; open it with stays_open to add paths late"
            )
        check_indices(entry.group.first_index + len(entry.paths), command.n)
        added = self.scheduler.add_paths(command.group_id, command.n)
        self._out.append(Reply(command.ticket, indices=tuple(path.index for path in added)))

    def _indices(self, command: EndPaths | CloseThinking | Resume) -> tuple[int, ...]:
        entry = self.scheduler.groups.get(command.group_id)
        if command.indices is not None or entry is None:
            return command.indices or ()
        return tuple(entry.paths)

    def _ended(self, ticket: int, ended: list[PathEntry], group_id: int | None) -> None:
        self._finish_all(ended)
        tokens = sum(path.usage.generated for path in ended)
        self._waiters.append(Waiter(Reply(ticket, tokens=tokens), ended, group_id))

    # -- steps -----------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """One round. A step that raises ends every path with reason `error` and the loop with it."""
        try:
            moved = launched = self._launch()
            while self._flight and (len(self._flight) > self._overlap or not launched):
                self._commit(self._flight.popleft())
                moved = True
        except Exception as error:
            self.fail(cause_of(error))
            moved = True
        moved = self._finish_groups() or moved
        self._answer_waiters()
        # Whoever waits after a round without any effect waits for room that only a command can bring.
        self._stalled = not moved
        self.stats = self._snapshot()

    def _launch(self) -> bool:
        """Whether a step is in flight now that was not before."""
        if self._failure or not self.scheduler.has_work:
            return False
        begun = time.perf_counter()
        plan = self.scheduler.plan()
        planned = time.perf_counter()
        pending = self._runner.launch(plan)
        if plan.empty:
            return False
        self._flight.append(Flight(plan, pending, planned, time.perf_counter() - begun))
        self._prefilled += sum(len(chunk.ids) for chunk in plan.chunks)
        return True

    def _commit(self, flight: Flight) -> None:
        plan, result = flight.plan, flight.pending.result()
        now = time.perf_counter()
        outcome = self.scheduler.commit(plan, result)
        for group_id, event in committed(result, outcome):
            self._out.append(Emitted(group_id, event))
        self._generated += int(result.count[outcome.rows].sum())
        for path in outcome.held:
            self._out.append(Emitted(path.group_id, PathHeld(path.index, plan.step)))
        self._finish_all(outcome.ended)
        self._measure(flight, now)

    def _measure(self, flight: Flight, now: float) -> None:
        """A pass began when it was launched, or when the device had done with the one before; `now` it was over. The
        host's part is planning, launching and committing: never the waiting."""
        passes = flight.plan.repeat
        host = flight.host_seconds + time.perf_counter() - now
        self._step_seconds = smoothed(
            self._step_seconds, (now - max(flight.launched, self._last_result)) / passes
        )
        self._host_seconds = smoothed(self._host_seconds, host / passes)
        self._last_result = now

    def _finish_all(self, paths: list[PathEntry]) -> None:
        for path in paths:
            assert path.reason is not None
            message = self._failure if path.reason is FinishReason.ERROR else ""
            event = PathFinished(path.index, path.reason, path.usage, path.committed_step, message)
            self._out.append(Emitted(path.group_id, event))

    def _finish_groups(self) -> bool:
        over = self.scheduler.finished_groups()
        for entry in over:
            self._out.append(Emitted(entry.id, group_finished(entry)))
        if self.scheduler.idle and self.scheduler.pages.used:
            self.scheduler.pages.check(self.scheduler.tables())
        return bool(over)

    def _answer_waiters(self) -> None:
        still = []
        for waiter in self._waiters:
            gone = waiter.group_id is None or waiter.group_id not in self.scheduler.groups
            if gone and all(path.state is PathState.FINISHED for path in waiter.paths):
                self._out.append(waiter.reply)
            else:
                still.append(waiter)
        self._waiters = still

    def fail(self, message: str) -> None:
        """Ends every path with reason `error`; from now on every command but a shutdown is refused, with the first
        message: what goes wrong later is its consequence."""
        self._failure = self._failure or message
        self._flight.clear()
        self.scheduler.abandon_launched()
        for group_id, entry in list(self.scheduler.groups.items()):
            self._finish_all(self.scheduler.end_paths(group_id, list(entry.paths), FinishReason.ERROR))
            self.scheduler.close(group_id)

    def close(self) -> None:
        """The last call: the device gives back its memory."""
        self._runner.close()

    def _snapshot(self) -> EngineStats:
        scheduler = self.scheduler
        counts = scheduler.counts()
        return EngineStats(
            steps=scheduler.committed + 1,
            pages_total=scheduler.pages.total,
            pages_used=scheduler.pages.used,
            page_size=scheduler.limits.page_size,
            groups_waiting=counts.groups_waiting,
            groups_running=counts.groups_running,
            paths_waiting=counts.paths_waiting,
            paths_running=counts.paths_running,
            tokens_generated=self._generated,
            tokens_prefilled=self._prefilled,
            step_seconds=self._step_seconds,
            host_seconds=self._host_seconds,
            kv_bytes=scheduler.pages.used * self._kv_bytes_per_page,
        )


def cause_of(error: BaseException) -> str:
    """What a caller is told of it, in one line."""
    if isinstance(error, torch.OutOfMemoryError):
        what = ". ".join(str(error).split(". ")[:2])  # the rest is the allocator's advice to whoever calls it
        return f"out of device memory: lower kv_tokens, memory_share, max_paths or step_tokens ({what})"
    return f"{type(error).__name__}: {error}"


def smoothed(mean: float, value: float) -> float:
    """The mean of the last ten or so values."""
    return 0.9 * mean + 0.1 * value if mean else value
