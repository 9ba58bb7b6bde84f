"""KV pages on a GPU: [page, layer, K|V, token, kv head, head_dim].

All layers of a page lie together, so that a page is one copy for forks, offload and transfer; a layer is a strided
view, which the attention kernels read at the same speed. One page more than the allocator knows, `padding`, takes
the writes of rows that stand for nobody.
"""

from __future__ import annotations

from itertools import count
from math import gcd

import torch
from torch import Tensor

from engine.kernels.page_copy import copy_pages

_STRIDE = 7919  # or the next number that shares no factor with the number of pages


class DevicePool:
    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.page_size = page_size
        self.padding = pages
        # Zeros, because a kernel reads what lies behind a path's last token in its page and multiplies it by nothing:
        # what memory happens to hold may be NaN.
        self.data = torch.zeros(
            pages + 1, layers, 2, page_size, kv_heads, head_dim, dtype=dtype, device=device
        )
        self._stride = next(s for s in count(_STRIDE) if gcd(s, pages) == 1)
        self.layers = [self.data[:, layer] for layer in range(layers)]
        """One view a layer, [pages, 2, page, kv_heads, head_dim]."""

    def place(self, page: int) -> int:
        """Where a page of the allocator lies. Neighbours are spread over the pool: paths that grow in step would
        otherwise read addresses at equal distances, which the memory's channels serve at 0.85 of their speed."""
        return page * self._stride % self.padding

    def copy(self, sources: Tensor, targets: Tensor) -> None:
        """Whole pages by their places, int32 [n] on the device: what lies behind a copy's tokens is written before
        anybody reads it."""
        copy_pages(self.data, sources, targets)
