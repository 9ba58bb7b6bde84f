"""Matrix products of a few rows at the speed at which memory gives the weights.

A decode step reads every weight once for a few rows. What a library loses there is not in the inner loop but
around it: narrow matrices are over before all of the memory's channels are busy, and between two kernels nothing is
read at all. Here the columns are split over enough blocks to fill the card, partial sums are left for the next kernel
to add, and, where launches may overlap, a block asks for its weights before it waits for its input: they stream in
while the kernel in front of it, a norm or an activation, is still at work.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda as tl_cuda

from engine.kernels.launch import block_of, launch_on

TILE_ROWS = 16  # of the tensor cores' tile: one row costs what sixteen do
MAX_ROWS = 64
_LINE = 64  # weights of two bytes in a line of the cache
_BLOCKS = 190


@triton.jit
def _ask_for(address):
    """Brings the line that holds the address, int64, into the second-level cache."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [address], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit(do_not_specialize=["rows"])
def _stream_linear(
    x,
    weight,
    out,
    rows,
    N: tl.constexpr,
    K: tl.constexpr,
    PART: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    AHEAD: tl.constexpr,
    LINE: tl.constexpr,
    PDL: tl.constexpr,
):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(1)
    m = tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    first = part * PART
    w = weight + n[:, None].to(tl.int64) * K + first + k[None, :]
    if PDL:
        if AHEAD > 0:
            line = weight + n[:, None].to(tl.int64) * K + first + tl.arange(0, AHEAD)[None, :] * LINE
            _ask_for(line.to(tl.int64, bitcast=True))
        tl_cuda.gdc_wait()
        tl_cuda.gdc_launch_dependents()
    a = x + m[:, None] * K + first + k[None, :]
    here = (m < rows)[:, None]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, PART, BLOCK_K):
        sums = tl.dot(tl.load(a, mask=here, other=0.0), tl.trans(tl.load(w)), sums)
        a += BLOCK_K
        w += BLOCK_K
    at = out + (part.to(tl.int64) * rows + m[:, None]) * N + n[None, :]
    tl.store(at, sums.to(out.dtype.element_ty), mask=here)


@dataclass(frozen=True, slots=True)
class StreamShape:
    """How one matrix is cut: blocks of `block_n` outputs, `parts` of the inputs, `block_k` inputs a turn. ahead: lines
    of each output's weights that are asked for before the input is there.

    The numbers were found on an H200 by trying (docs/benchmarks.md): about two hundred blocks fill its memory's
    channels; four lines ahead are what arrives while a norm runs.
    """

    parts: int
    block_n: int = 64
    block_k: int = 128
    warps: int = 4
    stages: int = 4
    ahead: int = 4

    @classmethod
    def of(cls, out: int, inputs: int) -> StreamShape | None:
        """The cut of a matrix [out, inputs]; None where it is too small or of a shape that does not divide."""
        for cut in map(cls, (1, 2, 4, 8)):
            blocks, rest = divmod(out, cut.block_n)
            if blocks * cut.parts >= _BLOCKS and not rest and inputs % (cut.parts * cut.block_k) == 0:
                return cut
        return None


def stream_linear(x: Tensor, weight: Tensor, shape: StreamShape) -> Tensor:
    """x [T, in] bfloat16, weight [out, in] -> partial sums [parts, T, out] whose sum is the product: float32, or
    bfloat16 where there is one part. T at most MAX_ROWS."""
    rows, k = x.shape
    n = weight.shape[0]
    dtype = torch.float32 if shape.parts > 1 else x.dtype
    out = torch.empty(shape.parts, rows, n, dtype=dtype, device=x.device)
    _stream_linear[(n // shape.block_n, shape.parts)](
        x,
        weight,
        out,
        rows,
        N=n,
        K=k,
        PART=k // shape.parts,
        BLOCK_N=shape.block_n,
        BLOCK_K=shape.block_k,
        BLOCK_M=max(TILE_ROWS, block_of(rows)),
        AHEAD=shape.ahead,
        LINE=_LINE,
        num_warps=shape.warps,
        num_stages=shape.stages,
        **launch_on(x.device).options(),
    )
    return out
