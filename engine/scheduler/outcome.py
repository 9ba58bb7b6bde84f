"""What a committed step came to, group by group: all that the events of a step are made from, beside its result."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from engine.scheduler.columns import Slots
from engine.scheduler.state import GroupEntry, PathEntry


class Share(NamedTuple):
    """What one group has of an outcome: rows [start, stop)."""

    entry: GroupEntry
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """rows: those of the result whose tokens count, group by group; indices: of their paths; ended, held: the paths
    for which it was the last step, for good or until a resume."""

    rows: Slots
    indices: Slots
    shares: list[Share]
    ended: list[PathEntry]
    held: list[PathEntry]


def shares_of(ids: Slots, groups: dict[int, GroupEntry]) -> list[Share]:
    """ids: the group of each row, ascending."""
    changes = (ids[1:] != ids[:-1]).nonzero()[0] + 1
    bounds = [0, *changes.tolist(), len(ids)]
    return [Share(groups[int(ids[i])], i, j) for i, j in pairwise(bounds) if i < j]
