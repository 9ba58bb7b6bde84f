"""What a path is measured by on the way, advanced by one token: see engine.types.Statistic.

Sums are float64. The confidences in a window are float32 numbers of like size, so few that adding them up rounds
nothing: their mean depends on no order, it cannot drift, and it is the same in any batch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from engine.sampling.logprobs import LogProbs
from engine.types import MAX_WINDOW, SamplingParams

CONFIDENT = 20  # most likely tokens that a confidence is the mean of


class Totals(NamedTuple):
    """One row of the table of totals per field, each [rows] float64."""

    window: Tensor  # tokens that a confidence is averaged over: a constant of the path
    sampled: Tensor  # tokens that counted so far
    logprob_sum: Tensor
    lowest: Tensor  # smallest mean of a full window so far, inf before the first


class Statistics:
    """totals: [4, slots] float64, see `Totals`. ring: [slots, MAX_WINDOW] float32, the last confidences of a path, of
    which the first `window` places are in use and the others 0. The ring has no slots until the first path that asks.

    A slot whose path asks for nothing has figures without a meaning, which nobody reads.
    """

    def __init__(self, slots: int, device: torch.device) -> None:
        self.totals = torch.ones((len(Totals._fields), slots), dtype=torch.float64, device=device)
        self.ring = torch.zeros((0, MAX_WINDOW), dtype=torch.float32, device=device)

    def admit(self, slot: int, params: SamplingParams) -> None:
        if not params.statistics:
            return
        if not len(self.ring):
            self.ring = self.ring.new_zeros((self.totals.shape[1], MAX_WINDOW))
        self.totals[:, slot] = torch.tensor((params.window, 0, 0, math.inf), dtype=torch.float64)
        self.ring[slot].zero_()

    def advance(self, slots: Tensor, found: LogProbs, counts: Tensor) -> Tensor:
        """[rows, 4] float32, in the order of engine.types.Statistic: what they are after this step's tokens.

        slots: [rows] int64; found: of the step's tokens, with at least `CONFIDENT` of the most likely, or all there
        are; counts: [rows] bool: which tokens were sampled and committed. The others leave an entropy and nothing
        else.
        """
        before = Totals(*self.totals.index_select(1, slots).unbind(0))
        sampled = before.sampled + counts
        mean = self._mean(slots, _confidence(found), counts, before, sampled)
        full = counts & (sampled >= before.window)
        after = Totals(
            before.window,
            sampled,
            torch.where(counts, before.logprob_sum + found.chosen, before.logprob_sum),
            torch.where(full, torch.minimum(before.lowest, mean), before.lowest),
        )
        self.totals.index_copy_(1, slots, torch.stack(after))
        return torch.stack((after.logprob_sum, _entropy(found), mean, after.lowest), 1).float()

    def _mean(
        self, slots: Tensor, confidence: Tensor, counts: Tensor, before: Totals, sampled: Tensor
    ) -> Tensor:
        """[rows] float64: mean confidence of the last `window` tokens that counted, or of all; 0 where none did."""
        place = (before.sampled % before.window).long()
        self.ring[slots, place] = torch.where(counts, confidence, self.ring[slots, place])
        total = self.ring.index_select(0, slots).sum(1, dtype=torch.float64)
        return total / torch.minimum(sampled, before.window).clamp_min_(1)


def _confidence(found: LogProbs) -> Tensor:
    """[rows] float32."""
    return -found.top[:, :CONFIDENT].mean(1, dtype=torch.float64).float()


def _entropy(found: LogProbs) -> Tensor:
    """[rows] float64. Each row is added up alone: the bits of a sum over all of them depend on how many there are,
    because threads share them out."""
    terms = torch.special.entr(found.every.exp())
    return torch.stack([row.sum() for row in terms]).double()
