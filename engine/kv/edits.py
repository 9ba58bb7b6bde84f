"""What a plan changes in tables and pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageEdit:
    """Table `table` names `page` at index `at`."""

    table: int
    at: int
    page: int


@dataclass(frozen=True, slots=True)
class PageCopy:
    """The first `tokens` tokens of page `source` are copied to page `target`, all layers."""

    source: int
    target: int
    tokens: int
