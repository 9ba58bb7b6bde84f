"""Matrix products of the GPU engine: bfloat16 in, float32 sums.

The library chooses a kernel by the number of rows, and with it the order of a row's sum. `BlockProduct` always asks
for the same number, so that a row has the same bits beside any neighbours: what batch-invariant use pays for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

INVARIANT_ROWS = 64


class Product(Protocol):
    """x [T, in] bfloat16, contiguous -> x @ weight.T + bias [T, out]."""

    def __call__(self, x: Tensor) -> Tensor: ...


class Products(Protocol):
    """How an engine multiplies: `linear` gives bfloat16, `head` gives float32 (bfloat16 would round a logit of 20 to
    steps of 1/8). weight [out, in], bias [out] or None."""

    def linear(self, weight: Tensor, bias: Tensor | None) -> Product: ...

    def head(self, weight: Tensor) -> Product: ...


def _linear(weight: Tensor, bias: Tensor | None) -> Product:
    return lambda x: functional.linear(x, weight, bias)


def _head(weight: Tensor) -> Product:
    return lambda x: torch.mm(x, weight.t(), out_dtype=torch.float32)


class WholeProducts:
    """One product for all rows."""

    def linear(self, weight: Tensor, bias: Tensor | None) -> Product:
        return _linear(weight, bias)

    def head(self, weight: Tensor) -> Product:
        return _head(weight)


class BlockProducts:
    """Products of INVARIANT_ROWS rows each, the last one padded."""

    def linear(self, weight: Tensor, bias: Tensor | None) -> Product:
        return BlockProduct(_linear(weight, bias))

    def head(self, weight: Tensor) -> Product:
        return BlockProduct(_head(weight))


@dataclass(frozen=True, slots=True)
class BlockProduct:
    product: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        padded = functional.pad(x, (0, 0, 0, -rows % INVARIANT_ROWS))
        parts = [self.product(block) for block in padded.split(INVARIANT_ROWS)]  # type: ignore[no-untyped-call]
        return parts[0][:rows] if len(parts) == 1 else torch.cat(parts)[:rows]
