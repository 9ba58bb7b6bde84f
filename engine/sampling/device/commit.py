"""The last kernel of a step: each row's token becomes its path's, and the path's state moves on by one token.

A slot that has finished or is held stands still: nothing of it changes. A finished path keeps its last input, whose
page it has, so that passes which still run over it touch nothing else; a held one has moved on to its next input,
which is what it needs when it is resumed.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import block_of, launch_on, wait_for_previous, warps_for
from engine.sampling.device import budget, track
from engine.sampling.device import columns as c
from engine.sampling.device.race import Pass, reported
from engine.sampling.device.result import Field
from engine.sampling.device.settle import settle
from engine.sampling.device.tables import Tables
from engine.sampling.device.variant import Filters, Variant
from engine.sampling.device.workspace import (
    CONFIDENCE,
    ENTROPY,
    LOG_TOTAL,
    MEASURES,
    Tiling,
    Workspace,
)
from engine.types import MAX_LOGPROBS, MAX_WINDOW

_COUNT = tl.constexpr(int(Field.COUNT))
_TOKEN = tl.constexpr(int(Field.TOKEN))
_INJECTED = tl.constexpr(int(Field.INJECTED))
_PHASE = tl.constexpr(int(Field.PHASE))
_THINK = tl.constexpr(int(Field.THINK))
_GENERATED = tl.constexpr(int(Field.GENERATED))
_FINISH = tl.constexpr(int(Field.FINISH))
_LOGPROB = tl.constexpr(int(Field.LOGPROB))
_STATISTICS = tl.constexpr(int(Field.STATISTICS))
_TOP_IDS = tl.constexpr(int(Field.TOP_IDS))
_TOP_LOGPROBS = tl.constexpr(int(Field.TOP_LOGPROBS))
_MAX_WINDOW = tl.constexpr(MAX_WINDOW)
_TOP_BLOCK = tl.constexpr(block_of(MAX_LOGPROBS))


@triton.jit
def _report(result, count, token, injected, phase, think, generated, finish):
    tl.store(result + _COUNT, count)
    tl.store(result + _TOKEN, token)
    tl.store(result + _INJECTED, injected)
    tl.store(result + _PHASE, phase)
    tl.store(result + _THINK, think)
    tl.store(result + _GENERATED, generated)
    tl.store(result + _FINISH, finish)


@triton.jit
def _report_top(result, values, ids, log_total, TOP: tl.constexpr):
    """values: the row's highest logits, [TOP]; ids: int64."""
    at = tl.arange(0, _TOP_BLOCK)
    logprobs = tl.load(values + at, mask=at < TOP, other=0.0).to(tl.float32) - log_total
    tl.store(result + _TOP_IDS + at, tl.load(ids + at, mask=at < TOP, other=0).to(tl.int32), mask=at < TOP)
    tl.store(result + _TOP_LOGPROBS + at, logprobs.to(tl.int32, bitcast=True), mask=at < TOP)


@triton.jit
def _measure(path, ring, result, logprob, entropy, confidence, counts):
    """Advances and reports the statistics. counts: whether the token was sampled; a forced one has an entropy only."""
    logprob_sum, lost = track.add_logprob(path, logprob, counts)
    mean, lowest, sampled, place = track.add_confidence(path, ring, confidence, counts)
    tl.debug_barrier()  # every warp has read the state before one of them writes it
    tl.store(ring + place, confidence, mask=counts)
    tl.store(path + c.SAMPLED, sampled)
    tl.store(path + c.LOGPROB_SUM, logprob_sum.to(tl.int32, bitcast=True))
    tl.store(path + c.LOGPROB_LOST, lost.to(tl.int32, bitcast=True))
    tl.store(path + c.LOWEST, lowest.to(tl.int32, bitcast=True))
    own = result + _STATISTICS
    tl.store(own, logprob_sum.to(tl.int32, bitcast=True))
    tl.store(own + 1, entropy.to(tl.int32, bitcast=True))
    tl.store(own + 2, mean.to(tl.int32, bitcast=True))
    tl.store(own + 3, lowest.to(tl.int32, bitcast=True))


