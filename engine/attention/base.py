"""What a step asks of attention.

A step's tokens lie in one tensor: first one token for each decoding row, padded to whole blocks; then the prompt
chunks, cut into blocks of fixed size, the last padded. Padding rows may return anything finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """Token number `row` of the step is the newest of table `table`, which holds `length` tokens with it."""

    row: int
    table: int
    length: int


@dataclass(frozen=True, slots=True)
class PrefillBlock:
    """Tokens row .. row + valid - 1 of the step take positions start .. start + valid - 1 of table `table`."""

    row: int
    table: int
    start: int
    valid: int


@dataclass(frozen=True, slots=True)
class StepShape:
    """rows come first and in order: row i is token i."""

    tokens: int
    rows: tuple[DecodeRow, ...]
    blocks: tuple[PrefillBlock, ...]


class Attention(Protocol):
    """Reads the pool that it was built with; the keys and values of the step are already written there.

    A row's result depends on its own table alone: not on other rows, nor on padding, nor on where pages lie.
    """

    def prepare(self, shape: StepShape) -> None:
        """Called once a step, before the first layer."""
        ...

    def attend(self, layer: int, q: Tensor) -> Tensor:
        """q [tokens, q_heads, head_dim] -> [tokens, q_heads * head_dim], same dtype and device."""
        ...
