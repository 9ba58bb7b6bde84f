"""FlashInfer's kernels behind one interface: decode for a bucket of rows, prefill for a step's prompt chunks.

Decode uses the prefill kernel with one query a row, whose tensor cores read the keys of a whole group of heads at
once, on the schedule of `decode_plan`; or XQA, which needs none. Prefill is planned by FlashInfer on the host: its
steps are long and their lengths are known there.

Sources: FlashInfer (arXiv 2501.01005); layout of its plan as of flashinfer-python 0.6.13, which is pinned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.attention.decode_plan import DecodePlan, StateView
from engine.errors import EngineError

_NON_CAUSAL, NHD = 0, 0
_QUERY_TILE = 16  # rows of the decode tile: the query heads of one KV head, at most this many


class DecodeKernel(Protocol):
    """Decode attention of one bucket. `prepare` once a step, `attend` once a layer; both can be captured."""

    ids: Tensor  # [rows] int32, of each row's input token, after prepare
    positions: Tensor
    name: str

    def prepare(self, slots: Tensor, view: StateView, block_table: Tensor) -> None:
        """slots [rows] int32 on the device."""

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        """cache [pages, 2, page, Hkv, D]: one layer; q [rows, Hq, D] -> [rows, Hq * D]."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Shape of attention. programmatic: whether kernels may overlap their launches."""

    q: int
    kv: int
    dim: int
    programmatic: bool

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.dim)


def check_supported(heads: Heads, capability: tuple[int, int]) -> None:
    """Raises EngineError, naming the remedy, where no kernel exists."""
    if capability < (8, 0):
        raise EngineError(
            f"the GPU has compute capability {capability[0]}.{capability[1]}; the attention kernels need 8.0 "
            "(Ampere) or newer: use device='cpu'"
        )
    if heads.dim not in (64, 128, 256):
        raise EngineError(f"no attention kernel for head_dim {heads.dim} (64, 128, 256): use device='cpu'")
    if heads.q // heads.kv > _QUERY_TILE:
        raise EngineError(
            f"{heads.q // heads.kv} query heads a key head; the decode kernel takes up to {_QUERY_TILE}: "
            "use device='cpu'"
        )


def decode_module(heads: Heads) -> Any:
    """The compiled kernel; compiles it on first use (16-40 s) where no build is cached."""
    from flashinfer.jit import gen_batch_prefill_module

    dtype = torch.bfloat16
    return gen_batch_prefill_module(
        "fa2", dtype, dtype, dtype, torch.int32, heads.dim, heads.dim, 0, False, False, False
    ).build_and_load()


class TensorCoreDecode:
    """FlashInfer's tensor-core kernel on the plan of `rows`. split: a path's keys are cut into chunks, whose partial
    results a second kernel joins; without it each path is read by one block per KV head."""

    def __init__(self, module: Any, heads: Heads, plan: DecodePlan, scratch: Tensor, *, split: bool) -> None:
        self._module, self._heads, self._plan, self._scratch = module, heads, plan, scratch
        self.ids, self.positions = plan.ids, plan.positions
        self.name = f"tensor cores, {plan.capacity} chunks" if split else "tensor cores, whole paths"
        at = plan.offsets
        partial = plan.capacity * heads.q * heads.dim * 2
        self._info = [
            plan.capacity,
            plan.rows,
            at["total"],
            _QUERY_TILE,
            at["request"],
            at["query_tile"],
            at["tile"],
            at["indptr"],
            at["indptr"],
            at["chunk"],
            0,
            partial,
            at["valid"],
            True,
            split,
        ]

    def prepare(self, slots: Tensor, view: StateView, block_table: Tensor) -> None:
        self._plan.write(slots, view, block_table)

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        out = torch.empty_like(q)
        plan, heads = self._plan, self._heads
        self._module.paged_run(
            self._scratch,
            plan.workspace,
            self._info,
            q,
            cache[:, 0],
            cache[:, 1],
            plan.query_indptr,
            plan.kv_indptr,
            plan.kv_indices,
            plan.last_page_len,
            out,
            None,
            _NON_CAUSAL,
            NHD,
            -1,
            heads.programmatic,
            *[None] * 8,
            0.0,
            heads.scale,
            1.0,
            1e-4,
            0,
        )
        return out.flatten(1)


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
        from flashinfer.xqa import xqa

        out = torch.empty_like(q)
        xqa(
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


def xqa_is_built(heads: Heads, page: int) -> bool:
    """Whether XQA exists for this shape without a compilation of half a minute."""
    from flashinfer.jit.xqa import gen_xqa_module

    dtype = torch.bfloat16
    group = heads.q // heads.kv
    if group & (group - 1) or heads.dim % 16:
        return False
    return bool(gen_xqa_module(dtype, dtype, page, heads.dim, group, False, dtype).is_compiled)
