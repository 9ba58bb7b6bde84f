"""RMSNorm, alone behind the embedding and fused with the residual sum everywhere else.

The residual stream is float32: it is read and written once a kernel beside a matrix that is thousands of times
larger, and bfloat16 there would be the largest rounding of the whole step.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import block_of, launch_on, wait_for_previous, warps_for


@triton.jit
def _normed(x, w, hidden, eps):
    return x * tl.rsqrt(tl.sum(x * x, 0) / hidden + eps) * w


@triton.jit(do_not_specialize=["hidden"])
def _embed_norm(ids, table, weight, residual, out, hidden, eps, BLOCK: tl.constexpr, PDL: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < hidden
    w = tl.load(weight + at, mask=mask, other=0.0).to(tl.float32)  # while the kernel before drains
    wait_for_previous(PDL)
    token = tl.load(ids + row).to(tl.int64)
    x = tl.load(table + token * hidden + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(residual + row * hidden + at, x, mask=mask)
    y = _normed(x, w, hidden, eps)
    tl.store(out + row * hidden + at, y.to(out.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["hidden"])
def _add_norm(
    residual, y, weight, out, hidden, eps, PARTS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < hidden
    w = tl.load(weight + at, mask=mask, other=0.0).to(tl.float32)
    wait_for_previous(PDL)
    x = tl.load(residual + row * hidden + at, mask=mask, other=0.0)
    rows = tl.num_programs(0)
    for part in tl.static_range(PARTS):
        x += tl.load(y + (part * rows + row) * hidden + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(residual + row * hidden + at, x, mask=mask)
    z = _normed(x, w, hidden, eps)
    tl.store(out + row * hidden + at, z.to(out.dtype.element_ty), mask=mask)


def embed_norm(ids: Tensor, table: Tensor, weight: Tensor, eps: float, residual: Tensor, out: Tensor) -> None:
    """residual [T, H] float32 = table[ids]; out [T, H] = rms_norm(residual) * weight.

    ids [T] int32; table [V, H] and weight [H] in the model's dtype, contiguous.
    """
    rows, hidden = out.shape
    block = block_of(hidden)
    options = launch_on(ids.device).options()
    _embed_norm[(rows,)](
        ids, table, weight, residual, out, hidden, eps, BLOCK=block, num_warps=warps_for(block), **options
    )


def add_norm(residual: Tensor, y: Tensor, weight: Tensor, eps: float, out: Tensor) -> None:
    """residual [T, H] float32 += sum of y [parts, T, H], in place; out [T, H] = rms_norm(residual) * weight."""
    rows, hidden = out.shape
    block = block_of(hidden)
    _add_norm[(rows,)](
        residual,
        y,
        weight,
        out,
        hidden,
        eps,
        PARTS=y.shape[0],
        BLOCK=block,
        num_warps=warps_for(block),
        **launch_on(y.device).options(),
    )
