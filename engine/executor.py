"""Runs step plans on the CPU: pages, tables, one forward pass over rows and chunks, sampling.

The executor keeps what the device would keep: tables, each slot's next input token, the sampler's state. It
decides nothing: a plan tells it everything, and its results tell the scheduler everything.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.base import Attention, DecodeRow, PrefillBlock, StepShape
from engine.config import BLOCK
from engine.kv.pool import KVPool
from engine.kv.tables import BlockTables
from engine.models.transformer import Transformer
from engine.sampling.sampler import sample
from engine.sampling.state import SamplerState
from engine.sampling.thinking import opening_phase
from engine.scheduler.plan import StepPlan, StepResult


class Executor:
    def __init__(
        self,
        model: Transformer,
        pool: KVPool,
        tables: BlockTables,
        attention: Attention,
        sampler: SamplerState,
        slots: int,
    ) -> None:
        self._model, self._pool, self._tables = model, pool, tables
        self._attention, self._sampler = attention, sampler
        self._next_id = torch.zeros(slots, dtype=torch.int64)
        self._slots = slots

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepResult:
        """Raises whatever the step raises; the loop turns that into the end of every path."""
        self._apply(plan)
        if plan.empty:
            return StepResult(plan.step)
        ids, positions, at, shape = self._lay_out(plan)
        self._attention.prepare(shape)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._pool.write(layer, at, k, v)
            return self._attention.attend(layer, q)

        hidden = self._model.forward(ids, positions, attend)
        rows = len(plan.slots)
        if not rows:
            return StepResult(plan.step)
        logits = self._model.logits(hidden[: padded(rows)])[:rows]
        return self._sample(plan, logits)

    def _apply(self, plan: StepPlan) -> None:
        for table in plan.releases:
            self._tables.reset(table, 0)
            if table < self._slots:
                self._sampler.release(table)
        for admit in plan.admits:
            self._tables.reset(admit.slot, admit.shared_pages)
            self._next_id[admit.slot] = admit.first_id
            phase = opening_phase(admit.prompt_ids, admit.sampling.thinking)
            self._sampler.admit(admit.slot, admit.sampling, admit.seed, admit.index, admit.prompt_ids, phase)
        for edit in plan.edits:
            self._tables.apply(edit)
        self._pool.copy(plan.copies)
        for slot in plan.closes:
            self._sampler.request_close(slot)

    def _lay_out(self, plan: StepPlan) -> tuple[Tensor, Tensor, Tensor, StepShape]:
        """ids, positions and token addresses, each [tokens] int64, and who they belong to. Padding rows carry
        token 0 at position 0 and write to the padding page."""
        slots = torch.tensor(plan.slots, dtype=torch.int64)
        rows = tuple(
            DecodeRow(i, slot, position + 1)
            for i, (slot, position) in enumerate(zip(plan.slots, plan.positions, strict=True))
        )
        row = padded(len(rows))
        blocks: list[PrefillBlock] = []
        for chunk in plan.chunks:
            for start in range(0, len(chunk.ids), BLOCK):
                valid = min(BLOCK, len(chunk.ids) - start)
                blocks.append(PrefillBlock(row, chunk.table, chunk.start + start, valid))
                row += BLOCK
        ids = torch.zeros(row, dtype=torch.int64)
        positions = torch.zeros(row, dtype=torch.int64)
        at = torch.full((row,), self._pool.padding, dtype=torch.int64)
        if rows:
            ids[: len(rows)] = self._next_id[slots]
            positions[: len(rows)] = torch.tensor(plan.positions)
            at[: len(rows)] = torch.tensor([self._tables.address(r.table, r.length - 1) for r in rows])
        prompt = [token for chunk in plan.chunks for token in chunk.ids]
        done = 0
        for block in blocks:
            span = slice(block.row, block.row + block.valid)
            ids[span] = torch.tensor(prompt[done : done + block.valid])
            positions[span] = torch.arange(block.start, block.start + block.valid)
            at[span] = torch.tensor(
                [self._tables.address(block.table, block.start + t) for t in range(block.valid)]
            )
            done += block.valid
        return ids, positions, at, StepShape(row, rows, tuple(blocks))

    def _sample(self, plan: StepPlan, logits: Tensor) -> StepResult:
        slots = torch.tensor(plan.slots, dtype=torch.int64)
        out = sample(self._sampler, logits, slots)
        self._next_id[slots] = out.tokens
        return StepResult(
            plan.step,
            tuple(out.tokens.tolist()),
            tuple(out.forced.tolist()),
            tuple(out.phase.tolist()),
            tuple(out.think_count.tolist()),
            tuple(out.generated.tolist()),
            tuple(out.finish.tolist()),
            tuple(out.logprob.tolist()),
            tuple(map(tuple, out.top_ids.tolist())),
            tuple(map(tuple, out.top_logprobs.tolist())),
        )


def padded(rows: int) -> int:
    """Rows rounded up to whole blocks."""
    return -(-rows // BLOCK) * BLOCK
