"""Causal attention of prompt chunks over the paged cache.

`PlannedPrefill` lets FlashInfer plan on the host and choose its kernel (FA3 on Hopper). `TiledPrefill` is for
batch-invariant use: the same kernel, the same tile and no split whatever the chunk, so that a prompt token's bits do
not depend on where its prompt was cut nor on what ran beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention.flashinfer import CAUSAL, Heads, PagedKernel, PageIndex, Schedule
from engine.kv.device_pool import DevicePool
from engine.kv.upload import Upload

_UNSPLIT = 1 << 30  # tokens of a chunk, more than any path has
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
        out = torch.empty_like(q)  # the wrapper would clear one
        self._wrappers[self._turn].run(q, (cache[:, 0], cache[:, 1]), out=out)
        return out.flatten(1)


class TiledPrefill:
    """FlashInfer's FA2 kernel on tiles laid out here."""

    backend = "fa2, fixed tiles"

    def __init__(self, kernel: PagedKernel, pool: DevicePool, ring: int) -> None:
        self._kernel, self._page = kernel, pool.page_size
        self._upload = Upload(ring, pool.data.device)
        self._scratch = torch.empty(16, dtype=torch.uint8, device=pool.data.device)  # nothing is split
        self._ready: tuple[Schedule, Tensor, PageIndex] | None = None

    def plan(self, starts: Sequence[int], lengths: Sequence[int], pages: Tensor) -> None:
        query, keys, last = _indptr(starts, lengths, self._page)
        heads = self._kernel.heads
        tiles = [-(-length * heads.group // heads.prefill_tile) for length in lengths]
        request = np.repeat(np.arange(len(tiles), dtype=np.int32), tiles)
        tile = np.concatenate([np.arange(count, dtype=np.int32) for count in tiles])
        # Where nothing is split the output of a chunk starts at its queries.
        sections = [request, tile, np.zeros_like(tile), query, np.array([_UNSPLIT], dtype=np.int32)]
        offsets, flat = _aligned(sections)
        workspace, *index = (part.clone() for part in self._upload.send([flat, query, keys, last]))
        at_request, at_tile, at_chunk, at_first, at_size = offsets
        schedule = Schedule(
            blocks=len(request),
            rows=int(query[-1]),
            tile=heads.prefill_tile,
            request=at_request,
            query_tile=at_tile,
            chunk=at_chunk,
            first=at_first,
            chunk_size=at_size,
        )
        self._ready = schedule, workspace, PageIndex(index[0], index[1], pages, index[2])

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        assert self._ready is not None, "a step is planned before its first layer"
        schedule, workspace, index = self._ready
        return self._kernel.run(
            schedule, workspace, self._scratch, index, cache, q, mask=CAUSAL, programmatic=False
        )


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
