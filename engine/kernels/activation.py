"""silu(gate) * up over the fused gate and up product."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import block_of, launch_on, wait_for_previous

_BLOCK = 1024


@triton.jit(do_not_specialize=["ffn"])
def _silu_mul(gate_up, out, ffn, BLOCK: tl.constexpr, PDL: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < ffn
    wait_for_previous(PDL)
    gate = tl.load(gate_up + row * 2 * ffn + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * ffn + ffn + at, mask=mask, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row * ffn + at, y.to(out.dtype.element_ty), mask=mask)


def silu_mul(gate_up: Tensor, out: Tensor) -> None:
    """gate_up [T, 2 * F], gate first; out [T, F] = silu(gate) * up, computed in float32."""
    rows, ffn = out.shape
    block = min(_BLOCK, block_of(ffn))
    _silu_mul[(rows, triton.cdiv(ffn, block))](
        gate_up, out, ffn, BLOCK=block, num_warps=4, **launch_on(out.device).options()
    )
