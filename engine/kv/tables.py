"""Which pages a path or a prompt consists of, and where they lie side by side.

An edit costs the same whatever the length, and a step costs nothing: a table that is scattered keeps the
addresses of its tokens, and a segment of it is a slice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.kv.edits import PageEdit


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one table's tokens: from token address `base` on, or, where they are scattered, at `at`
    [tokens] int64 (then base is -1)."""

    base: int
    tokens: int
    at: Tensor | None = None


@dataclass(slots=True)
class Run:
    """A part of a table. pages: how many; at: addresses of their tokens, kept from the first gap on."""

    page_size: int
    first: int = -1
    last: int = -1
    pages: int = 0
    at: Tensor | None = None

    def append(self, page: int) -> None:
        if self.pages == 0:
            self.first = page
        elif self.at is None and page != self.last + 1:
            start = self.first * self.page_size
            self.at = torch.arange(start, start + self.pages * self.page_size)
        if self.at is not None:
            self._keep(self.at, page)
        self.last = page
        self.pages += 1

    def segment(self, tokens: int) -> Segment:
        if self.at is None:
            return Segment(self.first * self.page_size, tokens)
        return Segment(-1, tokens, self.at[:tokens])

    def _keep(self, at: Tensor, page: int) -> None:
        begin, end = self.pages * self.page_size, (self.pages + 1) * self.page_size
        if at.shape[0] < end:
            at = self.at = torch.cat((at, at.new_empty(at.shape[0] + self.page_size)))
        at[begin:end] = torch.arange(page * self.page_size, (page + 1) * self.page_size)


@dataclass(slots=True)
class Table:
    """pages[:shared] belong to the prompt."""

    shared: int
    prompt: Run
    own: Run
    pages: list[int] = field(default_factory=list)


class BlockTables:
    def __init__(self, tables: int, page_size: int) -> None:
        self.page_size = page_size
        self._tables = [self._empty(0) for _ in range(tables)]

    def reset(self, table: int) -> None:
        self._tables[table] = self._empty(0)

    def share(self, table: int, prompt: int, pages: int) -> None:
        """An empty table begins with the first pages of a prompt's."""
        entry = self._tables[table] = self._empty(pages)
        for page in self._tables[prompt].pages[:pages]:
            entry.prompt.append(page)
            entry.pages.append(page)

    def apply(self, edit: PageEdit) -> None:
        table = self._tables[edit.table]
        assert edit.at == len(table.pages), "a table only grows at its end"
        table.own.append(edit.page)
        table.pages.append(edit.page)

    def pages(self, table: int) -> list[int]:
        return self._tables[table].pages

    def address(self, table: int, position: int) -> int:
        """Token address of a position."""
        at, offset = divmod(position, self.page_size)
        return self._tables[table].pages[at] * self.page_size + offset

    def shared(self, table: int) -> Segment | None:
        """The part in the prompt's pages, all of it written."""
        entry = self._tables[table]
        return entry.prompt.segment(entry.shared * self.page_size) if entry.shared else None

    def own(self, table: int, length: int) -> Segment:
        """The part behind it, up to `length` tokens in all."""
        entry = self._tables[table]
        return entry.own.segment(length - entry.shared * self.page_size)

    def _empty(self, shared: int) -> Table:
        return Table(shared, Run(self.page_size), Run(self.page_size))
