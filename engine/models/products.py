"""Matrix products of the GPU engine: bfloat16 in, sums in float32 within a kernel.

`product_choice` takes the fastest for each matrix and number of rows. The library chooses its kernel by the number of
rows, and with it the order of a row's sum; `BlockProducts` always asks for the same number, so that a row has the same
bits beside any neighbours: what batch-invariant use pays for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.config import INVARIANT_ROWS

Multiply = Callable[[Tensor], Tensor]


class Product(Protocol):
    """x [T, in] bfloat16, contiguous -> [parts, T, out], bfloat16 or float32, whose sum is x @ weight.T + bias. The
    kernel behind adds the parts as it reads them."""

    def __call__(self, x: Tensor) -> Tensor: ...


class Products(Protocol):
    """How an engine multiplies. weight [out, in], bias [out] or None. parts: whether what follows can add partial
    sums; else there is one. head: [T, in] -> [T, out] float32 (bfloat16 would round a logit of 20 to steps of 1/8)."""

    def linear(self, weight: Tensor, bias: Tensor | None, *, parts: bool) -> Product: ...

    def head(self, weight: Tensor) -> Multiply: ...


def linear(weight: Tensor, bias: Tensor | None) -> Multiply:
    return lambda x: functional.linear(x, weight, bias)


def head(weight: Tensor) -> Multiply:
    return lambda x: torch.mm(x, weight.t(), out_dtype=torch.float32)


class BlockProducts:
    """Products of INVARIANT_ROWS rows each, the last one padded."""

    def linear(self, weight: Tensor, bias: Tensor | None, *, parts: bool) -> Product:
        block = BlockProduct(linear(weight, bias))
        return lambda x: block(x)[None]

    def head(self, weight: Tensor) -> Multiply:
        return BlockProduct(head(weight))


@dataclass(frozen=True, slots=True)
class BlockProduct:
    product: Multiply

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        padded = functional.pad(x, (0, 0, 0, -rows % INVARIANT_ROWS)) if rows % INVARIANT_ROWS else x
        parts = [self.product(block) for block in padded.split(INVARIANT_ROWS)]  # type: ignore[no-untyped-call]
        return parts[0][:rows] if len(parts) == 1 else torch.cat(parts)[:rows]
