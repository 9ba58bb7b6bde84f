"""Fixed memory that the kernels of a step hand their findings on in, and how a row is cut."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import block_of

PASSES = 5  # at most, see race.py
TILE = 2048
GROUPS = 32  # of neighbouring scores in a tile; the maximum of each narrows the search for the k best
ROWS_AT_ONCE = 256  # rows whose shaped scores are held at a time
_PROGRAMS = 2048  # enough to fill a GPU several times over

# What a row is measured by, of its raw logits; each a float32.
LOG_TOTAL = tl.constexpr(0)  # log of the sum of their exponentials
ENTROPY = tl.constexpr(1)
CONFIDENCE = tl.constexpr(2)
MEASURES = tl.constexpr(3)

WEIGHTS = 3  # that a tile of raw logits reports, see measure.py


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a row of `vocab` scores is cut: the same way wherever and beside whatever it runs."""

    vocab: int
    tile: int
    tiles: int

    @classmethod
    def of(cls, vocab: int, tile: int = TILE) -> Tiling:
        """tile: a power of two, at least GROUPS; a smaller vocabulary gets a smaller one."""
        tile = min(tile, max(GROUPS, block_of(vocab)))
        return cls(vocab, tile, -(-vocab // tile))

    @property
    def pad(self) -> int:
        """Tiles, rounded up to a power of two."""
        return block_of(self.tiles)

    @property
    def groups_block(self) -> int:
        """Groups of a row, rounded up to a power of two."""
        return self.pad * GROUPS

    def per_program(self, rows: int) -> int:
        """Tiles that one program scans. Changes who computes what, not the outcome."""
        return max(1, min(self.tiles, rows * self.tiles // _PROGRAMS))


@dataclass(frozen=True, slots=True)
class Workspace:
    """On the device, float32 unless it says otherwise.

    reports: [PASSES, rows, 4, pad], see tile.py. carried: [PASSES, rows, 4], see race.py. maxima: [rows, groups], of
    the scores of each group. chosen: int32 [rows, groups], groups that may hold one of the k best. weights:
    [rows, 3, pad] and measures: [rows, 3], see measure.py. scores: [at once, vocab], see shape.py. floors:
    [at once, 2], see floors.py.
    """

    reports: Tensor
    carried: Tensor
    maxima: Tensor
    chosen: Tensor
    weights: Tensor
    measures: Tensor
    scores: Tensor
    floors: Tensor

    @classmethod
    def allocate(cls, tiling: Tiling, rows: int, device: torch.device) -> Workspace:
        def make(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        at_once = min(rows, ROWS_AT_ONCE)
        return cls(
            reports=make(PASSES, rows, 4, tiling.pad),
            carried=make(PASSES, rows, 4),
            maxima=make(rows, tiling.groups_block),
            chosen=make(rows, tiling.groups_block, dtype=torch.int32),
            weights=make(rows, WEIGHTS, tiling.pad),
            measures=make(rows, 3),
            scores=make(at_once, tiling.vocab),
            floors=make(at_once, 2),
        )

    @property
    def bytes(self) -> int:
        race = (self.reports, self.carried, self.scores, self.floors)
        measure = (self.maxima, self.chosen, self.weights, self.measures)
        return sum(each.nbytes for each in (*race, *measure))
