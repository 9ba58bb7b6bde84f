"""Runs step plans on a GPU: uploads what changed, replays a captured step or launches one, never waits.

Everything that a step needs lives on the device: block tables, and one row of state a slot with its next input id
and position, which the last kernel of a step advances. So a plan that changes nothing uploads nothing, and a step
can be launched before the host knows what the one before has sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from engine.attention.decode import DecodeAttention
from engine.attention.prefill import Prefill
from engine.device_changes import DeviceChanges
from engine.graphs.buckets import bucket_for, uncaptured
from engine.graphs.capture import DecodeGraphs
from engine.kv.device_pool import DevicePool
from engine.kv.upload import Upload
from engine.models.device import DeviceTransformer, Step
from engine.sampling.device.result import OUT_WIDTH, out_width
from engine.sampling.device.sampler import DeviceSampler
from engine.sampling.device.slots import check_widths
from engine.sampling.device.variant import Variant
from engine.scheduler.plan import Chunk, Done, Ints, Pending, StepPlan, StepResult
from engine.types import SamplingParams

_UPLOADS = 3  # that one launch may make: changes, rows, prompt tokens


@dataclass(frozen=True, slots=True)
class Rows:
    """Decoding rows of a step: how many, the size they run in, and their slots on the device, int32 [size]."""

    count: int
    size: int
    slots: Tensor


@dataclass(frozen=True, slots=True)
class Sizes:
    """slots: paths that decode at once. buckets: rows that decode steps are padded to, ascending. most: rows of the
    largest step, in a bucket or not. launches: length of the rings of host buffers. repeats: the most of one plan.
    row_block: rows that a step beyond every bucket is padded to a multiple of. chunk_block: likewise, tokens of a
    prompt chunk."""

    slots: int
    buckets: tuple[int, ...]
    most: int
    launches: int
    repeats: int
    row_block: int
    chunk_block: int


class DeviceExecutor:
    """graphs: the captured steps; None: every step is launched kernel by kernel, at the same numbers of rows."""

    def __init__(
        self,
        model: DeviceTransformer,
        pool: DevicePool,
        block_table: Tensor,
        decode: DecodeAttention,
        prefill: Prefill,
        sampler: DeviceSampler,
        sizes: Sizes,
        stream: torch.cuda.Stream,
    ) -> None:
        self._model, self.pool, self._block_table = model, pool, block_table
        self._decode, self.prefill, self._sampler = decode, prefill, sampler
        self._slots, self._row_block, self._chunk_block = sizes.slots, sizes.row_block, sizes.chunk_block
        self.buckets, self._stream = sizes.buckets, stream
        device = block_table.device
        self._upload = Upload(_UPLOADS * sizes.launches, device)
        self._changes = DeviceChanges(pool, block_table, sampler, self._upload, sizes.slots)
        self._row_slots = torch.full((sizes.most,), sizes.slots, dtype=torch.int32, device=device)
        self._uploaded: tuple[int, ...] = ()
        self._out = torch.zeros(sizes.most * OUT_WIDTH, dtype=torch.int32, device=device)
        self._results = [
            torch.empty(sizes.repeats * sizes.most * OUT_WIDTH, dtype=torch.int32, pin_memory=True)
            for _ in range(sizes.launches)
        ]
        self._turn = 0
        self.state = sampler.state
        self.graphs: DecodeGraphs | None = None

    def capture(self, variants: tuple[Variant, ...]) -> DecodeGraphs:
        """Captures every bucket; from now on steps of decoding rows are replays."""
        graphs = DecodeGraphs(self._decode_step, self._stream, self._padded_only)
        graphs.capture_all(self.buckets, variants)
        self.graphs = graphs
        return graphs

    def check(self, sampling: SamplingParams) -> None:
        """Raises InvalidParameter where a path's row of state has no room for its lists of ids."""
        check_widths(sampling)

    def close(self) -> None:
        """Lets go of the graphs, which name this executor: a cycle that only the garbage collector would break."""
        self.graphs = None

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> Pending:
        """Queues the step and returns; only a variant that was not captured at the start takes a moment."""
        with torch.cuda.stream(self._stream):
            self._changes.apply(plan)
            variant = self._sampler.variant
            if plan.empty:
                return Done(StepResult.blank(plan.step, plan.repeat, 0))
            rows = self._rows(plan)
            results = shaped(self._results[self._next()], plan.repeat, rows.count, out_width(variant))
            for repetition in range(plan.repeat):
                if plan.chunks:
                    self._mixed_step(rows, plan.chunks, variant)
                else:
                    self._run(rows.size, variant)
                if rows.count:
                    out = self._packed(rows.size, variant)
                    results[repetition].copy_(out[: rows.count], non_blocking=True)
            over = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            over.record()
        return _Launched(plan, variant, results, over, self._sampler)

    def _rows(self, plan: StepPlan) -> Rows:
        count = len(plan.slots)
        size = (bucket_for(count, self.buckets) or uncaptured(count, self._row_block)) if count else 0
        if plan.slots != self._uploaded and count:
            padded = np.full(len(self._row_slots), self._slots, dtype=np.int32)
            padded[:count] = plan.slots
            self._row_slots.copy_(self._upload.send([padded])[0])
            self._uploaded = plan.slots
        return Rows(count, size, self._row_slots[:size])

    # -- forward passes --------------------------------------------------------------------------------------

    def _run(self, size: int, variant: Variant) -> None:
        if self.graphs is not None and size in self.buckets:
            self.graphs.replay(size, variant)
        else:
            self._decode_step(size, variant)

    @contextmanager
    def _padded_only(self) -> Iterator[None]:
        before = self._row_slots.clone()
        self._row_slots.fill_(self._slots)
        try:
            yield
        finally:
            self._row_slots.copy_(before)

    @torch.inference_mode()
    def _decode_step(self, size: int, variant: Variant) -> None:
        """One token for each of the first `size` rows. This is what is captured."""
        slots = self._row_slots[:size]
        kernel = self._decode.kernel(size)
        kernel.prepare(slots, self._sampler.view, self._block_table)
        layers = self.pool.layers
        step = Step(kernel.ids, slots, kernel.positions, lambda i, q: kernel.attend(layers[i], q))
        hidden = self._model.forward(step, layers, self._block_table)
        out = self._packed(size, variant)
        self._sampler.launch(self._model.logits(hidden), slots, variant, out)

    def _mixed_step(self, rows: Rows, chunks: tuple[Chunk, ...], variant: Variant) -> None:
        """Decoding rows first, then the chunks' tokens, through the same products; attention apart."""
        parts = [self._tokens(chunk) for chunk in chunks]
        ids, tables, positions = self._upload.send(
            [np.concatenate(column) for column in zip(*parts, strict=True)]
        )
        lengths = [len(part[0]) for part in parts]
        self.prefill.plan([c.start for c in chunks], lengths, self._pages(chunks, lengths))
        layers, size = self.pool.layers, rows.size
        if not size:
            step = Step(ids, tables, positions, lambda i, q: self.prefill.attend(layers[i], q))
            self._model.forward(step, layers, self._block_table)
            return
        kernel = self._decode.kernel(size)
        kernel.prepare(rows.slots, self._sampler.view, self._block_table)

        def attend(layer: int, q: Tensor) -> Tensor:
            cache = layers[layer]
            return torch.cat((kernel.attend(cache, q[:size]), self.prefill.attend(cache, q[size:])))

        step = Step(
            torch.cat((kernel.ids, ids)),
            torch.cat((rows.slots, tables)),
            torch.cat((kernel.positions, positions)),
            attend,
        )
        hidden = self._model.forward(step, layers, self._block_table)
        logits = self._model.logits(hidden[:size])
        self._sampler.launch(logits, rows.slots, variant, self._packed(size, variant))

    def _tokens(self, chunk: Chunk) -> tuple[Ints, Ints, Ints]:
        """ids, rows of the block table and positions of a chunk, padded to whole chunk blocks: padded tokens write to
        the page of padded rows, and what they attend to is read by nobody."""
        count = len(chunk.ids)
        padded = -(-count // self._chunk_block) * self._chunk_block
        ids = np.zeros(padded, dtype=np.int32)
        ids[:count] = chunk.ids
        tables = np.full(padded, self._slots, dtype=np.int32)
        tables[:count] = self._changes.row(chunk.table)
        positions = np.zeros(padded, dtype=np.int32)
        positions[:count] = np.arange(chunk.start, chunk.start + count)
        return ids, tables, positions

    def _pages(self, chunks: tuple[Chunk, ...], lengths: list[int]) -> Tensor:
        """The pages of every chunk's table up to its end, one chunk after the other: int32 on the device."""
        page = self.pool.page_size
        ends = [-(-(chunk.start + length) // page) for chunk, length in zip(chunks, lengths, strict=True)]
        return torch.cat(
            [self._block_table[self._changes.row(c.table), :end] for c, end in zip(chunks, ends, strict=True)]
        )

    def _packed(self, size: int, variant: Variant) -> Tensor:
        """Where a step of that many rows leaves what the host reads: int32 [size, width]."""
        return shaped(self._out, size, out_width(variant))

    def _next(self) -> int:
        self._turn = (self._turn + 1) % len(self._results)
        return self._turn


@dataclass(frozen=True, slots=True)
class _Launched:
    """results: pinned, int32 [repeat, rows, width]; filled when `over` has happened."""

    plan: StepPlan
    variant: Variant
    results: Tensor
    over: torch.cuda.Event
    sampler: DeviceSampler

    def result(self) -> StepResult:
        self.over.synchronize()
        return self.sampler.unpack(self.plan.step, self.results.numpy(), self.variant)


def shaped(flat: Tensor, *shape: int) -> Tensor:
    """The beginning of a flat buffer in that shape: contiguous, so that it is one copy."""
    return flat[: prod(shape)].view(shape)
