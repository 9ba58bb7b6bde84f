"""Keeps a problem inside its budget: how many paths may start, when thinking is closed, when everything ends.

Decides only; the driver carries its orders out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.types import Phase
from reasoner.budget import Budget, Guard, guard, need
from reasoner.events import Cause
from reasoner.paths import PathRecord


@dataclass(frozen=True, slots=True)
class Order:
    """closing: announce that the problem closes. close: end the thinking of these paths. cut: end
    everything.
    """

    closing: Cause | None = None
    close: tuple[int, ...] = ()
    cut: bool = False


class Keeper:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._closing = False
        self._cut = False
        self._asked: set[int] = set()

    def grant(self, n: int, used: int, live: Sequence[PathRecord]) -> int:
        """How many of n new paths may start, so that they and the live ones still find their answers."""
        if self._closing:
            return 0
        if self._budget.total is None:
            return n
        return min(n, self._budget.room(self._budget.total - used - self._needed(live)))

    def watch(self, used: int, live: Sequence[PathRecord]) -> Order:
        """What to do now that `used` tokens are spent."""
        match guard(self._budget, used, [record.load for record in live]):
            case Guard.CUT if not self._cut:
                self._cut = True
                return Order(cut=True)
            case Guard.CLOSE if not self._closing:
                return self._close(Cause.BUDGET, live)
        # A path that had not begun to think when the others were closed is closed as soon as it does.
        return Order(close=self._late(live) if self._closing else ())

    def finish_early(self, used: int, live: Sequence[PathRecord]) -> Order:
        """Nothing more than the answers: what they need is all that may still be spent."""
        if self._closing:
            return Order()
        limit = used + self._needed(live)
        total = limit if self._budget.total is None else min(limit, self._budget.total)
        self._budget = replace(self._budget, total=total)
        return self._close(Cause.USER, live)

    def _close(self, cause: Cause, live: Sequence[PathRecord]) -> Order:
        self._closing = True
        return Order(closing=cause, close=self._late(live))

    def _late(self, live: Sequence[PathRecord]) -> tuple[int, ...]:
        late = tuple(r.index for r in live if r.phase is Phase.THINKING and r.index not in self._asked)
        self._asked.update(late)
        return late

    def _needed(self, live: Sequence[PathRecord]) -> int:
        return sum(need(self._budget, record.load) for record in live)
