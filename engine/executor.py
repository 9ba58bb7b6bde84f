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
        rows = tuple(
            DecodeRow(i, slot, position + 1)
            for i, (slot, position) in enumerate(zip(plan.slots, plan.positions, strict=True))
        )
        pads = padded(len(rows)) - len(rows)
        positions = [*plan.positions, *[0] * pads]
        at = [self._tables.address(row.table, row.length - 1) for row in rows] + [self._pool.padding] * pads
        prompt: list[int] = []
        blocks: list[PrefillBlock] = []
        for chunk in plan.chunks:
            for start in range(chunk.start, chunk.start + len(chunk.ids), BLOCK):
                valid = min(BLOCK, chunk.start + len(chunk.ids) - start)
                blocks.append(PrefillBlock(len(positions), chunk.table, start, valid))
                taken = range(start, start + valid)
                prompt += [
                    *chunk.ids[start - chunk.start : start - chunk.start + valid],
                    *[0] * (BLOCK - valid),
                ]
                positions += [*taken, *[0] * (BLOCK - valid)]
                at += [self._tables.address(chunk.table, position) for position in taken]
                at += [self._pool.padding] * (BLOCK - valid)
        ids = torch.zeros(len(positions), dtype=torch.int64)
        torch.index_select(
            self._next_id, 0, torch.tensor(plan.slots, dtype=torch.int64), out=ids[: len(rows)]
        )
        if prompt:
            ids[len(rows) + pads :] = torch.tensor(prompt)
        placed = torch.tensor([positions, at])
        return ids, placed[0], placed[1], StepShape(len(positions), rows, tuple(blocks))

    def _sample(self, plan: StepPlan, logits: Tensor) -> StepResult:
        slots = torch.tensor(plan.slots, dtype=torch.int64)
        out = sample(self._sampler, logits, slots)
        self._next_id[slots] = out.tokens
        packed = torch.stack(
            (out.tokens, out.forced.long(), out.phase, out.think_count, out.generated, out.finish)
        )
        tokens, forced, phases, think, generated, finish = map(tuple, packed.tolist())
        return StepResult(
            plan.step,
            tokens,
            forced,
            phases,
            think,
            generated,
            finish,
            tuple(out.logprob.tolist()),
            tuple(map(tuple, out.top_ids.tolist())),
            tuple(map(tuple, out.top_logprobs.tolist())),
        )


def padded(rows: int) -> int:
    """Rows rounded up to whole blocks."""
    return -(-rows // BLOCK) * BLOCK
