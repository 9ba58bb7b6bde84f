"""How kernels are launched on a device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from triton.language.extra import cuda as tl_cuda


@dataclass(frozen=True, slots=True)
class Launch:
    """programmatic: launches overlap (programmatic dependent launch, compute capability 9.0 and newer)."""

    programmatic: bool

    def options(self) -> dict[str, object]:
        """Keyword arguments for a kernel with a PDL constexpr."""
        if self.programmatic:
            return {"PDL": True, "launch_pdl": True}
        return {"PDL": False}


@cache
def launch_on(device: torch.device) -> Launch:
    return Launch(device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0))


@triton.jit
def wait_for_previous(PDL: tl.constexpr):
    """Before the first read of what the kernel before has written; lets the next one start right behind.

    In this order: whoever starts after this kernel has waited knows that all kernels before this one are over. On that
    ground attention reads its schedule, which is several kernels old, without waiting.
    """
    if PDL:
        tl_cuda.gdc_wait()
        tl_cuda.gdc_launch_dependents()


def block_of(size: int) -> int:
    """The power of two that a Triton block of `size` elements takes."""
    return 1 << max(0, size - 1).bit_length()


def warps_for(block: int) -> int:
    """Warps for one pass over a row: 8 to 16 elements a thread, 1 to 16 warps."""
    return max(1, min(16, block // 256))
