"""Events in, step plans out.

`submit`, `add_paths`, `end_paths`, `close`, `close_thinking` and `commit` are the events; `plan` decides the next
step. Nothing here reads a clock or a tensor, so that the same events always give the same plans.

Policy. Groups are served in order of arrival and paths in order of index. A path starts only when its worst case
fits beside what has been promised before, so no path ever has to be thrown out; a prompt is opened only when, with
all the prompts that are open, the largest path of any of them still fits, so that some path can always start.
Decoding rows run in every step; what is left of the step's token budget goes to prompts, in whole blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.errors import DoesNotFit
from engine.kv.edits import PageCopy, PageEdit
from engine.kv.pages import PageAllocator
from engine.scheduler.lifecycle import GroupState, PathState
from engine.scheduler.plan import Admit, Chunk, StepPlan
from engine.scheduler.state import GroupEntry, PathEntry
from engine.types import FinishReason, Group


@dataclass(frozen=True, slots=True)
class Limits:
    """pages: of the pool. step_tokens: rows of one step, decode and prefill together. block: rows that a chunk
    is cut into; every chunk but a prompt's last is a multiple of it."""

    pages: int
    page_size: int
    max_paths: int
    step_tokens: int
    block: int
    context_length: int


@dataclass(frozen=True, slots=True)
class RowResult:
    """What one step did to one slot."""

    slot: int
    count: int
    generated: int
    think: int
    injected: int
    finish: FinishReason | None


@dataclass(frozen=True, slots=True)
class Counts:
    groups_waiting: int
    groups_running: int
    paths_waiting: int
    paths_running: int


