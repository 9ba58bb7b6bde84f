"""Slots, tables and pages: who owns them, what has been promised to whom, and the edits that say so to the device.

A promise is a number of pages, made when a prompt is opened or a path starts, for the worst case; pages are allocated
as tokens arrive. What is promised never exceeds the pool, so that an allocation cannot fail.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from engine.kv.edits import PageCopy, PageEdit
from engine.kv.pages import PageAllocator
from engine.scheduler.columns import Columns, Slots
from engine.scheduler.limits import Limits
from engine.scheduler.state import GroupEntry, PathEntry


class Memory:
    """edits, copies, releases: what the next plan has to tell the device; `take` hands them over."""

    def __init__(self, limits: Limits) -> None:
        self.pages = PageAllocator(limits.pages)
        self.edits: list[PageEdit] = []
        self.copies: list[PageCopy] = []
        self.releases: list[int] = []
        self._page_size = limits.page_size
        self._promised = 0
        self._opened: dict[int, GroupEntry] = {}
        # The lowest numbers first, so that siblings that start together lie side by side.
        self._slots = list(range(limits.max_paths))
        self._tables = list(range(limits.max_paths, 2 * limits.max_paths))

    def take(self) -> tuple[tuple[int, ...], tuple[PageEdit, ...], tuple[PageCopy, ...]]:
        taken = tuple(self.releases), tuple(self.edits), tuple(self.copies)
        self.releases, self.edits, self.copies = [], [], []
        return taken

    # -- prompts ---------------------------------------------------------------------------------------------

    def prompt_fits(self, entry: GroupEntry) -> bool:
        """Whether, with this prompt and all that are open, the largest path of any of them still fits."""
        opened = self._opened.values()
        prompts = entry.prompt_need + sum(other.prompt_need for other in opened)
        largest = max([entry.path_need, *[other.path_need for other in opened]])
        need = max(self._promised + entry.prompt_need + entry.path_need, prompts + largest)
        return bool(self._tables) and need <= self.pages.total

    def open_prompt(self, entry: GroupEntry) -> None:
        self._promised += entry.prompt_need
        self._opened[entry.id] = entry
        entry.table = heappop(self._tables)
        self.pages.claim(entry.table, entry.prompt_need)

    def grow_prompt(self, entry: GroupEntry, tokens: int) -> None:
        while len(entry.prompt_pages) * self._page_size < tokens:
            last = entry.prompt_pages[-1] if entry.prompt_pages else None
            page = self.pages.allocate(entry.table, last)
            self.edits.append(PageEdit(entry.table, len(entry.prompt_pages), page))
            entry.prompt_pages.append(page)

    def free_prompt(self, entry: GroupEntry) -> None:
        self.pages.release(entry.prompt_pages)
        self.pages.unclaim(entry.table)
        entry.prompt_pages = []
        self._promised -= entry.prompt_need
        del self._opened[entry.id]
        heappush(self._tables, entry.table)
        self.releases.append(entry.table)

    # -- paths -----------------------------------------------------------------------------------------------

    def path_fits(self, entry: GroupEntry) -> bool:
        return bool(self._slots) and self._promised + entry.path_need <= self.pages.total

    def open_path(self, entry: GroupEntry, path: PathEntry, columns: Columns, step: int) -> None:
        """Gives the path a slot and its share of the prompt: full pages as they are, the rest as a copy."""
        self._promised += entry.path_need
        slot = path.slot = heappop(self._slots)
        self.pages.claim(slot, entry.path_need)
        columns.admit(entry, path, step)
        self.pages.retain(entry.prompt_pages[: entry.shared])
        columns.capacity[slot] = entry.shared * self._page_size
        if partial := entry.to_prefill % self._page_size:
            self._grow({slot: path}, np.array([slot]), columns)
            self.copies.append(PageCopy(entry.prompt_pages[entry.shared], path.pages[0], partial))

    def grow_paths(self, running: dict[int, PathEntry], slots: Slots, columns: Columns) -> None:
        """Gives each of these paths pages for every position below its next one."""
        short = slots[columns.position[slots] > columns.capacity[slots]]
        while len(short):
            self._grow(running, short, columns)
            short = short[columns.position[short] > columns.capacity[short]]

    def free_path(self, entry: GroupEntry, path: PathEntry) -> None:
        self.pages.release(path.pages)
        self.pages.release(entry.prompt_pages[: entry.shared])
        self.pages.unclaim(path.slot)
        path.pages = []
        self._promised -= entry.path_need
        heappush(self._slots, path.slot)
        self.releases.append(path.slot)

    def _grow(self, running: dict[int, PathEntry], slots: Slots, columns: Columns) -> None:
        """One page for each of these paths."""
        places = (columns.capacity[slots] // self._page_size).tolist()
        for slot, at in zip(slots.tolist(), places, strict=True):
            pages = running[slot].pages
            page = self.pages.allocate(slot, pages[-1] if pages else None)
            pages.append(page)
            self.edits.append(PageEdit(slot, at, page))
        columns.capacity[slots] += self._page_size
