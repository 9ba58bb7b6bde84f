"""One copy a step from the host to the device, out of a ring of pinned buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_FIRST_INTS = 1 << 14
_ALIGN = 4  # ints: 16 bytes


class Upload:
    """A pinned buffer is written again only when the copy out of it has run, however far the host is ahead."""

    def __init__(self, ring: int, device: torch.device) -> None:
        self._device = device
        self._pinned = [self._buffer(_FIRST_INTS) for _ in range(ring)]
        self._copied = [torch.cuda.Event() for _ in range(ring)]  # type: ignore[no-untyped-call]
        self._target = torch.empty(_FIRST_INTS, dtype=torch.int32, device=device)
        self._turn = 0

    def send(self, arrays: Sequence[NDArray[np.int32]]) -> list[Tensor]:
        """The arrays, flat, as int32 tensors on the device, behind what is queued on the current stream. Valid for
        what is launched before the next `send`."""
        starts, end = [], 0
        for array in arrays:
            starts.append(end)
            end += -(-array.size // _ALIGN) * _ALIGN
        turn = self._turn = (self._turn + 1) % len(self._pinned)
        self._copied[turn].synchronize()
        if self._pinned[turn].numel() < end:
            self._pinned[turn] = self._buffer(2 * end)
        if self._target.numel() < end:
            self._target = torch.empty(2 * end, dtype=torch.int32, device=self._device)
        pinned = self._pinned[turn].numpy()
        for start, array in zip(starts, arrays, strict=True):
            pinned[start : start + array.size] = array.reshape(-1)
        self._target[:end].copy_(self._pinned[turn][:end], non_blocking=True)
        self._copied[turn].record()
        return [self._target[start : start + array.size] for start, array in zip(starts, arrays, strict=True)]

    def _buffer(self, ints: int) -> Tensor:
        return torch.empty(ints, dtype=torch.int32, pin_memory=True)
