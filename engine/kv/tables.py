"""Which pages a path or a prompt consists of, and where they lie side by side. O(1) work per edit, none per step."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.scheduler.plan import PageEdit


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one table's tokens. base: token address of the first, or -1 where its pages are scattered;
    then `pages` lists them."""

    base: int
    tokens: int
    pages: tuple[int, ...] = ()


@dataclass(slots=True)
class Table:
    """pages[:shared] belong to the prompt. Both parts remember whether they are one run."""

    shared: int = 0
    pages: list[int] = field(default_factory=list)
    shared_run: bool = True
    own_run: bool = True

    def append(self, page: int) -> None:
        at = len(self.pages)
        if at not in (0, self.shared) and page != self.pages[-1] + 1:
            if at < self.shared:
                self.shared_run = False
            else:
                self.own_run = False
        self.pages.append(page)


class BlockTables:
    def __init__(self, tables: int, page_size: int) -> None:
        self.page_size = page_size
        self._tables = [Table() for _ in range(tables)]

    def reset(self, table: int, shared: int) -> None:
        self._tables[table] = Table(shared)

    def apply(self, edit: PageEdit) -> None:
        table = self._tables[edit.table]
        assert edit.at == len(table.pages), "a table only grows at its end"
        table.append(edit.page)

    def pages(self, table: int) -> list[int]:
        return self._tables[table].pages

    def address(self, table: int, position: int) -> int:
        """Token address of a position."""
        at, offset = divmod(position, self.page_size)
        return self._tables[table].pages[at] * self.page_size + offset

    def shared(self, table: int) -> Segment | None:
        """The part in the prompt's pages, all of it written."""
        entry = self._tables[table]
        if entry.shared == 0:
            return None
        return self._segment(entry.pages, 0, entry.shared, entry.shared * self.page_size, entry.shared_run)

    def own(self, table: int, length: int) -> Segment:
        """The part behind it, up to `length` tokens in all."""
        entry = self._tables[table]
        tokens = length - entry.shared * self.page_size
        return self._segment(entry.pages, entry.shared, len(entry.pages), tokens, entry.own_run)

    def _segment(self, pages: list[int], start: int, stop: int, tokens: int, run: bool) -> Segment:
        if run:
            return Segment(pages[start] * self.page_size, tokens)
        return Segment(-1, tokens, tuple(pages[start:stop]))
