"""Keeps a problem inside its budget: how many paths may start, when thinking is closed, when everything ends.

Decides only; the driver carries its orders out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.types import Phase
from reasoner.budget import Budget, Guard, guard, need
from reasoner.events import Cause
from reasoner.paths import PathTable


@dataclass(frozen=True, slots=True)
class Order:
    """closing: announce that the problem closes. close: end the thinking of these paths. cut: end
    everything.
    """

    closing: Cause | None = None
    close: tuple[int, ...] = ()
    cut: bool = False


NOTHING = Order()


class Keeper:
    """paths, wherever it is given: all paths of the problem, with what they have spent."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._closing = False
        self._cut = False
        self._asked: set[int] = set()

    def grant(self, n: int, paths: PathTable) -> int:
        """How many of n new paths may start, so that they and the live ones still find their answers."""
        if self._closing:
            return 0
        if self._budget.total is None:
            return n
        return min(n, self._budget.room(self._budget.total - paths.tokens - self._needed(paths)))

    def watch(self, paths: PathTable) -> Order:
        """What to do now that more tokens are spent."""
        if self._budget.total is None:
            return NOTHING
        match guard(self._budget, paths.tokens, [record.load for record in paths.live()]):
            case Guard.CUT if not self._cut:
                self._cut = True
                return Order(cut=True)
            case Guard.CLOSE if not self._closing:
                return self._close(Cause.BUDGET, paths)
        # A path that had not begun to think when the others were closed is closed as soon as it does.
        return Order(close=self._late(paths)) if self._closing else NOTHING

    def finish_early(self, paths: PathTable) -> Order:
        """Nothing more than the answers: what they need is all that may still be spent."""
        if self._closing:
            return NOTHING
        limit = paths.tokens + self._needed(paths)
        total = limit if self._budget.total is None else min(limit, self._budget.total)
        self._budget = replace(self._budget, total=total)
        return self._close(Cause.USER, paths)

    def _close(self, cause: Cause, paths: PathTable) -> Order:
        self._closing = True
        return Order(closing=cause, close=self._late(paths))

    def _late(self, paths: PathTable) -> tuple[int, ...]:
        thinking = (record.index for record in paths.live() if record.phase is Phase.THINKING)
        late = tuple(index for index in thinking if index not in self._asked)
        self._asked.update(late)
        return late

    def _needed(self, paths: PathTable) -> int:
        return sum(need(self._budget, record.load) for record in paths.live())
