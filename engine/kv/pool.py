"""The tensors behind the pages, in the layout that the CPU reads fastest.

[layer, K|V, kv head, token address, head_dim]: the tokens of neighbouring pages are neighbours, so a path whose
pages lie side by side is one strided view and attention reads it in place. Gathering pages instead costs more
than half of a decode step on this kind of machine. One page more than the allocator knows takes the writes of
padding rows; nobody reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from engine.kv.edits import PageCopy


class KVPool:
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
        self.padding = pages * page_size  # token address where padding rows write
        # Not cleared: the operating system hands out memory when a page is first written.
        self.data = torch.empty(
            layers, 2, kv_heads, (pages + 1) * page_size, head_dim, dtype=dtype, device=device
        )

        # One view a layer, made once: a view costs as much as a small kernel.
        self._keys = [self.data[layer, 0] for layer in range(layers)]
        self._values = [self.data[layer, 1] for layer in range(layers)]

    def keys(self, layer: int) -> Tensor:
        """[kv_heads, tokens, head_dim], a view."""
        return self._keys[layer]

    def values(self, layer: int) -> Tensor:
        """[kv_heads, tokens, head_dim], a view."""
        return self._values[layer]

    def write(self, layer: int, at: Tensor, k: Tensor, v: Tensor) -> None:
        """k, v [T, kv_heads, head_dim] go to the token addresses at [T] int64."""
        self._keys[layer].index_copy_(1, at, k.transpose(0, 1))
        self._values[layer].index_copy_(1, at, v.transpose(0, 1))

    def copy(self, copies: Iterable[PageCopy]) -> None:
        for copy in copies:
            source, target = copy.source * self.page_size, copy.target * self.page_size
            self.data[:, :, :, target : target + copy.tokens] = self.data[
                :, :, :, source : source + copy.tokens
            ]
