"""What a path is measured by on the way (engine.types.Statistic), advanced by one token. Reads only."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.sampling.device import columns as c
from engine.types import MAX_WINDOW

_MAX_WINDOW = tl.constexpr(MAX_WINDOW)


@triton.jit
def add_logprob(path, logprob, counts):
    """(sum, what rounding has taken from it), compensated: a path has tens of thousands of tokens. counts: whether
    this token was sampled."""
    before = tl.load(path + c.LOGPROB_SUM).to(tl.float32, bitcast=True)
    lost = tl.load(path + c.LOGPROB_LOST).to(tl.float32, bitcast=True)
    term = logprob - lost
    after = before + term
    return tl.where(counts, after, before), tl.where(counts, (after - before) - term, lost)


@triton.jit
def add_confidence(path, ring, confidence, counts):
    """(mean over the window, lowest mean of a full window so far, tokens that counted so far, place in the ring).

    ring: the slot's last confidences, [MAX_WINDOW] float32, of which the first `window` places are in use. They are
    added anew each time, so that nothing drifts.
    """
    window = tl.load(path + c.WINDOW)
    before = tl.load(path + c.SAMPLED)
    after = before + counts.to(tl.int32)
    place = before % window
    at = tl.arange(0, _MAX_WINDOW)
    values = tl.load(ring + at, mask=at < tl.minimum(before, window), other=0.0)
    values = tl.where(counts & (at == place), confidence, values)
    mean = tl.sum(values, 0) / tl.maximum(tl.minimum(after, window), 1).to(tl.float32)
    lowest = tl.load(path + c.LOWEST).to(tl.float32, bitcast=True)
    lowest = tl.where(counts & (after >= window), tl.minimum(lowest, mean), lowest)
    return mean, lowest, after, place
