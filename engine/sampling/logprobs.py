"""Log-probabilities of the raw distribution: before penalties, bias, masks, temperature and filters."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class LogProbs(NamedTuple):
    """Of one step, float32 unless it says otherwise."""

    every: Tensor  # [rows, vocab]
    chosen: Tensor  # [rows], of the row's token
    top_ids: Tensor  # [rows, top] int64, the most likely tokens, best first
    top: Tensor  # [rows, top], theirs


def log_probabilities(raw: Tensor, tokens: Tensor, top: int) -> LogProbs:
    """raw: [rows, vocab] float32 logits; tokens: [rows] int64; top: how many of the most likely tokens."""
    every = raw.log_softmax(1)
    chosen = every.gather(1, tokens.unsqueeze(1)).squeeze(1)
    best = every.topk(top, dim=1)
    return LogProbs(every, chosen, best.indices, best.values)
