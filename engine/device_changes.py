"""What a plan changes on the device before its step: owners of slots, pages of tables, single cells, page copies.

All of it travels in one upload; a plan that changes nothing uploads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from engine.kernels.scatter import admit_rows, write_cells
from engine.kv.device_pool import DevicePool
from engine.kv.upload import Upload
from engine.sampling.device.sampler import DeviceSampler
from engine.sampling.device.slots import Column
from engine.scheduler.plan import Ints, StepPlan


class DeviceChanges:
    """block_table: int32 [2 * slots + 1, pages] on the device: the slots' tables, that of padded rows, the prompts'."""

    def __init__(
        self, pool: DevicePool, block_table: Tensor, sampler: DeviceSampler, upload: Upload, slots: int
    ) -> None:
        self._pool, self._block_table, self._sampler = pool, block_table, sampler
        self._upload, self._slots = upload, slots

    def row(self, table: int) -> int:
        """Where a table of the scheduler lies. Row `slots` is that of padded rows, so prompts' lie one further."""
        return table if table < self._slots else table + 1

    def apply(self, plan: StepPlan) -> None:
        """On the current stream."""
        for table in plan.releases:
            if table < self._slots:
                self._sampler.release(table)
        for admit in plan.admits:
            self._sampler.admit(admit)
        if plan.admits or plan.edits or plan.copies or plan.closes or plan.resumes:
            self._write(plan)

    def _write(self, plan: StepPlan) -> None:
        sent = self._upload.send(
            [
                *_columns(3, [(a.slot, self.row(a.prompt_table), a.shared_pages) for a in plan.admits]),
                _joined([self._sampler.record(admit) for admit in plan.admits]),
                *_columns(3, [(self.row(e.table), e.at, self._pool.place(e.page)) for e in plan.edits]),
                *_columns(3, self._cells(plan)),
                *_columns(2, [(self._pool.place(c.source), self._pool.place(c.target)) for c in plan.copies]),
            ]
        )
        (slots, prompts, shared, records), edits, cells, copies = sent[:4], sent[4:7], sent[7:10], sent[10:]
        state, table = self._sampler.state, self._block_table
        if len(slots):
            admit_rows(slots, prompts, shared, records, state, table, self._pool.padding)
        if len(edits[0]):
            write_cells(table, edits[0], edits[1], edits[2])
        if len(copies[0]):
            self._pool.copy(copies[0], copies[1])
        if len(cells[0]):
            write_cells(state, cells[0], cells[1], cells[2])

    def _cells(self, plan: StepPlan) -> list[tuple[int, int, int]]:
        """Thinking that is closed by force: nothing is left of its budget. A held path that goes on: it runs again."""
        closes = [(slot, int(Column.MAX_THINK), 0) for slot in plan.closes if self._sampler.thinks(slot)]
        return closes + [(slot, int(Column.FINISH), 0) for slot in plan.resumes]


def _columns(count: int, rows: Sequence[tuple[int, ...]]) -> list[Ints]:
    """The columns of a table, each contiguous; so many empty ones of an empty table."""
    table = np.array(rows, dtype=np.int32).reshape(len(rows), count)
    return [np.ascontiguousarray(table[:, i]) for i in range(count)]


def _joined(records: Sequence[Ints]) -> Ints:
    return np.concatenate(records) if records else np.empty(0, dtype=np.int32)
