"""Where the passes end: the row's token, searched on by one program where none of them has accepted one."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.sampling.device import columns as c
from engine.sampling.device.noise import row_words
from engine.sampling.device.race import decide, is_outside
from engine.sampling.device.tile import scan_tile


@triton.jit
def settle(
    source,
    reports,
    carried,
    row,
    path,
    vocab,
    tiles,
    ROUND: tl.constexpr,
    SCALE: tl.constexpr,
    TILE: tl.constexpr,
    PAD: tl.constexpr,
):
    """The drawn token, int32. source: the row's scores; the rest as in `race.decide`. The search ends: each round's
    mark is higher than the one before, and nothing better than the best is outside."""
    token, candidate, beaten, top, total = decide(reports, carried, row, path, tiles, ROUND, PAD)
    top_p = tl.load(path + c.TOP_P).to(tl.float32, bitcast=True)
    while token < 0:
        better, winner, mark = _round(source, path, vocab, tiles, beaten, top, SCALE, TILE)
        token = tl.where(is_outside(better, top_p, total), -1, candidate)
        candidate = winner
        beaten = mark
    return tl.minimum(token, vocab - 1)


@triton.jit
def _round(source, path, vocab, tiles, beaten, top, SCALE: tl.constexpr, TILE: tl.constexpr):
    """(mass above `beaten`, relative to top; winner among what it is of; the winner's score)."""
    whiten, multiply = row_words(path)
    better = tl.full((), 0.0, tl.float32)
    best = tl.full((), -float("inf"), tl.float32)
    winner = tiles * 0
    mark = beaten
    tile = tiles * 0
    while tile < tiles:
        reference, mass, value, index, score = scan_tile(
            source,
            path,
            whiten,
            multiply,
            tile * TILE,
            vocab,
            beaten,
            -float("inf"),
            -float("inf"),
            SCALE,
            True,
            TILE,
        )
        better += mass * tl.exp(reference - top)
        ahead = value > best
        best = tl.where(ahead, value, best)
        winner = tl.where(ahead, index, winner)
        mark = tl.where(ahead, score, mark)
        tile += 1
    return better, winner, mark
