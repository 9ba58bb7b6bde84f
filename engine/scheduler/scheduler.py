"""Events in, step plans out.

`submit`, `add_paths`, `end_paths`, `close`, `close_thinking`, `resume` and `commit` are the events; `plan` decides the
next step. Nothing here reads a clock or a tensor, so that the same events always give the same plans.

Policy. Groups are served in order of arrival and paths in order of index. A path starts only when its worst case
fits beside what has been promised before, so no path ever has to be thrown out; a prompt is opened only when, with
all the prompts that are open, the largest path of any of them still fits, so that some path can always start.
Decoding rows run in every step; what is left of the step's token budget goes to prompts, in whole blocks. Where nobody
can act on a token before it is known, several steps of the same rows are launched as one plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from engine.errors import InvalidParameter
from engine.kv.pages import PageAllocator
from engine.sampling.stops import FinishCode
from engine.scheduler.columns import Columns, Slots
from engine.scheduler.lifecycle import GroupState, PathState
from engine.scheduler.limits import Limits
from engine.scheduler.memory import Memory
from engine.scheduler.outcome import Outcome, shares_of
from engine.scheduler.plan import Admit, Chunk, Ints, StepPlan, StepResult
from engine.scheduler.state import GroupEntry, PathEntry
from engine.types import FinishReason, Group, PathUsage


@dataclass(frozen=True, slots=True)
class Counts:
    groups_waiting: int
    groups_running: int
    paths_waiting: int
    paths_running: int


class Scheduler:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.groups: dict[int, GroupEntry] = {}
        self.step = 0
        self.committed = -1
        self._memory = Memory(limits)
        self._columns = Columns.of(limits.max_paths)
        self._running: dict[int, PathEntry] = {}  # by slot
        self._retiring: list[PathEntry] = []
        self._prefilling: dict[int, GroupEntry] = {}
        self._ending: dict[int, GroupEntry] = {}  # out of paths, for now or for good
        self._closes: list[PathEntry] = []
        self._resumes: list[PathEntry] = []
        self._groups_waiting = self._paths_waiting = 0
        self._served = True  # nothing has happened since that somebody in the queue may wait for
        self._rows: tuple[Slots, tuple[int, ...]] = (np.empty(0, dtype=np.int64), ())

    # -- events ----------------------------------------------------------------------------------------------

    def submit(self, group_id: int, group: Group) -> GroupEntry:
        """Queues a group. Raises DoesNotFit, with the numbers, where one of its paths can never run."""
        limits = self.limits
        limits.refuse_impossible(group)
        sizes = limits.prompt_pages(group), limits.path_pages(group), limits.shared_pages(group)
        entry = self.groups[group_id] = GroupEntry(group_id, group, *sizes)
        self._groups_waiting += 1
        self.add_paths(group_id, group.n)
        return entry

    def add_paths(self, group_id: int, n: int) -> list[PathEntry]:
        entry = self.groups[group_id]
        self._paths_waiting += n
        self._served = False
        return [entry.add_path() for _ in range(n)]

    def end_paths(self, group_id: int, indices: Iterable[int], reason: FinishReason) -> list[PathEntry]:
        """Ends the live ones among these paths and returns them. Their pages follow when nothing can touch them."""
        ended = self._live(group_id, indices)
        for path in ended:
            self._end(path, reason)
        self._retire()
        return ended

    def close(self, group_id: int) -> list[PathEntry]:
        """Ends every live path; the group is gone when `finished_groups` names it."""
        entry = self.groups.get(group_id)
        if entry is None:
            return []
        entry.closing = True
        return self.end_paths(group_id, list(entry.paths), FinishReason.CANCELLED)

    def close_thinking(self, group_id: int, indices: Iterable[int]) -> None:
        """Asks for a forced close; a path that has not started yet takes it along."""
        for path in self._live(group_id, indices):
            path.close_requested = True
            if path.state is not PathState.WAITING:
                self._closes.append(path)

    def resume(self, group_id: int, indices: Iterable[int]) -> None:
        """Lets the held ones among these paths go on. Raises InvalidParameter for an index that is no path's; a group
        that is over has no effect either."""
        entry, wanted = self.groups.get(group_id), tuple(indices)
        if entry is not None and not all(i in entry.paths for i in wanted):
            raise InvalidParameter(f"group {group_id} has {len(entry.paths)} paths; cannot resume {wanted}")
        for path in self._live(group_id, wanted):
            if path.state is PathState.HELD:
                path.move(PathState.DECODING)
                self._columns.decoding[path.slot] = True
                self._resumes.append(path)

    def commit(self, plan: StepPlan, result: StepResult) -> Outcome:
        """Takes the result of the oldest launched plan. Rows that stood still, and rows whose path has ended since the
        launch, are dropped: what was sampled for them was never the path's."""
        self.committed = plan.step
        columns, slots = self._columns, np.array(plan.slots, dtype=np.int64)
        rows = ((result.count > 0) & columns.decoding[slots]).nonzero()[0]
        rows = rows[columns.group[slots[rows]].argsort(kind="stable")]
        slots = slots[rows]
        columns.generated[slots] = result.generated[rows]
        columns.think[slots] = result.think[rows]
        columns.injected[slots] += result.injected[rows]
        columns.committed_step[slots] = plan.step
        shares = shares_of(columns.group[slots], self.groups)
        ended, held = self._stop(slots, result.finish[rows])
        return Outcome(rows, columns.path[slots], shares, ended, held)

    def finished_groups(self) -> list[GroupEntry]:
        """Removes and returns the groups that are over: closed or run out of paths, with every page back."""
        over = [entry for entry in self._ending.values() if self._is_over(entry)]
        for entry in over:
            self._prefilling.pop(entry.id, None)
            self._groups_waiting -= entry.state is GroupState.WAITING
            if entry.table >= 0:
                self._memory.free_prompt(entry)
            entry.move(GroupState.CLOSED)
            self._served = False
            del self.groups[entry.id], self._ending[entry.id]
        return over

    def abandon_launched(self) -> None:
        """Nothing is in flight any more and nothing will be committed: the executor has failed."""
        self.committed = self.step
        self._retire()

    # -- the plan --------------------------------------------------------------------------------------------

    def plan(self) -> StepPlan:
        """The next step. Its effects on pages and slots are already booked when this returns."""
        columns = self._columns
        admits = self._start()
        rows = columns.wanting()
        left = columns.budget[rows] - columns.launched[rows]
        positions = tuple(columns.position[rows].tolist())
        chunks = self._chunks(len(rows))
        closes, resumes = slots_of(self._closes), slots_of(self._resumes)
        alone = bool(chunks or closes or resumes) or not len(rows)
        repeat = 1 if alone else self._repeat(rows, left)
        self._advance(rows, np.minimum(left, repeat))
        releases, edits, copies = self._memory.take()
        plan = StepPlan(
            step=self.step,
            releases=releases,
            admits=tuple(admits),
            edits=edits,
            copies=copies,
            closes=closes,
            resumes=resumes,
            slots=self._as_tuple(rows),
            positions=positions,
            chunks=chunks,
            repeat=repeat,
        )
        self._closes, self._resumes = [], []
        if not plan.empty:
            self.step += 1
        return plan

    def _start(self) -> list[Admit]:
        """Serves the queue in order. Nobody is overtaken by a later group that is not open yet; one that is open
        goes on, for it may hold the very room that an earlier group, come back with new paths, is waiting for."""
        admits: list[Admit] = []
        if self._served or not self._paths_waiting:
            return admits
        self._served = True
        blocked = False
        for entry in self.groups.values():
            if not entry.wanted:
                continue
            if entry.state is GroupState.WAITING:
                blocked = blocked or not self._open_prompt(entry)
            while entry.state is GroupState.RUNNING and entry.waiting:
                if not self._memory.path_fits(entry):
                    return admits
                admits.append(self._activate(entry, entry.paths[entry.waiting.popleft()]))
        return admits

    def _open_prompt(self, entry: GroupEntry) -> bool:
        if not self._memory.prompt_fits(entry):
            return False
        self._memory.open_prompt(entry)
        self._groups_waiting -= 1
        entry.move(GroupState.PREFILLING if entry.to_prefill else GroupState.RUNNING)
        if entry.to_prefill:
            self._prefilling[entry.id] = entry
        return True

    def _activate(self, entry: GroupEntry, path: PathEntry) -> Admit:
        path.move(PathState.DECODING)
        self._memory.open_path(entry, path, self._columns, self.step)
        entry.last_step = self.step  # the step that copies from the prompt's pages
        self._running[path.slot] = path
        self._paths_waiting -= 1
        if path.close_requested:
            self._closes.append(path)
        return Admit(
            slot=path.slot,
            index=path.index,
            seed=entry.group.seed,
            sampling=entry.group.sampling,
            prompt_ids=entry.group.prompt_ids,
            first_id=entry.group.prompt_ids[-1],
            position=entry.to_prefill,
            prompt_table=entry.table,
            shared_pages=entry.shared,
        )

    def _repeat(self, rows: Slots, left: Slots) -> int:
        """Forward passes of one plan: a power of two, never more than some row has a use for."""
        if self._columns.watched[rows].any():
            return 1
        return 1 << (min(self.limits.queue_steps, int(left.max())).bit_length() - 1)

    def _advance(self, rows: Slots, tokens: Slots) -> None:
        columns = self._columns
        columns.launched[rows] += tokens
        columns.position[rows] += tokens
        columns.last_step[rows] = self.step
        self._memory.grow_paths(self._running, rows, columns)

    def _chunks(self, rows: int) -> tuple[Chunk, ...]:
        """Fills what the decoding rows, in whole blocks, leave of the step."""
        chunks = []
        block = self.limits.block
        room = self.limits.chunk_blocks(rows)
        for entry in [entry for entry in self._prefilling.values() if entry.wanted]:
            if room <= 0:
                break
            start, stop = entry.prefilled, min(entry.prefilled + room * block, entry.to_prefill)
            self._memory.grow_prompt(entry, stop)
            chunks.append(Chunk(entry.table, start, entry.group.prompt_ids[start:stop]))
            entry.prefilled, entry.last_step = stop, self.step
            room -= -(-(stop - start) // block)
            if stop == entry.to_prefill:
                entry.move(GroupState.RUNNING)
                del self._prefilling[entry.id]
                self._served = False
        return tuple(chunks)

    def _as_tuple(self, rows: Slots) -> tuple[int, ...]:
        """The same tuple as long as the same rows run."""
        if len(rows) != len(self._rows[0]) or (rows != self._rows[0]).any():
            self._rows = rows, tuple(rows.tolist())
        return self._rows[1]

    # -- what a step came to ---------------------------------------------------------------------------------

    def _stop(self, slots: Slots, finish: Ints) -> tuple[list[PathEntry], list[PathEntry]]:
        """Ends and holds the paths whose code says so, and returns them."""
        ended: list[PathEntry] = []
        held: list[PathEntry] = []
        for i in finish.nonzero()[0].tolist():
            path, code = self._running[int(slots[i])], FinishCode(finish[i])
            if code is FinishCode.HELD:
                self._hold(path)
                held.append(path)
            else:
                self._end(path, code.reason)
                ended.append(path)
        self._retire()
        return ended, held

    def _hold(self, path: PathEntry) -> None:
        """What was launched for it behind the hold stands still: its next token follows the last committed one."""
        columns, slot = self._columns, path.slot
        path.move(PathState.HELD)
        columns.decoding[slot] = False
        columns.launched[slot] = columns.generated[slot]
        columns.position[slot] = self.groups[path.group_id].to_prefill + columns.generated[slot]

    def _end(self, path: PathEntry, reason: FinishReason) -> None:
        """Ends a live path; `_retire` gives back what it owns."""
        path.reason = reason
        if path.state is PathState.WAITING:
            path.move(PathState.FINISHED)
            self.groups[path.group_id].waiting.remove(path.index)
            self._paths_waiting -= 1
            self._served = False
            self._gone(path)
            return
        path.move(PathState.RETIRING)
        columns, slot = self._columns, path.slot
        columns.decoding[slot] = False
        path.usage = PathUsage(
            int(columns.generated[slot]), int(columns.think[slot]), int(columns.injected[slot])
        )
        path.committed_step, path.last_step = int(columns.committed_step[slot]), int(columns.last_step[slot])
        self._retiring.append(path)

    def _retire(self) -> None:
        """Gives back what no launched step can touch any more."""
        still = []
        for path in self._retiring:
            if path.last_step > self.committed:
                still.append(path)
                continue
            self._memory.free_path(self.groups[path.group_id], path)
            del self._running[path.slot]
            path.move(PathState.FINISHED)
            self._served = False
            self._gone(path)
        self._retiring = still

    def _gone(self, path: PathEntry) -> None:
        entry = self.groups[path.group_id]
        entry.unfinished -= 1
        if not entry.unfinished:
            self._ending[entry.id] = entry

    def _is_over(self, entry: GroupEntry) -> bool:
        stays = entry.group.stays_open and not entry.closing
        return not stays and entry.unfinished == 0 and entry.last_step <= self.committed

    def _live(self, group_id: int, indices: Iterable[int]) -> list[PathEntry]:
        entry = self.groups.get(group_id)
        paths = entry.paths if entry is not None else {}
        return [paths[i] for i in dict.fromkeys(indices) if i in paths and paths[i].live]

    # -- reports ---------------------------------------------------------------------------------------------

    @property
    def pages(self) -> PageAllocator:
        return self._memory.pages

    def tables(self) -> Iterator[list[int]]:
        """Every table that names pages, for the integrity check."""
        for entry in self.groups.values():
            yield entry.prompt_pages
        for path in self._running.values():
            entry = self.groups[path.group_id]
            yield entry.prompt_pages[: entry.shared] + path.pages

    def counts(self) -> Counts:
        return Counts(
            self._groups_waiting,
            len(self.groups) - self._groups_waiting,
            self._paths_waiting,
            len(self._running),
        )

    @property
    def has_work(self) -> bool:
        """Whether a plan could launch something or has bookkeeping to hand over."""
        return bool(self._memory.releases or self._paths_waiting or len(self._columns.wanting()))

    @property
    def idle(self) -> bool:
        return not self.groups


def slots_of(paths: Iterable[PathEntry]) -> tuple[int, ...]:
    """Of those that have one: it may have ended since it was asked for something."""
    return tuple(path.slot for path in paths if path.state in (PathState.DECODING, PathState.HELD))
