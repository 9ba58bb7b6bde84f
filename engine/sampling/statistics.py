"""Log-probabilities of the raw distribution: before penalties, masks, temperature and filters."""

from __future__ import annotations

from torch import Tensor


def log_probabilities(raw: Tensor, tokens: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor]:
    """(log-probability of each row's token, ids of the `top` most likely tokens, their log-probabilities).

    raw: [rows, vocab] float32 logits; tokens: [rows] int64. Returns [rows] float32, [rows, top] int64 and
    [rows, top] float32, best first.
    """
    logprobs = raw.log_softmax(1)
    chosen = logprobs.gather(1, tokens.unsqueeze(1)).squeeze(1)
    best = logprobs.topk(top, dim=1)
    return chosen, best.indices, best.values
