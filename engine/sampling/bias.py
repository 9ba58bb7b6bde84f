"""Logit bias: what a caller adds to the logits of some tokens (OpenAI's definition).

Sparse: a path names at most engine.types.MAX_BIAS tokens of a vocabulary many times that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.types import SamplingParams

_NOTHING = -0.0  # leaves every number as it is; +0.0 would turn -0.0 into +0.0


class Bias:
    """ids: [slots, longest bias] int64, 0 where unused; values: the same shape, float32, -0.0 where unused."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self.ids = torch.zeros((slots, 0), dtype=torch.int64, device=device)
        self.values = torch.zeros((slots, 0), dtype=torch.float32, device=device)

    def admit(self, slot: int, params: SamplingParams) -> None:
        pairs = params.logit_bias
        self._widen(len(pairs))
        self.ids[slot] = 0
        self.values[slot] = _NOTHING
        if pairs:
            ids, values = zip(*pairs, strict=True)
            self.ids[slot, : len(pairs)] = torch.tensor(ids)
            self.values[slot, : len(pairs)] = torch.tensor(values, dtype=torch.float32)

    def apply(self, scores: Tensor, slots: Tensor) -> Tensor:
        """Biased scores, a new tensor. scores: [rows, vocab] float32; slots: [rows] int64."""
        ids, values = self.ids.index_select(0, slots), self.values.index_select(0, slots)
        return scores.scatter_add(1, ids, values)

    def _widen(self, width: int) -> None:
        slots, current = self.ids.shape
        if current < width:
            shape = (slots, width - current)
            self.ids = torch.cat((self.ids, self.ids.new_zeros(shape)), 1)
            self.values = torch.cat((self.values, self.values.new_full(shape, _NOTHING)), 1)
