"""Ref-counted pages: the only unit of KV memory.

Pure bookkeeping: no tensor, no clock. A page is free or owned; an owned page counts its holders (one for each
table that names it). `free + used == total` always, and `check` proves the counts against the tables.

Placement. On the CPU attention reads a path's KV in place where its pages lie side by side, so a holder may
claim a run of addresses before it fills them. A claim is a preference: it owns nothing, it ends with its holder,
and when nothing else is left its pages serve anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


class PageError(AssertionError):
    """A broken invariant: a bug of the engine, never the caller's."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The pages [start, stop) that one holder would like to fill in order."""

    start: int
    stop: int


class PageAllocator:
    """Pages 0 .. total - 1. Searches run in C over byte maps, so no call costs Python time per page."""

    def __init__(self, total: int) -> None:
        if total < 1:
            raise ValueError(f"a pool needs at least one page, got {total}")
        self.total = total
        self.free = total
        self._refs = [0] * total
        self._owned = bytearray(total)
        self._claimed = bytearray(total)
        self._avoid = bytearray(total)  # owned or claimed
        self._claims: dict[int, Claim] = {}

    @property
    def used(self) -> int:
        return self.total - self.free

    def refs(self, page: int) -> int:
        return self._refs[page]

    def allocate(self, holder: int, after: int | None) -> int:
        """A page with one holder: right behind `after` (None: where the holder's claim starts) if that is free."""
        page = self._wanted(holder, after)
        if page < 0:
            page = self._avoid.find(0)
        if page < 0:
            page = self._owned.find(0)
        if page < 0:
            raise PageError("no page is free: the plan promised more than there is")
        self._refs[page] = 1
        self._owned[page] = self._avoid[page] = 1
        self.free -= 1
        return page

    def retain(self, pages: Iterable[int]) -> None:
        for page in pages:
            if self._refs[page] == 0:
                raise PageError(f"page {page} is free and cannot gain a holder")
            self._refs[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        for page in pages:
            if self._refs[page] == 0:
                raise PageError(f"page {page} is released more often than it is held")
            self._refs[page] -= 1
            if self._refs[page] == 0:
                self._owned[page] = 0
                self._avoid[page] = self._claimed[page]
                self.free += 1

    def claim(self, holder: int, pages: int) -> None:
        """Claims the first free and unclaimed run of that many pages, where there is one."""
        start = self._avoid.find(bytes(pages))
        if start >= 0 and pages > 0:
            self._claims[holder] = Claim(start, start + pages)
            self._claimed[start : start + pages] = self._avoid[start : start + pages] = b"\1" * pages

    def unclaim(self, holder: int) -> None:
        claim = self._claims.pop(holder, None)
        if claim is not None:
            self._claimed[claim.start : claim.stop] = bytes(claim.stop - claim.start)
            self._avoid[claim.start : claim.stop] = self._owned[claim.start : claim.stop]

    def check(self, tables: Iterable[Iterable[int]]) -> None:
        """Raises PageError unless each page's count equals the tables that name it. O(total): idle and tests."""
        named: Counter[int] = Counter()
        for table in tables:
            named.update(table)
        for page, count in enumerate(self._refs):
            if count != named[page]:
                raise PageError(f"page {page} counts {count} holders, but {named[page]} tables name it")
        if sum(count > 0 for count in self._refs) != self.used:
            raise PageError("free and used pages do not add up to the total")

    def _wanted(self, holder: int, after: int | None) -> int:
        """The free page that would keep the holder's run going without breaking into another's claim, or -1."""
        claim = self._claims.get(holder)
        if after is not None:
            page = after + 1
        elif claim is not None:
            page = claim.start
        else:
            return -1
        if page >= self.total or self._owned[page]:
            return -1
        own = claim is not None and claim.start <= page < claim.stop
        return page if own or not self._claimed[page] else -1
