"""One tile of a row's scores: what it weighs, and who wins the race in it.

A row is always cut into the same tiles, and what the tiles report is always added up in the same order, whoever has
computed them. So a row's token depends on no grid, hence on no bucket.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.sampling.device import columns as c
from engine.sampling.device.noise import log_exponential, token_words

# What a tile reports, each a float32; token ids are exact, a vocabulary has less than 2^24.
REFERENCE = tl.constexpr(0)  # of the first pass: the tile's highest score
MASS = tl.constexpr(
    1
)  # sum of exp(score - reference) over the scores that count, later: of exp(score - row's top)
BEST = tl.constexpr(2)  # the race's highest value, -inf where nobody takes part
INDEX = tl.constexpr(3)  # the winner's id
REPORTS = tl.constexpr(4)


@triton.jit
def load_scores(source, path, ids, inside, SCALE: tl.constexpr):
    """float32 scores of tokens, -inf where not inside. SCALE: source holds logits, which the temperature divides."""
    return scale(tl.load(source + ids, mask=inside, other=-float("inf")), path, SCALE)


@triton.jit
def scale(values, path, SCALE: tl.constexpr):
    """float32 scores of what has been loaded."""
    scores = values.to(tl.float32)
    if SCALE:
        scores = _divide(scores, tl.load(path + c.TEMPERATURE).to(tl.float32, bitcast=True))
    return scores


@triton.jit
def _divide(x, divisor):
    """x / divisor, rounded correctly like a division, for a third of its price: the quotient by the reciprocal, and
    once what it leaves. Of infinities nothing that makes sense is left."""
    reciprocal = tl.div_rn(1.0, divisor)
    quotient = x * reciprocal
    rest = tl.fma(-quotient, divisor, x)
    return tl.where(rest == rest, tl.fma(rest, reciprocal, quotient), quotient)


@triton.jit
def weigh(scores, reference, counts):
    """Sum of exp(score - reference) over the scores that count."""
    return tl.sum(tl.where(counts, tl.exp(scores - reference), 0.0), 0)


@triton.jit
def race_among(scores, ids, start, path, whiten, multiply, enters):
    """(best value, id of its token) of the race among the scores that enter; the lowest id of those that tie."""
    weight = tl.load(path + c.NOISE).to(tl.float32, bitcast=True)
    noise = log_exponential(token_words(ids, whiten, multiply))
    race = tl.where(enters, scores - weight * noise, -float("inf"))
    best, lane = tl.max(race, 0, return_indices=True)
    return best, start + lane
