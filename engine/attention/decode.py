"""The decode kernels of an engine: one a bucket, chosen at start-up."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.attention.choice import Choice, Chooser, lengths_to_try
from engine.attention.decode_kernels import (
    DecodeKernel,
    TensorCoreDecode,
    XqaDecode,
    XqaScratch,
    scratch_bytes,
    xqa_obstacle,
)
from engine.attention.decode_plan import DecodePlan
from engine.attention.flashinfer import PagedKernel
from engine.kv.device_pool import DevicePool

# Batch-invariant use cuts every path's keys at multiples of this many tokens.
INVARIANT_CHUNK_TOKENS = 4096


class DecodeAttention:
    """Kernels by number of rows. table_width: pages that a path can have. context: tokens, likewise. xqa: what is known
    of that candidate, for the start report."""

    def __init__(
        self, kernel: PagedKernel, pool: DevicePool, table_width: int, *, context: int, invariant: bool
    ) -> None:
        self._kernel, self._pool, self._invariant = kernel, pool, invariant
        self._table_width, self._context = table_width, context
        self._device = pool.data.device
        self._scratch = torch.empty(0, dtype=torch.uint8, device=self._device)
        heads = kernel.heads
        self._chooser = Chooser(pool.layers, table_width, heads.q)
        self.choices: dict[int, Choice] = {}
        card = torch.cuda.get_device_properties(self._device)
        # Chunks that the card works on at once: two blocks a multiprocessor, one for each KV head.
        self._resident_chunks = max(1, 2 * card.multi_processor_count // heads.kv)
        obstacle = (
            "its sums are cut by length" if invariant else xqa_obstacle(heads, pool.page_size, card.major)
        )
        self.xqa = obstacle or "tried"
        self._xqa_scratch = None if obstacle else XqaScratch(self._device)

    def choose(self, sizes: Sequence[int]) -> None:
        """Measures and chooses for every bucket."""
        self._reserve(max(max(self._capacities(rows)) for rows in sizes))
        pool_tokens = self._pool.padding * self._pool.page_size
        for rows in sizes:
            lengths = lengths_to_try(self._context, pool_tokens, rows)
            self.choices[rows] = self._chooser.choose(rows, self._candidates(rows), lengths)

    def kernel(self, rows: int) -> DecodeKernel:
        """For a number of rows that no bucket has: the first candidate, unmeasured."""
        if rows not in self.choices:
            self._reserve(max(self._capacities(rows)))
            self.choices[rows] = Choice(rows, self._candidates(rows)[0], {})
        return self.choices[rows].kernel

    def _capacities(self, rows: int) -> list[int]:
        if self._invariant:
            return [rows * -(-self._table_width * self._pool.page_size // INVARIANT_CHUNK_TOKENS)]
        resident = self._resident_chunks
        return sorted({max(resident, rows), max(2 * resident, rows), rows + resident})

    def _candidates(self, rows: int) -> list[DecodeKernel]:
        fixed = INVARIANT_CHUNK_TOKENS // self._pool.page_size if self._invariant else 0
        found: list[DecodeKernel] = [
            TensorCoreDecode(self._kernel, self._plan(rows, capacity, fixed), self._scratch, split=True)
            for capacity in self._capacities(rows)
        ]
        if self._invariant:
            return found
        whole = self._plan(rows, rows, 0)
        found.append(TensorCoreDecode(self._kernel, whole, self._scratch, split=False))
        if self._xqa_scratch is not None:
            found.append(XqaDecode(self._kernel.heads, whole, self._table_width, self._xqa_scratch))
        return found

    def _plan(self, rows: int, capacity: int, fixed: int) -> DecodePlan:
        return DecodePlan(rows, capacity, self._pool.page_size, self._table_width, self._device, fixed)

    def _reserve(self, capacity: int) -> None:
        """Scratch for partial results, shared by all kernels: one runs at a time. Never moved once captured: kernels
        that come later get a larger one of their own."""
        need = scratch_bytes(self._kernel.heads, capacity)
        if self._scratch.numel() < need:
            self._scratch = torch.empty(need, dtype=torch.uint8, device=self._device)
