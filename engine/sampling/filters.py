"""Top-k, top-p and min-p, in the order and with the meaning of the Hugging Face logits processors.

Each filter is a floor: the lowest score it keeps. The highest of the floors applies, and every token that ties
with it stays, so that the outcome depends on no sort order and neither on row nor batch.

Cost: one top-k of the widest filter in the batch, so 1 column (min-p alone), max(k) columns (top-k, top-p of
rows that also have top-k), or a sort of the vocabulary, which top-p without top-k needs: on a CPU some
10 milliseconds a row at 151,936 tokens. Top-p adds one softmax.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.types import SamplingParams


def filter_width(params: SamplingParams, vocab_size: int) -> int:
    """How many of the best scores the filters of one path must see; 0 where it has none."""
    if 0 < params.top_k < vocab_size:
        return params.top_k
    if params.top_p < 1:
        return vocab_size
    return 1 if params.min_p > 0 else 0


class Filters:
    """table: [3, slots] float32: top-k (0 is off; exact up to 2^24), top-p (1 is off), log of min-p."""

    def __init__(self, slots: int, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self.table = torch.zeros((3, slots), dtype=torch.float32, device=device)

    def admit(self, slot: int, params: SamplingParams) -> None:
        top_k = params.top_k if params.top_k < self._vocab_size else 0
        log_min_p = math.log(params.min_p) if params.min_p > 0 else -math.inf
        self.table[:, slot] = torch.tensor((top_k, params.top_p, log_min_p), dtype=torch.float32)

    def apply(self, scores: Tensor, slots: Tensor, width: int, nucleus: bool) -> Tensor:
        """Scores with -inf for what the filters remove: [rows, vocab] float32.

        scores: the same shape, after temperature. width: at least `filter_width` of every row. nucleus:
        whether any row has top-p.
        """
        top_k, top_p, log_min_p = self.table.index_select(1, slots).unsqueeze(2).unbind(0)
        best = (
            scores.topk(width, dim=1).values
            if width < scores.shape[1]
            else scores.sort(1, descending=True)[0]
        )
        floor = torch.maximum(_top_k_floor(best, top_k), best[:, :1] + log_min_p)
        if nucleus:
            kept = scores.masked_fill(scores < _top_k_floor(best, top_k), -math.inf)
            floor = torch.maximum(floor, _top_p_floor(best, kept, top_p))
        return scores.masked_fill(scores < floor, -math.inf)


def _top_k_floor(best: Tensor, top_k: Tensor) -> Tensor:
    """The k-th best score. best: [rows, width] descending; top_k: [rows, 1]. Returns [rows, 1]."""
    place = (top_k.long() - 1).clamp(0, best.shape[1] - 1)
    return best.gather(1, place).masked_fill(top_k == 0, -math.inf)


def _top_p_floor(best: Tensor, kept: Tensor, top_p: Tensor) -> Tensor:
    """The lowest score whose better rivals hold less than top_p of the probability. Returns [rows, 1].

    best: [rows, width] descending; kept: [rows, vocab], scores after top-k. The share of the best token is
    1 / sum(exp(score - best)): the row-wise softmax gives it the same bits whatever the number of rows, which a
    free-standing sum does not.
    """
    share = (best - best[:, :1]).exp() * kept.softmax(1).amax(1, keepdim=True)
    better = share.cumsum(1) - share
    last = (better < top_p).sum(1, keepdim=True) - 1
    return best.gather(1, last.clamp_min(0)).masked_fill(top_p >= 1, -math.inf)
