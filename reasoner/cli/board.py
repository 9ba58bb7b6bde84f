"""What the live table shows, as plain data. Filled from a run's view, drawn by `table`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PathRow:
    """One path. state: a word of `table.STATES`. rate: tokens per second. verdict: "" where none is in."""

    index: int
    state: str
    think: int = 0
    think_budget: int | None = None
    generated: int = 0
    rate: float = 0.0
    answer: str | None = None
    verdict: str = ""
    selected: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """All paths of a problem and the footer. saved: tokens that ended paths were still allowed to spend."""

    rows: tuple[PathRow, ...]
    title: str = ""
    votes: tuple[tuple[str, int], ...] = ()
    spent: int = 0
    budget: int | None = None
    saved: int = 0
    pages_used: int | None = None
    pages_total: int | None = None
    elapsed: float = 0.0
    rate: float = 0.0
    notes: tuple[str, ...] = field(default=())