class Scheduler:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pages = PageAllocator(limits.pages)
        self.groups: dict[int, GroupEntry] = {}
        self.step = 0
        self.committed = -1
        self._promised = 0
        self._slots = list(range(limits.max_paths - 1, -1, -1))
        self._tables = list(range(2 * limits.max_paths - 1, limits.max_paths - 1, -1))
        self._running: dict[int, PathEntry] = {}
        self._retiring: list[PathEntry] = []
        self._releases: list[int] = []
        self._closes: list[PathEntry] = []

    # -- events ----------------------------------------------------------------------------------------------

    def submit(self, group_id: int, group: Group) -> GroupEntry:
        """Queues a group. Raises DoesNotFit, with the numbers, where one of its paths can never run."""
        self._refuse_impossible(group)
        entry = GroupEntry(group_id, group)
        for _ in range(group.n):
            entry.add_path()
        self.groups[group_id] = entry
        return entry

    def add_paths(self, group_id: int, n: int) -> list[PathEntry]:
        entry = self.groups[group_id]
        return [entry.add_path() for _ in range(n)]

    def end_paths(self, group_id: int, indices: Iterable[int], reason: FinishReason) -> list[PathEntry]:
        """Ends the live ones among these paths and returns them. Their pages follow when nothing can touch them."""
        entry = self.groups.get(group_id)
        if entry is None:
            return []
        ended = [entry.paths[i] for i in indices if i in entry.paths and entry.paths[i].live]
        for path in ended:
            self._end(entry, path, reason)
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
        entry = self.groups.get(group_id)
        paths = entry.paths if entry is not None else {}
        for path in (paths[i] for i in indices if i in paths and paths[i].live):
            path.close_requested = True
            if path.state is PathState.DECODING:
                self._closes.append(path)

    def commit(self, step: int, rows: Iterable[RowResult]) -> list[tuple[int, PathEntry]]:
        """Takes the results of the oldest launched step; returns (row, path) for the rows whose token counts.
        Rows whose path has ended since the launch are dropped: their token was never the path's."""
        self.committed = step
        owners = []
        for i, row in enumerate(rows):
            path = self._running.get(row.slot)
            if path is None or path.state is not PathState.DECODING or row.count == 0:
                continue
            path.generated, path.think, path.injected = row.generated, row.think, path.injected + row.injected
            path.committed_step = step
            owners.append((i, path))
            if row.finish is not None:
                self._end(self.groups[path.group_id], path, row.finish)
        self._retire()
        return owners

    def finished_groups(self) -> list[GroupEntry]:
        """Removes and returns the groups that are over: closed or run out of paths, with every page back."""
        over = [entry for entry in self.groups.values() if self._is_over(entry)]
        for entry in over:
            if entry.state in (GroupState.PREFILLING, GroupState.RUNNING):
                self._free_prompt(entry)
            entry.move(GroupState.CLOSED)
            del self.groups[entry.id]
        return over

    def abandon_launched(self) -> None:
        """Nothing is in flight any more and nothing will be committed: the executor has failed."""
        self.committed = self.step
        self._retire()

    # -- the plan --------------------------------------------------------------------------------------------

    def plan(self) -> StepPlan:
        """The next step. Its effects on pages and slots are already booked when this returns."""
        admits: list[Admit] = []
        edits: list[PageEdit] = []
        copies: list[PageCopy] = []
        self._start(admits, edits, copies)
        rows = [path for path in self._running.values() if self._wants_token(path)]
        positions = tuple(path.position for path in rows)
        for path in rows:
            self._advance(path, edits)
        chunks = self._chunks(len(rows), edits)
        closes = tuple(path.slot for path in self._closes if path.state is PathState.DECODING)
        plan = StepPlan(
            self.step,
            tuple(self._releases),
            tuple(admits),
            tuple(edits),
            tuple(copies),
            closes,
            (),
            tuple(path.slot for path in rows),
            positions,
            chunks,
        )
        self._releases, self._closes = [], []
        if not plan.empty:
            self.step += 1
        return plan

    def _start(self, admits: list[Admit], edits: list[PageEdit], copies: list[PageCopy]) -> None:
        """Serves the queue in order. Nobody is overtaken by a later group that is not open yet; one that is open
        goes on, for it may hold the very room that an earlier group, come back with new paths, is waiting for."""
        blocked = False
        for entry in self.groups.values():
            if not self._is_wanted(entry):
                continue
            if entry.state is GroupState.WAITING:
                blocked = blocked or not self._open_prompt(entry)
            while entry.state is GroupState.RUNNING and entry.waiting:
                if not self._fits(entry):
                    return
                self._activate(entry, entry.paths[entry.waiting.popleft()], admits, edits, copies)

    def _open_prompt(self, entry: GroupEntry) -> bool:
        need, path = self._prompt_pages(entry.group), self._path_pages(entry.group)
        opened = [other.group for other in self.groups.values() if other.table >= 0]
        prompts = need + sum(map(self._prompt_pages, opened))
        largest = max([path, *map(self._path_pages, opened)])
        if not self._tables or max(self._promised + need + path, prompts + largest) > self.limits.pages:
            return False
        self._promised += need
        entry.table = self._tables.pop()
        self.pages.claim(entry.table, need)
        entry.move(GroupState.PREFILLING if entry.to_prefill else GroupState.RUNNING)
        return True

    def _fits(self, entry: GroupEntry) -> bool:
        return bool(self._slots) and self._promised + self._path_pages(entry.group) <= self.limits.pages

    def _activate(
        self,
        entry: GroupEntry,
        path: PathEntry,
        admits: list[Admit],
        edits: list[PageEdit],
        copies: list[PageCopy],
    ) -> None:
        path.move(PathState.DECODING)
        path.slot = self._slots.pop()
        path.reserved = self._path_pages(entry.group)
        path.position = entry.to_prefill
        entry.last_step = self.step  # the step that copies from the prompt's pages
        self._promised += path.reserved
        self._running[path.slot] = path
        if path.close_requested:
            self._closes.append(path)
        self.pages.claim(path.slot, path.reserved)
        shared, partial = divmod(entry.to_prefill, self.limits.page_size)
        group = entry.group
        admits.append(
            Admit(
                path.slot,
                path.index,
                group.seed,
                group.sampling,
                group.prompt_ids,
                group.prompt_ids[-1],
                path.position,
                shared,
            )
        )
        self.pages.retain(entry.prompt_pages[:shared])
        edits += [PageEdit(path.slot, at, page) for at, page in enumerate(entry.prompt_pages[:shared])]
        if partial:
            page = self._grow(path, shared, edits)
            copies.append(PageCopy(entry.prompt_pages[shared], page, partial))

    def _advance(self, path: PathEntry, edits: list[PageEdit]) -> None:
        at = path.position // self.limits.page_size
        if at == self._shared(path) + len(path.pages):
            self._grow(path, at, edits)
        path.position += 1
        path.launched += 1
        path.last_step = self.step

    def _grow(self, path: PathEntry, at: int, edits: list[PageEdit]) -> int:
        page = self.pages.allocate(path.slot, path.pages[-1] if path.pages else None)
        path.pages.append(page)
        edits.append(PageEdit(path.slot, at, page))
        return page

    def _chunks(self, rows: int, edits: list[PageEdit]) -> tuple[Chunk, ...]:
        """Fills what the decoding rows, in whole blocks, leave of the step."""
        chunks = []
        block = self.limits.block
        room = self.limits.step_tokens // block - -(-rows // block)
        for entry in self.groups.values():
            if entry.state is not GroupState.PREFILLING or not self._is_wanted(entry):
                continue
            if room <= 0:
                break
            start, stop = entry.prefilled, min(entry.prefilled + room * block, entry.to_prefill)
            self._hold_prompt(entry, stop, edits)
            chunks.append(Chunk(entry.table, start, entry.group.prompt_ids[start:stop]))
            entry.prefilled, entry.last_step = stop, self.step
            room -= -(-(stop - start) // block)
            if stop == entry.to_prefill:
                entry.move(GroupState.RUNNING)
        return tuple(chunks)

    def _hold_prompt(self, entry: GroupEntry, tokens: int, edits: list[PageEdit]) -> None:
        while len(entry.prompt_pages) * self.limits.page_size < tokens:
            last = entry.prompt_pages[-1] if entry.prompt_pages else None
            page = self.pages.allocate(entry.table, last)
            edits.append(PageEdit(entry.table, len(entry.prompt_pages), page))
            entry.prompt_pages.append(page)

    # -- endings ---------------------------------------------------------------------------------------------

    def _end(self, entry: GroupEntry, path: PathEntry, reason: FinishReason) -> None:
        path.reason = reason
        if path.state is PathState.WAITING:
            path.move(PathState.FINISHED)
            entry.waiting.remove(path.index)
            entry.unfinished -= 1
            return
        path.move(PathState.RETIRING)
        self._retiring.append(path)
        self._retire()

    def _retire(self) -> None:
        """Gives back what no launched step can touch any more."""
        still = []
        for path in self._retiring:
            if path.last_step > self.committed:
                still.append(path)
                continue
            shared = self.groups[path.group_id].prompt_pages[: self._shared(path)]
            self.pages.release(path.pages)
            self.pages.release(shared)
            self.pages.unclaim(path.slot)
            path.pages = []
            self._promised -= path.reserved
            del self._running[path.slot]
            self._slots.append(path.slot)
            self._releases.append(path.slot)
            path.move(PathState.FINISHED)
            self.groups[path.group_id].unfinished -= 1
        self._retiring = still

    def _free_prompt(self, entry: GroupEntry) -> None:
        self.pages.release(entry.prompt_pages)
        self.pages.unclaim(entry.table)
        entry.prompt_pages = []
        self._promised -= self._prompt_pages(entry.group)
        self._tables.append(entry.table)
        self._releases.append(entry.table)

    def _is_over(self, entry: GroupEntry) -> bool:
        stays = entry.group.stays_open and not entry.closing
        return not stays and entry.unfinished == 0 and entry.last_step <= self.committed

    def _is_wanted(self, entry: GroupEntry) -> bool:
        return bool(entry.waiting) and not entry.closing

    # -- sizes -----------------------------------------------------------------------------------------------

    def _wants_token(self, path: PathEntry) -> bool:
        limit = self.groups[path.group_id].group.sampling.max_tokens
        return path.state is PathState.DECODING and path.launched < limit

    def _prompt_pages(self, group: Group) -> int:
        return -(-(len(group.prompt_ids) - 1) // self.limits.page_size)

    def _path_pages(self, group: Group) -> int:
        """Worst case of one path's own pages: the last sampled token is never written to the cache."""
        tokens = len(group.prompt_ids) - 1 + group.sampling.max_tokens
        return -(-tokens // self.limits.page_size) - (len(group.prompt_ids) - 1) // self.limits.page_size

    def _shared(self, path: PathEntry) -> int:
        return self.groups[path.group_id].to_prefill // self.limits.page_size

    def _refuse_impossible(self, group: Group) -> None:
        prompt, budget, limits = len(group.prompt_ids), group.sampling.max_tokens, self.limits
        if prompt + budget > limits.context_length:
            raise DoesNotFit(
                f"prompt of {prompt} tokens + budget of {budget} exceeds the context of "
                f"{limits.context_length}; the largest budget here is "
                f"{max(0, limits.context_length - prompt)}"
            )
        need = self._prompt_pages(group) + self._path_pages(group)
        if need > limits.pages:
            held = (
                self._prompt_pages(group) - (prompt - 1) // limits.page_size
            )  # the partial page, copied by each path
            fits = (limits.pages - held) * limits.page_size - (prompt - 1)
            raise DoesNotFit(
                f"prompt of {prompt} tokens + budget of {budget} needs {need} pages of {limits.page_size}, the pool "
                f"has {limits.pages}; the largest budget here is {max(0, fits)}"
            )

    # -- reports ---------------------------------------------------------------------------------------------

    def tables(self) -> Iterator[list[int]]:
        """Every table that names pages, for the integrity check."""
        for entry in self.groups.values():
            yield entry.prompt_pages
        for path in self._running.values():
            yield self.groups[path.group_id].prompt_pages[: self._shared(path)] + path.pages

    def counts(self) -> Counts:
        queued = sum(entry.state is GroupState.WAITING for entry in self.groups.values())
        waiting = sum(len(entry.waiting) for entry in self.groups.values())
        return Counts(queued, len(self.groups) - queued, waiting, len(self._running))

    @property
    def has_work(self) -> bool:
        """Whether a plan could launch something or has bookkeeping to hand over."""
        if self._releases or any(self._wants_token(path) for path in self._running.values()):
            return True
        return any(self._is_wanted(entry) for entry in self.groups.values())

    @property
    def idle(self) -> bool:
        return not self.groups
