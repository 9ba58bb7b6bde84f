"""Runs step plans on the CPU: pages, tables, one forward pass over rows and chunks, sampling.

The executor keeps what the device would keep: tables, each slot's next input token, the sampler's state. It
decides nothing: a plan tells it everything, and its results tell the scheduler everything. A row that stands still
(finished or held) is not computed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from engine.attention.base import Attention, DecodeRow, PrefillBlock, StepShape
from engine.config import BLOCK
from engine.kv.pool import KVPool
from engine.kv.tables import BlockTables
from engine.models.transformer import Transformer
from engine.sampling.sampler import SampleOutput, sample
from engine.sampling.state import SamplerState
from engine.sampling.stops import FinishCode
from engine.sampling.thinking import opening_phase
from engine.scheduler.plan import Done, Ints, Pending, StepPlan, StepResult
from engine.types import SamplingParams, Statistic


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

    def check(self, sampling: SamplingParams) -> None:
        """Nothing that is valid is too much here: tables grow."""

    def close(self) -> None:
        """Nothing here outlives its last reference."""

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> Pending:
        """Raises whatever the step raises; the loop turns that into the end of every path."""
        self._apply(plan)
        slots = torch.tensor(plan.slots, dtype=torch.int64)
        result = self._blank(plan)
        for repetition in range(plan.repeat):
            running = (self._sampler.read(slots)[0].finish == FinishCode.RUNNING).nonzero()[:, 0]
            if not (len(running) or plan.chunks):
                break
            logits = self._forward(plan, running.tolist(), repetition)
            if len(running):
                out = sample(self._sampler, logits, slots[running])
                self._next_id[slots[running]] = out.tokens
                record(result, repetition, running.numpy(), out)
        if plan.slots:
            after = self._sampler.read(slots)[0]
            result.phase[:], result.think[:] = after.phase.numpy(), after.think_count.numpy()
            result.generated[:], result.finish[:] = after.generated.numpy(), after.finish.numpy()
        return Done(result)

    def _blank(self, plan: StepPlan) -> StepResult:
        shape, needs = (plan.repeat, len(plan.slots)), self._sampler.needs
        result = StepResult.blank(plan.step, *shape)
        if needs.statistics:
            figures = np.zeros((len(plan.slots), len(Statistic)), np.float32)
            result = replace(result, statistics=figures)
        if not needs.logprobs:
            return result
        return replace(
            result,
            logprobs=np.zeros(shape, np.float32),
            top_ids=np.zeros((*shape, needs.top_logprobs), np.int32),
            top_logprobs=np.zeros((*shape, needs.top_logprobs), np.float32),
        )

    def _forward(self, plan: StepPlan, running: list[int], repetition: int) -> Tensor:
        """Logits [running rows, vocab] of one pass over these rows of the plan and its chunks."""
        ids, positions, at, shape = self._lay_out(plan, running, repetition)
        self._attention.prepare(shape)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self._pool.write(layer, at, k, v)
            return self._attention.attend(layer, q)

        hidden = self._model.forward(ids, positions, attend)
        if not running:
            return hidden[:0]
        return self._model.logits(hidden[: padded(len(running))])[: len(running)]

    def _apply(self, plan: StepPlan) -> None:
        for table in plan.releases:
            self._tables.reset(table)
            if table < self._slots:
                self._sampler.release(table)
        for admit in plan.admits:
            self._tables.reset(admit.slot)
            self._tables.share(admit.slot, admit.prompt_table, admit.shared_pages)
            self._next_id[admit.slot] = admit.first_id
            phase = opening_phase(admit.prompt_ids, admit.sampling.thinking)
            self._sampler.admit(admit.slot, admit.sampling, admit.seed, admit.index, admit.prompt_ids, phase)
        for edit in plan.edits:
            self._tables.apply(edit)
        self._pool.copy(plan.copies)
        for slot in plan.closes:
            self._sampler.request_close(slot)
        for slot in plan.resumes:
            self._sampler.resume(slot)

    def _lay_out(
        self, plan: StepPlan, running: list[int], repetition: int
    ) -> tuple[Tensor, Tensor, Tensor, StepShape]:
        """ids, positions and token addresses, each [tokens] int64, and who they belong to. Padding rows carry
        token 0 at position 0 and write to the padding page."""
        rows = tuple(
            DecodeRow(i, plan.slots[row], plan.positions[row] + repetition + 1)
            for i, row in enumerate(running)
        )
        pads = padded(len(rows)) - len(rows)
        positions = [*[row.length - 1 for row in rows], *[0] * pads]
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
            self._next_id,
            0,
            torch.tensor([row.table for row in rows], dtype=torch.int64),
            out=ids[: len(rows)],
        )
        if prompt:
            ids[len(rows) + pads :] = torch.tensor(prompt)
        placed = torch.tensor([positions, at])
        return ids, placed[0], placed[1], StepShape(len(positions), rows, tuple(blocks))


def record(result: StepResult, repetition: int, rows: Ints, out: SampleOutput) -> None:
    """Enters what one pass committed to these rows."""
    result.count[rows] += 1
    result.tokens[repetition, rows] = out.tokens.numpy()
    result.injected[rows] += out.forced.numpy()
    if result.logprobs is not None and result.top_ids is not None and result.top_logprobs is not None:
        result.logprobs[repetition, rows] = out.logprob.numpy()
        result.top_ids[repetition, rows] = out.top_ids.numpy()
        result.top_logprobs[repetition, rows] = out.top_logprobs.numpy()
    if result.statistics is not None:
        result.statistics[rows] = out.statistics.numpy()


def padded(rows: int) -> int:
    """Rows rounded up to whole blocks."""
    return -(-rows // BLOCK) * BLOCK
