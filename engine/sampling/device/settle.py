"""Where the passes end: the row's token, searched on by one program where none of them has accepted one."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.sampling.device import columns as c
from engine.sampling.device.noise import row_words
from engine.sampling.device.race import decide, is_outside
from engine.sampling.device.tile import load_scores, race_among, weigh


@triton.jit
def settle(
    source,
    reports,
    carried,
    row,
    path,
    vocab,
    tiles,
    BEFORE: tl.constexpr,
    SCALE: tl.constexpr,
    TILE: tl.constexpr,
    PAD: tl.constexpr,
):
    """The drawn token, int32. source: the row's scores; the rest as in `race.decide`. The search ends: each round's
    mark is higher than the one before, and nothing better than the best is outside."""
    token, candidate, mark, top, total = decide(
        reports, carried, row, source, path, vocab, tiles, BEFORE, SCALE, PAD
    )
    top_p = tl.load(path + c.TOP_P).to(tl.float32, bitcast=True)
    while token < 0:
        better, winner = _round(source, path, vocab, tiles, mark, top, SCALE, TILE)
        token = tl.where(is_outside(better, top_p, total), -1, candidate)
        candidate = tl.minimum(winner, vocab - 1)
        mark = load_scores(source, path, candidate, candidate >= 0, SCALE)
    return token


@triton.jit
def _round(source, path, vocab, tiles, mark, top, SCALE: tl.constexpr, TILE: tl.constexpr):
    """(mass of the scores above the mark, relative to top; winner among them)."""
    whiten, multiply = row_words(path)
    better = tl.full((), 0.0, tl.float32)
    best = tl.full((), -float("inf"), tl.float32)
    winner = tiles * 0
    tile = tiles * 0
    while tile < tiles:
        start = tile * TILE
        ids = start + tl.arange(0, TILE)
        scores = load_scores(source, path, ids, ids < vocab, SCALE)
        if tl.max(scores, 0) > mark:
            better += weigh(scores, top, scores > mark)
            value, index = race_among(scores, ids, start, path, whiten, multiply, scores > mark)
            winner = tl.where(value > best, index, winner)
            best = tl.maximum(value, best)
        tile += 1
    return better, winner
