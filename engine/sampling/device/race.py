"""A pass over the logits: who wins the race among the scores above a mark, and what those scores weigh.

Top-p without a sort. The winner of the race among all tokens is inside the nucleus exactly if the better ones weigh
less than top-p, which the next pass finds out. If not, it was drawn from outside, as was everything that does not
beat it, so the next race is among the better ones only, and that same pass has already run it. A winner has the
distribution of the race among the nucleus, whichever pass accepts it: the race's order is fixed by the noise, and the
best of a set is the best of each part of it that holds it. The first winner is outside with probability 1 - top_p,
and each pass halves what is left outside on average; the last kernel goes on where the passes end.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import launch_on, wait_for_previous, warps_for
from engine.sampling.device import columns as c
from engine.sampling.device.noise import row_words
from engine.sampling.device.tile import BEST, INDEX, MASS, REFERENCE, REPORTS, SCORE, scan_tile
from engine.sampling.device.workspace import Tiling, Workspace

# What a pass knows of its row from those before it, each a float32.
ACCEPTED = tl.constexpr(0)  # the row's token, -1 while it has none
CANDIDATE = tl.constexpr(1)  # the winner that this pass tests
TOP = tl.constexpr(2)  # the row's highest score
TOTAL = tl.constexpr(3)  # the mass of all tokens, relative to it
CARRIED = tl.constexpr(4)

_NO_ID = tl.constexpr(1 << 24)


@triton.jit
def gather_reports(reports, row, tiles, PAD: tl.constexpr):
    """(top, mass relative to it, best, winner, its score) of a row. reports: [rows, REPORTS, PAD] float32."""
    at = tl.arange(0, PAD)
    here = at < tiles
    own = reports + row * REPORTS * PAD + at
    reference = tl.load(own + REFERENCE * PAD, mask=here, other=-float("inf"))
    mass = tl.load(own + MASS * PAD, mask=here, other=0.0)
    best = tl.load(own + BEST * PAD, mask=here, other=-float("inf"))
    index = tl.load(own + INDEX * PAD, mask=here, other=0.0).to(tl.int32)
    score = tl.load(own + SCORE * PAD, mask=here, other=-float("inf"))
    top = tl.max(reference, 0)
    total = tl.sum(tl.where(mass > 0, mass * tl.exp(reference - top), 0.0), 0)
    first = tl.max(best, 0)
    winner = tl.min(tl.where(here & (best == first), index, _NO_ID), 0)
    beaten = tl.max(tl.where(index == winner, score, -float("inf")), 0)
    return top, total, first, winner, beaten


@triton.jit
def decide(reports, carried, row, path, tiles, ROUND: tl.constexpr, PAD: tl.constexpr):
    """(accepted, candidate, beaten, top, total) of a row before pass ROUND (1: the second).

    reports, carried: what the pass before has left. beaten: the candidate's score. A comparison with a NaN is false,
    so that logits without sense lead to some token and not to a search without end.
    """
    top, mass, _, winner, beaten = gather_reports(reports, row, tiles, PAD)
    top_p = tl.load(path + c.TOP_P).to(tl.float32, bitcast=True)
    if ROUND == 1:
        free = (top_p >= 1.0) | (tl.load(path + c.NOISE) == 0)
        return tl.where(free, winner, -1), winner, beaten, top, mass
    else:
        own = carried + row * CARRIED
        accepted = tl.load(own + ACCEPTED).to(tl.int32)
        candidate = tl.load(own + CANDIDATE).to(tl.int32)
        overall = tl.load(own + TOP)
        total = tl.load(own + TOTAL)
        outside = is_outside(mass * tl.exp(top - overall), top_p, total)
        accepted = tl.where((accepted < 0) & (outside == 0), candidate, accepted)
        return accepted, winner, beaten, overall, total


@triton.jit
def is_outside(better, top_p, total):
    """Whether tokens whose better rivals have this mass are outside the nucleus."""
    return (better >= top_p * total) & (better > 0)


@triton.jit(do_not_specialize=["tiles", "per_program"])
def _race(
    source,
    stride,
    slots,
    state,
    floors,
    reports_before,
    carried_before,
    reports,
    carried,
    vocab,
    tiles,
    per_program,
    ROUND: tl.constexpr,
    SCALE: tl.constexpr,
    WEIGH: tl.constexpr,
    TILE: tl.constexpr,
    PAD: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * per_program
    wait_for_previous(PDL)
    path = state + tl.load(slots + row).to(tl.int64) * c.WIDTH
    if tl.load(path + c.FINISH) != 0:
        return
    beaten = -float("inf")
    kept = -float("inf")
    floor = -float("inf")
    if ROUND > 0:
        accepted, candidate, beaten, top, total = decide(
            reports_before, carried_before, row, path, tiles, ROUND, PAD
        )
        if first == 0:
            own = carried + row * CARRIED
            tl.store(own + ACCEPTED, accepted.to(tl.float32))
            tl.store(own + CANDIDATE, candidate.to(tl.float32))
            tl.store(own + TOP, top)
            tl.store(own + TOTAL, total)
        if accepted >= 0:
            return
    elif not SCALE:
        kept = tl.load(floors + row * 2)
        floor = tl.load(floors + row * 2 + 1)
    whiten, multiply = row_words(path)
    tile = first
    while tile < tl.minimum(first + per_program, tiles):
        reference, mass, best, index, score = scan_tile(
            source + row * stride, path, whiten, multiply, tile * TILE, vocab, beaten, kept, floor,
            SCALE, WEIGH, TILE,
        )  # fmt: skip
        own = reports + row * REPORTS * PAD + tile
        tl.store(own + REFERENCE * PAD, reference)
        tl.store(own + MASS * PAD, mass)
        tl.store(own + BEST * PAD, best)
        tl.store(own + INDEX * PAD, index.to(tl.float32))
        tl.store(own + SCORE * PAD, score)
        tile += 1


def race(
    source: Tensor,
    slots: Tensor,
    state: Tensor,
    work: Workspace,
    tiling: Tiling,
    *,
    turn: int,
    full: bool,
    weigh: bool,
) -> None:
    """Launches pass `turn` over n rows.

    source: [n, vocab] logits of any float type, or with `full` the shaped scores, float32. slots: [n] int32. weigh:
    whether a later pass will ask for masses.
    """
    rows = source.shape[0]
    per_program = tiling.per_program(rows)
    before = max(0, turn - 1)
    _race[(rows, triton.cdiv(tiling.tiles, per_program))](
        source,
        source.stride(0),
        slots,
        state,
        work.floors,
        work.reports[before],
        work.carried[before],
        work.reports[turn],
        work.carried[turn],
        tiling.vocab,
        tiling.tiles,
        per_program,
        ROUND=min(turn, 2),
        SCALE=not full,
        WEIGH=weigh,
        TILE=tiling.tile,
        PAD=tiling.pad,
        num_warps=warps_for(tiling.tile),
        **launch_on(source.device).options(),
    )
