"""Linear layers on CPU whose rows do not depend on each other.

A gemm library chooses its kernel by the number of rows, and with it the order of a row's sum: the same row
gets other bits beside 40 neighbours than beside 3. Here every product is of exactly BLOCK rows, so a path's
logits are the same alone, in a batch, or as part of a prefill chunk.

Weights are packed once into oneDNN's own layout where torch has it: against a plain product, which repacks
the weights on every call, this takes 0.4-0.7 of the time at 16 rows on two AVX2 cores, waits for the other
thread once instead of twice, and adds a residual or applies an activation while the result is in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.config import BLOCK
from engine.errors import InvalidParameter


class Linear(Protocol):
    """y = x @ weight.T + bias in blocks of BLOCK rows, all float32 on CPU.

    x: [T, in], contiguous, T a multiple of BLOCK. `other` and what is returned: [T, out].
    """

    def __call__(self, x: Tensor) -> Tensor:
        """y"""

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """y + other"""

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """y * other"""

    def silu(self, x: Tensor) -> Tensor:
        """silu(y)"""


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """A layer that owns a packed copy of weight [out, in], or weight itself where torch cannot pack."""
    packs: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return PackedLinear(weight, bias) if packs else PlainLinear(weight, bias)


class PlainLinear:
    """Uses weight [out, in] as it lies: for a head that shares the embedding, or a torch without oneDNN."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return _in_blocks(lambda rows: functional.linear(x[rows], self._weight, self._bias), x)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x).add_(other)

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x).mul_(other)

    def silu(self, x: Tensor) -> Tensor:
        return functional.silu(self(x), inplace=True)


class PackedLinear:
    """Weights in oneDNN's blocked layout, packed for products of BLOCK rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, BLOCK)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return self._unary(x, "none")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self._binary(x, other, "add")

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self._binary(x, other, "mul")

    def silu(self, x: Tensor) -> Tensor:
        return self._unary(x, "swish")

    def _unary(self, x: Tensor, activation: str) -> Tensor:
        def product(rows: slice) -> Tensor:
            y: Tensor = _pointwise(x[rows], self._packed, self._bias, activation, [], "")
            return y

        return _in_blocks(product, x)

    def _binary(self, x: Tensor, other: Tensor, operation: str) -> Tensor:
        def product(rows: slice) -> Tensor:
            y: Tensor = _pointwise_binary(x[rows], other[rows], self._packed, self._bias, operation)
            return y

        return _in_blocks(product, x)


_pointwise = torch.ops.mkldnn._linear_pointwise.default
_pointwise_binary = torch.ops.mkldnn._linear_pointwise.binary


def _in_blocks(product: Callable[[slice], Tensor], x: Tensor) -> Tensor:
    count = x.shape[0]
    if count % BLOCK or count == 0:
        raise InvalidParameter(f"a step must be padded to a multiple of {BLOCK} rows, got {count}")
    if count == BLOCK:
        return product(slice(None))
    return torch.cat([product(slice(start, start + BLOCK)) for start in range(0, count, BLOCK)])
