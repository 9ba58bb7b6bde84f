"""FlashInfer's paged attention kernel, called with schedules that are written here.

All that this project knows of the kernel's arguments stands in this file: the vector that describes a schedule, the
order of `paged_run`'s arguments, the tiles. It is that of flashinfer-python 0.6.13, which is pinned; the start of an
engine refuses another (`gpu_support`). Source: FlashInfer (arXiv 2501.01005), its include/flashinfer/attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.errors import EngineError

HEAD_DIMS = (64, 128, 256)
NON_CAUSAL, CAUSAL = 0, 1
_TOKENS_BEFORE_HEADS = 0  # FlashInfer's NHD
_NO_WINDOW = -1
_MOST_GROUPED = 64  # query heads of one KV head that a decode tile can take


@dataclass(frozen=True, slots=True)
class Heads:
    """Shape of attention. programmatic: whether kernels may overlap their launches."""

    q: int
    kv: int
    dim: int
    programmatic: bool

    @property
    def group(self) -> int:
        return self.q // self.kv

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.dim)

    @property
    def decode_tile(self) -> int:
        """Query rows of a tile that hold the heads of one token."""
        return 16 if self.group <= 16 else 64

    @property
    def prefill_tile(self) -> int:
        """As FlashInfer's own planner has it: wider heads leave room for fewer rows."""
        return 128 if self.dim < 256 else 64


def check_supported(heads: Heads, capability: tuple[int, int]) -> None:
    """Raises EngineError, naming the remedy, where no kernel exists."""
    if capability < (8, 0):
        raise EngineError(
            f"the GPU has compute capability {capability[0]}.{capability[1]}; the attention kernels need 8.0 "
            "(Ampere) or newer: use device='cpu'"
        )
    if heads.dim not in HEAD_DIMS:
        known = ", ".join(map(str, HEAD_DIMS))
        raise EngineError(
            f"no attention kernel for head_dim {heads.dim} (there are {known}): use device='cpu'"
        )
    if heads.group > _MOST_GROUPED:
        raise EngineError(
            f"{heads.group} query heads a key head; the decode kernel takes up to {_MOST_GROUPED}: use device='cpu'"
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a launch needs to know of its schedule beside the arrays. blocks: of the grid, for each KV head. rows: of
    queries. tile: query rows of a block. Offsets are in bytes: request .. valid in the integer workspace, values and
    sums of partial results in the scratch. fixed_grid: blocks beyond the schedule find in `valid` that they are not
    wanted, and `total` holds the number of rows. split: results are partial and joined by a second kernel."""

    blocks: int
    rows: int
    tile: int
    request: int
    query_tile: int
    chunk: int
    first: int
    chunk_size: int
    total: int = 0
    values: int = 0
    sums: int = 0
    valid: int = 0
    fixed_grid: bool = False
    split: bool = False

    def vector(self) -> list[int | bool]:
        """In FlashInfer's order; where the partial results of a row begin is also where they are joined from."""
        return [
            self.blocks,
            self.rows,
            self.total,
            self.tile,
            self.request,
            self.query_tile,
            self.chunk,
            self.first,
            self.first,
            self.chunk_size,
            self.values,
            self.sums,
            self.valid,
            self.fixed_grid,
            self.split,
        ]


@dataclass(frozen=True, slots=True)
class PageIndex:
    """int32 on the device. query: first query of each request, and one more. pages: first page of each, and one more.
    numbers: of the pages. last: tokens in the last page of each."""

    query: Tensor
    pages: Tensor
    numbers: Tensor
    last: Tensor


class PagedKernel:
    """The compiled kernel for one shape; compiles it on first use (16-40 s) where no build is cached."""

    def __init__(self, heads: Heads) -> None:
        from flashinfer.jit import gen_batch_prefill_module

        dtype = torch.bfloat16
        self.heads = heads
        self._module: Any = gen_batch_prefill_module(
            "fa2", dtype, dtype, dtype, torch.int32, heads.dim, heads.dim, 0, False, False, False
        ).build_and_load()

    def run(
        self,
        schedule: Schedule,
        workspace: Tensor,
        scratch: Tensor,
        index: PageIndex,
        cache: Tensor,
        q: Tensor,
        *,
        mask: int,
        programmatic: bool,
    ) -> Tensor:
        """q [rows, Hq, D] against one layer's cache [pages, 2, page, Hkv, D] -> [rows, Hq * D]. workspace int32,
        scratch uint8, on the device. mask: NON_CAUSAL or CAUSAL."""
        out = torch.empty_like(q)
        unused_tensors = [None] * 8  # masks, slopes, prefixes, scales
        soft_cap, rope_scale, rope_theta, item_tokens = 0.0, 1.0, 1e-4, 0  # none of them in this variant
        self._module.paged_run(
            scratch,
            workspace,
            schedule.vector(),
            q,
            cache[:, 0],
            cache[:, 1],
            index.query,
            index.pages,
            index.numbers,
            index.last,
            out,
            None,  # log-sum-exp
            mask,
            _TOKENS_BEFORE_HEADS,
            _NO_WINDOW,
            programmatic,
            *unused_tensors,
            soft_cap,
            self.heads.scale,
            rope_scale,
            rope_theta,
            item_tokens,
        )
        return out.flatten(1)