@triton.jit
def _move_on(path, result, token):
    """Advances the path by the drawn token. Returns (the token that it commits, whether it was forced)."""
    token, force = budget.override(path, token)
    think, phase, next_force, ended = budget.advance(path, token, force)
    generated = tl.load(path + c.GENERATED) + 1
    finish = budget.finish(path, token, force, generated, ended)
    goes_on = finish <= 0
    next_id = tl.where(goes_on, token, tl.load(path + c.NEXT_ID))
    position = tl.load(path + c.POSITION) + goes_on.to(tl.int32)
    tl.debug_barrier()  # every warp has read the state before one of them writes it
    tl.store(path + c.GENERATED, generated)
    tl.store(path + c.THINK, think)
    tl.store(path + c.PHASE, phase)
    tl.store(path + c.FORCE, next_force)
    tl.store(path + c.FINISH, finish)
    tl.store(path + c.NEXT_ID, next_id)
    tl.store(path + c.POSITION, position)
    _report(result, 1, token, (force > 0).to(tl.int32), phase, think, generated, finish)
    return token, force > 0


@triton.jit
def _count(cell, path):
    if tl.load(path + c.PENALISED) != 0:
        tl.store(cell, tl.load(cell) + 1)


@triton.jit(do_not_specialize=["tiles"])
def _commit(
    source,
    stride,
    slots,
    state,
    reports,
    carried,
    counts,
    logits,
    logits_stride,
    measures,
    ring,
    top_values,
    top_ids,
    out,
    vocab,
    tiles,
    BEFORE: tl.constexpr,
    SCALE: tl.constexpr,
    STATISTICS: tl.constexpr,
    LOGPROBS: tl.constexpr,
    TOP: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    PAD: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    wait_for_previous(PDL)
    slot = tl.load(slots + row).to(tl.int64)
    path = state + slot * c.WIDTH
    result = out + row * OUT_WIDTH
    stands = tl.load(path + c.FINISH)
    if stands != 0:
        phase = tl.load(path + c.PHASE)
        _report(result, 0, 0, 0, phase, tl.load(path + c.THINK), tl.load(path + c.GENERATED), stands)
        return
    drawn = settle(source + row * stride, reports, carried, row, path, vocab, tiles, BEFORE, SCALE, TILE, PAD)
    token, forced = _move_on(path, result, drawn)
    if not SCALE:
        _count(counts + slot * vocab + token, path)
    if STATISTICS or LOGPROBS:
        log_total = tl.load(measures + row * MEASURES + LOG_TOTAL)
        logprob = tl.load(logits + row * logits_stride + token).to(tl.float32) - log_total
        tl.store(result + _LOGPROB, logprob.to(tl.int32, bitcast=True))
    if STATISTICS:
        entropy = tl.load(measures + row * MEASURES + ENTROPY)
        confidence = tl.load(measures + row * MEASURES + CONFIDENCE)
        _measure(path, ring + slot * _MAX_WINDOW, result, logprob, entropy, confidence, forced == 0)
    if LOGPROBS:
        _report_top(result, top_values + row * TOP, top_ids + row * TOP, log_total, TOP)


def commit(
    logits: Tensor,
    slots: Tensor,
    tables: Tables,
    work: Workspace,
    tiling: Tiling,
    variant: Variant,
    passes: tuple[Pass, ...],
    best: tuple[Tensor, Tensor] | None,
    out: Tensor,
) -> None:
    """Launches it over n rows. logits: [n, vocab], any float type; slots: [n] int32; passes: those that
    have run; best: the highest logits of each row and their ids, [n, k], where the variant has log-probabilities;
    out: [n, out_width of the variant] int32, contiguous."""
    full = variant.filters is Filters.FULL
    source = work.scores if full else logits
    top_values, top_ids = best if best is not None else (logits, slots)
    _commit[(logits.shape[0],)](
        source,
        source.stride(0),
        slots,
        tables.state,
        work.reports[len(passes) - 1],
        work.carried[len(passes) - 1],
        tables.counts,
        logits,
        logits.stride(0),
        work.measures,
        tables.ring,
        top_values,
        top_ids,
        out,
        tiling.vocab,
        tiling.tiles,
        BEFORE=reported(passes),
        SCALE=not full,
        STATISTICS=variant.statistics,
        LOGPROBS=variant.logprobs,
        TOP=top_ids.shape[-1] if best is not None else 0,
        OUT_WIDTH=out.shape[1],
        TILE=tiling.tile,
        PAD=tiling.pad,
        num_warps=warps_for(tiling.tile),
        **launch_on(logits.device).options(),
    )
