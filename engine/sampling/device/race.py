"""Passes over the logits: who wins the race among the scores above a mark, and what those scores weigh.

Top-p without a sort. The winner of the race among all tokens is inside the nucleus exactly if the better ones weigh
less than top-p, which a second pass finds out. If not, it was drawn from outside, as was everything that does not beat
it, and the next race is among the better ones only. A winner has the distribution of the race among the nucleus,
whichever pass proposes it: the order of the race is fixed by the noise, and the best of a set is the best of each part
of it that holds it. The first winner is outside with probability 1 - top_p, and each refusal halves what is left
outside on average; the last kernel goes on where the passes end (settle.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import launch_on, wait_for_previous, warps_for
from engine.sampling.device import columns as c
from engine.sampling.device.noise import row_words
from engine.sampling.device.tile import (
    BEST,
    INDEX,
    MASS,
    REFERENCE,
    REPORTS,
    load_scores,
    race_among,
    scale,
    weigh,
)
from engine.sampling.device.workspace import Tiling, Workspace

# What a pass knows of its row from those before it, each a float32.
_ACCEPTED = tl.constexpr(0)  # the row's token, -1 while it has none
_CANDIDATE = tl.constexpr(1)  # the winner that is tested
_TOP = tl.constexpr(2)  # the row's highest score
_TOTAL = tl.constexpr(3)  # the mass of all tokens, relative to it
_CARRIED = tl.constexpr(4)

# What the pass before has reported. Behind the first two, nearly all rows are settled.
_NOTHING = tl.constexpr(0)  # there is none
_ALL = tl.constexpr(1)  # it is the first: winner, top and mass of all tokens
_WEIGHED = tl.constexpr(2)  # the mass of what beats the candidate
_RACED = tl.constexpr(3)  # the winner among it
_BOTH = tl.constexpr(4)

_NO_ID = tl.constexpr(1 << 24)


@dataclass(frozen=True, slots=True)
class Pass:
    """before: what the pass before has reported; weighs, races: what this one does. Rows that are settled skip it."""

    before: int
    weighs: bool
    races: bool


PLAIN = (Pass(_NOTHING.value, weighs=False, races=True),)
# Nearly all rows are settled by the second, which need not race then; the others race in the third.
NUCLEUS = (
    Pass(_NOTHING.value, weighs=True, races=True),
    Pass(_ALL.value, weighs=True, races=False),
    Pass(_WEIGHED.value, weighs=False, races=True),
    Pass(_RACED.value, weighs=True, races=True),
    Pass(_BOTH.value, weighs=True, races=True),
)


def reported(passes: tuple[Pass, ...]) -> int:
    """What the last of them leaves."""
    return int(_ALL.value if len(passes) == 1 else _BOTH.value)


@triton.jit
def decide(
    reports,
    carried,
    row,
    source,
    path,
    vocab,
    tiles,
    BEFORE: tl.constexpr,
    SCALE: tl.constexpr,
    PAD: tl.constexpr,
):
    """(accepted, candidate, its score, top, total) of a row behind a pass.

    reports: [rows, REPORTS, PAD] and carried: [rows, _CARRIED], of that pass; source: the row's scores. A comparison
    with a NaN is false, so that logits without sense lead to some token and not to a search without end.
    """
    at = tl.arange(0, PAD)
    here = at < tiles
    report = reports + row * REPORTS * PAD + at
    if BEFORE != _WEIGHED:
        best = tl.load(report + BEST * PAD, mask=here, other=-float("inf"))
        index = tl.load(report + INDEX * PAD, mask=here, other=0.0).to(tl.int32)
        winner = tl.min(tl.where(here & (best == tl.max(best, 0)), index, _NO_ID), 0)
        winner = tl.minimum(winner, vocab - 1)
    if BEFORE != _RACED:
        mass = tl.load(report + MASS * PAD, mask=here, other=0.0)
    top_p = tl.load(path + c.TOP_P).to(tl.float32, bitcast=True)
    if BEFORE == _ALL:
        reference = tl.load(report + REFERENCE * PAD, mask=here, other=-float("inf"))
        top = tl.max(reference, 0)
        total = tl.sum(tl.where(mass > 0, mass * tl.exp(reference - top), 0.0), 0)
        free = (top_p >= 1.0) | (tl.load(path + c.NOISE) == 0)
        candidate = winner
        accepted = tl.where(free, winner, -1)
    else:
        known = carried + row * _CARRIED
        accepted = tl.load(known + _ACCEPTED).to(tl.int32)
        candidate = tl.load(known + _CANDIDATE).to(tl.int32)
        top = tl.load(known + _TOP)
        total = tl.load(known + _TOTAL)
        if BEFORE != _RACED:
            inside = is_outside(tl.sum(mass, 0), top_p, total) == 0
            accepted = tl.where((accepted < 0) & inside, candidate, accepted)
        if BEFORE != _WEIGHED:
            candidate = winner
    score = load_scores(source, path, candidate, candidate >= 0, SCALE)
    return accepted, candidate, score, top, total


@triton.jit
def is_outside(better, top_p, total):
    """Whether tokens whose better rivals have this mass are outside the nucleus."""
    return (better >= top_p * total) & (better > 0)


@triton.jit
def _carry(carried, row, accepted, candidate, top, total):
    known = carried + row * _CARRIED
    tl.store(known + _ACCEPTED, accepted.to(tl.float32))
    tl.store(known + _CANDIDATE, candidate.to(tl.float32))
    tl.store(known + _TOP, top)
    tl.store(known + _TOTAL, total)


@triton.jit
def _first_tile(report, scores, ids, start, path, whiten, multiply, kept, floor, SCALE, WEIGHS, PAD):
    """The first pass: all scores take part, but for those that top-k or min-p cut off (`SCALE` has none)."""
    reference = tl.max(scores, 0)
    best = tl.full((), -float("inf"), tl.float32)
    index = start
    if SCALE:
        best, index = race_among(scores, ids, start, path, whiten, multiply, True)
    elif reference >= floor:
        best, index = race_among(scores, ids, start, path, whiten, multiply, scores >= floor)
    if WEIGHS:
        tl.store(report + REFERENCE * PAD, reference)
        counts = True if SCALE else scores >= kept
        tl.store(report + MASS * PAD, weigh(scores, reference, counts))
    tl.store(report + BEST * PAD, best)
    tl.store(report + INDEX * PAD, index.to(tl.float32))


@triton.jit(do_not_specialize=["tiles", "per_program"])
def _pass(
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
    BEFORE: tl.constexpr,
    SCALE: tl.constexpr,
    WEIGHS: tl.constexpr,
    RACES: tl.constexpr,
    TILE: tl.constexpr,
    PAD: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1) * per_program
    last = tl.minimum(tile + per_program, tiles)
    own = source + row * stride
    ids = tile * TILE + tl.arange(0, TILE)
    wait_for_previous(PDL)
    if BEFORE <= _ALL:  # nearly all rows need them: on their way while the row is looked up
        values = tl.load(own + ids, mask=ids < vocab, other=-float("inf"))
    path = state + tl.load(slots + row).to(tl.int64) * c.WIDTH
    if tl.load(path + c.FINISH) != 0:
        return
    if BEFORE == _NOTHING:
        kept = tl.full((), -float("inf"), tl.float32)
        floor = kept
        if not SCALE:
            kept = tl.load(floors + row * 2)
            floor = tl.load(floors + row * 2 + 1)
    else:
        accepted, candidate, mark, top, total = decide(
            reports_before, carried_before, row, own, path, vocab, tiles, BEFORE, SCALE, PAD
        )
        if tile == 0:
            _carry(carried, row, accepted, candidate, top, total)
        if accepted >= 0:
            return
        if BEFORE > _ALL:
            values = tl.load(own + ids, mask=ids < vocab, other=-float("inf"))
    whiten, multiply = row_words(path)
    while tile < last:
        scores = scale(values, path, SCALE)
        start = tile * TILE
        ids = start + tl.arange(0, TILE)
        report = reports + row * REPORTS * PAD + tile
        tile += 1
        ahead = ids + TILE
        values = tl.load(own + ahead, mask=(ahead < vocab) & (tile < last), other=-float("inf"))
        if BEFORE == _NOTHING:
            _first_tile(report, scores, ids, start, path, whiten, multiply, kept, floor, SCALE, WEIGHS, PAD)
        else:
            if WEIGHS:
                tl.store(report + MASS * PAD, weigh(scores, top, scores > mark))
            if RACES:
                best, index = race_among(scores, ids, start, path, whiten, multiply, scores > mark)
                tl.store(report + BEST * PAD, best)
                tl.store(report + INDEX * PAD, index.to(tl.float32))


def run_pass(
    source: Tensor,
    slots: Tensor,
    state: Tensor,
    work: Workspace,
    tiling: Tiling,
    turn: int,
    what: Pass,
    *,
    full: bool,
) -> None:
    """Launches pass number `turn` over n rows. source: [n, vocab] logits of any float type, or with `full` the shaped
    scores, float32. slots: [n] int32."""
    rows = source.shape[0]
    per_program = tiling.per_program(rows)
    before = max(0, turn - 1)
    _pass[(rows, triton.cdiv(tiling.tiles, per_program))](
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
        BEFORE=what.before,
        SCALE=not full,
        WEIGHS=what.weighs,
        RACES=what.races,
        TILE=tiling.tile,
        PAD=tiling.pad,
        num_warps=warps_for(tiling.tile),
        **launch_on(source.device).options(),
    )
