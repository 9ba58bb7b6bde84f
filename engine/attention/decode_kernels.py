"""Decode attention of one bucket: FlashInfer's tensor-core kernel on a schedule of the device's own, or XQA."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from engine.attention.decode_plan import DecodePlan, StateView
from engine.attention.flashinfer import NON_CAUSAL, Heads, PagedKernel, PageIndex, Schedule

# Generations that XQA is written for: compute capability 9.x, 10.x and 12.x.
_XQA_GENERATIONS = (9, 10, 12)


class DecodeKernel(Protocol):
    """`prepare` once a step, `attend` once a layer; both can be captured."""

    ids: Tensor  # [rows] int32, of each row's input token, after prepare
    positions: Tensor
    name: str

    def prepare(self, slots: Tensor, view: StateView, block_table: Tensor) -> None:
        """slots [rows] int32 on the device."""

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        """cache [pages, 2, page, Hkv, D]: one layer; q [rows, Hq, D] -> [rows, Hq * D]."""


class TensorCoreDecode:
    """FlashInfer's prefill kernel with one query a row: its tiles hold all query heads of one KV head, so that keys are
    read once for the whole group.

    split: a path's keys are cut into chunks, whose partial results a second kernel joins; without it each path is read
    by one block per KV head. scratch: uint8, `scratch_bytes`.
    """

    def __init__(self, kernel: PagedKernel, plan: DecodePlan, scratch: Tensor, *, split: bool) -> None:
        self._kernel, self._plan, self._scratch = kernel, plan, scratch
        self.ids, self.positions = plan.ids, plan.positions
        self.name = f"tensor cores, {plan.capacity} chunks" if split else "tensor cores, whole paths"
        heads, at = kernel.heads, plan.offsets
        self._index = PageIndex(plan.query_indptr, plan.kv_indptr, plan.kv_indices, plan.last_page_len)
        self._schedule = Schedule(
            blocks=plan.capacity,
            rows=plan.rows,
            tile=heads.decode_tile,
            request=at["request"],
            query_tile=at["query_tile"],
            chunk=at["tile"],
            first=at["indptr"],
            chunk_size=at["chunk"],
            total=at["total"],
            sums=plan.capacity * heads.q * heads.dim * 2,
            valid=at["valid"],
            fixed_grid=True,
            split=split,
        )

    def prepare(self, slots: Tensor, view: StateView, block_table: Tensor) -> None:
        self._plan.write(slots, view, block_table)

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        return self._kernel.run(
            self._schedule,
            self._plan.workspace,
            self._scratch,
            self._index,
            cache,
            q,
            mask=NON_CAUSAL,
            programmatic=self._kernel.heads.programmatic,
        )


def scratch_bytes(heads: Heads, capacity: int) -> int:
    """Of the partial results of `capacity` chunks: values in bfloat16, log-sum-exp in float32."""
    return capacity * heads.q * (2 * heads.dim + 4)


class XqaScratch:
    """Shared by every bucket: one kernel runs at a time. Semaphores start at zero and are left so by each launch."""

    def __init__(self, device: torch.device) -> None:
        self.partial = torch.zeros(128 << 20, dtype=torch.uint8, device=device)
        self.semaphores = torch.zeros(8 << 20, dtype=torch.uint8, device=device).view(torch.uint32)


class XqaDecode:
    """TensorRT-LLM's XQA kernel as FlashInfer ships it: no schedule, a dense table of pages instead."""

    name = "xqa"

    def __init__(self, heads: Heads, plan: DecodePlan, table_width: int, scratch: XqaScratch) -> None:
        from flashinfer.xqa import xqa

        self._run: Any = xqa
        self._heads, self._plan, self._scratch = heads, plan, scratch
        device = plan.ids.device
        self.ids, self.positions = plan.ids, plan.positions
        self._table = torch.zeros(plan.rows, table_width, dtype=torch.int32, device=device)
        self._lengths = torch.ones(plan.rows, 1, dtype=torch.int32, device=device)

    def prepare(self, slots: Tensor, view: StateView, block_table: Tensor) -> None:
        self._plan.write(slots, view, block_table)
        torch.index_select(block_table, 0, slots, out=self._table)
        torch.add(self.positions.unsqueeze(1), 1, out=self._lengths)

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        out = torch.empty_like(q)
        self._run(
            q.unsqueeze(1),
            cache[:, 0],
            cache[:, 1],
            self._table,
            self._lengths.view(torch.uint32),
            out.unsqueeze(1),
            self._scratch.partial,
            self._scratch.semaphores,
            self._heads.kv,
            cache.shape[2],
            q_scale=1.0,
            kv_scale=1.0,
            kv_layout="NHD",
            enable_pdl=self._heads.programmatic,
        )
        return out.flatten(1)


def xqa_obstacle(heads: Heads, page: int, generation: int) -> str:
    """Why XQA is no candidate; empty where it is one. generation: first number of the compute capability. A kernel that
    is not compiled yet is left out: it takes half a minute, and `python -m scripts.build_xqa` does it once."""
    if generation not in _XQA_GENERATIONS:
        return f"not written for compute capability {generation}.x"
    if heads.group & (heads.group - 1) or heads.dim % 16:
        return f"not written for {heads.group} query heads a key head of {heads.dim} dimensions"
    if not xqa_spec(heads, page).is_compiled:
        return "not compiled for this shape: python -m scripts.build_xqa MODEL compiles it, in half a minute"
    return ""


def xqa_spec(heads: Heads, page: int) -> Any:
    """FlashInfer's build of XQA for this shape."""
    from flashinfer.jit.xqa import gen_xqa_module

    dtype = torch.bfloat16
    return gen_xqa_module(dtype, dtype, page, heads.dim, heads.group, False, dtype)
