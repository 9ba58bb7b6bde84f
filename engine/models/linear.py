"""A linear layer on CPU whose rows do not depend on each other.

A gemm library chooses its kernel by the number of rows, and with it the order of a row's sum: the same row
gets other bits beside 40 neighbours than beside 3. Here every product is of exactly BLOCK rows, so a path's
logits are the same alone, in a batch, or as part of a prefill chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import InvalidParameter

BLOCK = 16


class Linear:
    """y = x @ weight.T + bias, float32, in blocks of BLOCK rows.

    weight: [out, in] float32 CPU; bias: [out] float32 or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.outputs, self.inputs = weight.shape
        self._weight = weight.t()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """x: [T, in] float32, T a multiple of BLOCK. Returns [T, out]."""
        out = x.new_empty(x.shape[0], self.outputs)
        for start in _starts(x):
            rows = slice(start, start + BLOCK)
            torch.mm(x[rows], self._weight, out=out[rows])
        return out if self._bias is None else out.add_(self._bias)


def _starts(x: Tensor) -> range:
    rows = x.shape[0]
    if rows % BLOCK:
        raise InvalidParameter(f"a step must be padded to a multiple of {BLOCK} rows, got {rows}")
    return range(0, rows, BLOCK)
