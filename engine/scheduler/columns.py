"""What the scheduler counts of the paths that have a slot: one array a count, so that a step costs a few array
operations and not a walk over its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.scheduler.state import GroupEntry, PathEntry

Slots = NDArray[np.int64]


class Columns(NamedTuple):
    """Each [slots], int64 or bool, on the host. A slot's entries are its path's from `admit` on."""

    decoding: NDArray[np.bool_]  # its path takes part in steps: neither held nor ended
    watched: NDArray[np.bool_]  # somebody may act on a token of it
    group: Slots  # id of its path's group
    path: Slots  # index of its path in the group
    budget: Slots  # tokens that it may generate
    launched: Slots  # tokens whose sampling has been launched; it gets fewer where it ends or is held earlier
    position: Slots  # where the next input token goes that is not launched yet
    capacity: Slots  # tokens that its table has pages for
    last_step: Slots  # the last launched step that may touch its pages
    generated: Slots  # committed tokens, and of these:
    think: Slots
    injected: Slots
    committed_step: Slots  # the step that brought the last of them; -1 before the first

    @classmethod
    def of(cls, slots: int) -> Columns:
        flags = np.zeros((2, slots), dtype=np.bool_)
        return cls(*flags, *np.zeros((len(cls._fields) - len(flags), slots), dtype=np.int64))

    def admit(self, entry: GroupEntry, path: PathEntry, step: int) -> None:
        """A new path: nothing launched, nothing committed, no page. step: the one that sets its slot up."""
        group = entry.group
        start = (True, group.watched, entry.id, path.index, group.sampling.max_tokens, 0, entry.to_prefill, 0)
        for column, value in zip(self, (*start, step, 0, 0, 0, -1), strict=True):
            column[path.slot] = value

    def wanting(self) -> Slots:
        """Slots whose path wants a token of the next step, ascending."""
        return (self.decoding & (self.launched < self.budget)).nonzero()[0]
