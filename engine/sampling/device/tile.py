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
REFERENCE = tl.constexpr(0)  # its highest score: the mass is relative to it
MASS = tl.constexpr(1)  # sum of exp(score - reference) over the scores that count
BEST = tl.constexpr(2)  # the race's highest value, -inf where nobody takes part
INDEX = tl.constexpr(3)  # the winner's id
SCORE = tl.constexpr(4)  # and its score
REPORTS = tl.constexpr(5)


@triton.jit
def load_scores(source, path, ids, vocab, SCALE: tl.constexpr):
    """float32, -inf beyond the vocabulary. SCALE: source holds logits, which the path's temperature divides."""
    scores = tl.load(source + ids, mask=ids < vocab, other=-float("inf")).to(tl.float32)
    if SCALE:
        scores = tl.div_rn(scores, tl.load(path + c.TEMPERATURE).to(tl.float32, bitcast=True))
    return scores


@triton.jit
def scan_tile(
    source,
    path,
    whiten,
    multiply,
    start,
    vocab,
    beaten,
    kept,
    floor,
    SCALE: tl.constexpr,
    WEIGH: tl.constexpr,
    TILE: tl.constexpr,
):
    """(reference, mass, best, index, score) of one tile.

    The mass is that of scores above `beaten` that are at least `kept`; scores above `beaten` that are at least `floor`
    race. WEIGH: whether the mass is asked for.
    """
    ids = start + tl.arange(0, TILE)
    scores = load_scores(source, path, ids, vocab, SCALE)
    reference = tl.max(scores, 0)
    mass = tl.full((), 0.0, tl.float32)
    best = tl.full((), -float("inf"), tl.float32)
    index = start
    score = best
    if reference > beaten:
        above = scores > beaten
        if WEIGH:
            weights = tl.exp(scores - reference)
            mass = tl.sum(tl.where(above & (scores >= kept), weights, 0.0), 0)
        if reference >= floor:
            noise = log_exponential(token_words(ids, whiten, multiply))
            weight = tl.load(path + c.NOISE).to(tl.float32, bitcast=True)
            race = tl.where(above & (scores >= floor), scores - weight * noise, -float("inf"))
            best, lane = tl.max(race, 0, return_indices=True)
            index = start + lane
            score = tl.max(tl.where(ids == index, scores, -float("inf")), 0)
    return reference, mass, best, index, score
