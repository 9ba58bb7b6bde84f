"""Causal attention of prompt chunks over the paged cache.

`PlannedPrefill` lets FlashInfer plan on the host and choose its kernel (FA3 on Hopper). `TiledPrefill` is for
batch-invariant use: the same kernel, the same tile and no split whatever the chunk, so that a prompt token's bits do
not depend on where its prompt was cut nor on what ran beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention.flashinfer import NHD, Heads, decode_module
from engine.kv.device_pool import DevicePool

_CAUSAL = 1
_TILE = 128  # query rows of a tile: tokens times the query heads of one KV head
_SCRATCH_BYTES = 256 << 20


class Prefill(Protocol):
    """backend: which kernel, for the start report."""

    backend: str

    def plan(self, starts: Sequence[int], lengths: Sequence[int], pages: Tensor) -> None:
        """Once a step. Chunk i has lengths[i] tokens behind starts[i] cached ones. pages: int32 on the device, the
        pages of every chunk's table up to its end, one chunk after the other."""

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        """cache [pages, 2, page, Hkv, D]: one layer; q [tokens, Hq, D] of all chunks -> [tokens, Hq * D]."""


class PlannedPrefill:
    """`ring` wrappers take turns: a wrapper's pinned plan must not be written again before its copy has run, and
    that waits for the steps launched before."""

    def __init__(self, pool: DevicePool, heads: Heads, ring: int) -> None:
        from flashinfer import BatchPrefillWithPagedKVCacheWrapper

        device = pool.data.device
        hopper = torch.cuda.get_device_capability(device) == (9, 0)
        self.backend = "fa3" if hopper and heads.dim == 128 else "fa2"
        self._page, self._heads = pool.page_size, heads
        scratch = torch.empty(_SCRATCH_BYTES, dtype=torch.uint8, device=device)
        self._wrappers = [
            BatchPrefillWithPagedKVCacheWrapper(scratch, "NHD", backend=self.backend) for _ in range(ring)
        ]
        self._turn = 0

    def plan(self, starts: Sequence[int], lengths: Sequence[int], pages: Tensor) -> None:
        query, keys, last = (torch.from_numpy(array) for array in _indptr(starts, lengths, self._page))
        self._turn = (self._turn + 1) % len(self._wrappers)
        self._wrappers[self._turn].plan(
            query,
            keys,
            pages,
            last,
            self._heads.q,
            self._heads.kv,
            self._heads.dim,
            self._page,
            causal=True,
            sm_scale=self._heads.scale,
            q_data_type=torch.bfloat16,
            kv_data_type=torch.bfloat16,
        )

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        out: Tensor = self._wrappers[self._turn].run(q, (cache[:, 0], cache[:, 1]))
        return out.flatten(1)


class TiledPrefill:
    """FlashInfer's FA2 kernel on tiles laid out here."""

    backend = "fa2, fixed tiles"

    def __init__(self, pool: DevicePool, heads: Heads) -> None:
        self._module: Any = decode_module(heads)
        self._page, self._heads, self._device = pool.page_size, heads, pool.data.device
        self._scratch = torch.empty(16, dtype=torch.uint8, device=self._device)
        self._index: list[Tensor] = []
        self._workspace = torch.empty(0, dtype=torch.int32, device=self._device)
        self._info: list[int | bool] = []

    def plan(self, starts: Sequence[int], lengths: Sequence[int], pages: Tensor) -> None:
        query, keys, last = _indptr(starts, lengths, self._page)
        group = self._heads.q // self._heads.kv
        tiles = [-(-length * group // _TILE) for length in lengths]
        request = np.repeat(np.arange(len(tiles), dtype=np.int32), tiles)
        tile = np.concatenate([np.arange(count, dtype=np.int32) for count in tiles])
        # FlashInfer's order of offsets; where nothing is split the output of a chunk starts at its queries.
        sections = [request, tile, np.zeros_like(tile), query, np.array([1 << 30], dtype=np.int32)]
        offsets, flat = _aligned(sections)
        self._workspace = torch.from_numpy(flat).to(self._device)
        self._index = [torch.from_numpy(array).to(self._device) for array in (query, keys, last)]
        self._index.insert(2, pages)
        at_request, at_tile, at_chunk, at_out, at_size = offsets
        total = int(query[-1])
        self._info = [len(request), total, 0, _TILE, at_request, at_tile, at_chunk, 0, at_out, at_size]
        self._info += [0, 0, 0, False, False]

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        out = torch.empty_like(q)
        self._module.paged_run(
            self._scratch,
            self._workspace,
            self._info,
            q,
            cache[:, 0],
            cache[:, 1],
            *self._index,
            out,
            None,
            _CAUSAL,
            NHD,
            -1,
            False,
            *[None] * 8,
            0.0,
            self._heads.scale,
            1.0,
            1e-4,
            0,
        )
        return out.flatten(1)


def _indptr(starts: Sequence[int], lengths: Sequence[int], page: int) -> list[NDArray[np.int32]]:
    """First query of each chunk, first page of each chunk, tokens in its last page."""
    ends = np.array(starts) + np.array(lengths)
    query = np.concatenate(([0], np.cumsum(lengths)))
    keys = np.concatenate(([0], np.cumsum(-(-ends // page))))
    return [array.astype(np.int32) for array in (query, keys, (ends - 1) % page + 1)]


def _aligned(sections: Sequence[NDArray[np.int32]]) -> tuple[list[int], NDArray[np.int32]]:
    """Byte offsets of the sections in one buffer, each at a multiple of 16, and the buffer."""
    offsets, end = [], 0
    for section in sections:
        offsets.append(4 * end)
        end += -(-section.size // 4) * 4
    flat = np.zeros(end, dtype=np.int32)
    for offset, section in zip(offsets, sections, strict=True):
        flat[offset // 4 : offset // 4 + section.size] = section
    return offsets, flat
