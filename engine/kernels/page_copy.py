"""Copies whole pages inside the KV pool: no temporary, every pair in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096  # words of 8 bytes that one program moves


@triton.jit(do_not_specialize=["words"])
def _copy_pages(pool, sources, targets, words, BLOCK: tl.constexpr):
    pair = tl.program_id(0)
    source = tl.load(sources + pair).to(tl.int64)
    target = tl.load(targets + pair).to(tl.int64)
    at = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < words
    tl.store(pool + target * words + at, tl.load(pool + source * words + at, mask=inside), mask=inside)


def copy_pages(pool: Tensor, sources: Tensor, targets: Tensor) -> None:
    """pool[targets] = pool[sources]; pool [pages, ...] contiguous, a page a multiple of 8 bytes; sources, targets int32
    [n] on its device, no page both a source and a target."""
    flat = pool.view(pool.shape[0], -1).view(torch.int64)
    words = flat.shape[1]
    _copy_pages[(sources.shape[0], triton.cdiv(words, _BLOCK))](
        flat, sources, targets, words, BLOCK=_BLOCK, num_warps=8
    )
