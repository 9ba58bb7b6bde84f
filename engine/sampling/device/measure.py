"""What the raw distribution of a row measures: its normaliser, its entropy, its confidence (engine.types.Statistic).

Two kernels: all tiles, then a program a row that adds them up and takes the mean of the 20 most likely tokens.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import launch_on, wait_for_previous, warps_for
from engine.sampling.device import columns as c
from engine.sampling.device.select import key_value, kth_score, sum_above
from engine.sampling.device.shape import tile_ids
from engine.sampling.device.workspace import (
    CONFIDENCE,
    ENTROPY,
    GROUPS,
    LOG_TOTAL,
    MEASURES,
    WEIGHTS,
    Tiling,
    Workspace,
)
from engine.sampling.statistics import CONFIDENT

_GROUPS = tl.constexpr(GROUPS)
_REFERENCE = tl.constexpr(0)  # of a tile: its highest logit
_MASS = tl.constexpr(1)  # sum of exp(logit - reference)
_MOMENT = tl.constexpr(2)  # sum of exp(logit - reference) * (logit - reference)
_WEIGHTS = tl.constexpr(WEIGHTS)


@triton.jit
def _weigh_tiles(
    logits,
    stride,
    slots,
    state,
    weights,
    maxima,
    vocab,
    TILE: tl.constexpr,
    PAD: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    wait_for_previous(PDL)
    path = state + tl.load(slots + row).to(tl.int64) * c.WIDTH
    if tl.load(path + c.FINISH) != 0:
        return
    ids = tile_ids(tile * TILE, TILE)
    values = tl.load(logits + row * stride + ids, mask=ids < vocab, other=-float("inf")).to(tl.float32)
    groups = tl.max(values, 1)
    reference = tl.max(groups, 0)
    below = tl.where(values > -float("inf"), values - reference, 0.0)
    weight = tl.where(values > -float("inf"), tl.exp(below), 0.0)
    own = weights + row * _WEIGHTS * PAD + tile
    tl.store(own + _REFERENCE * PAD, reference)
    tl.store(own + _MASS * PAD, tl.sum(weight))
    tl.store(own + _MOMENT * PAD, tl.sum(weight * below))
    tl.store(maxima + (row * PAD + tile) * _GROUPS + tl.arange(0, _GROUPS), groups)


@triton.jit
def _add_up(weights, tiles, PAD: tl.constexpr):
    """(log of the sum of exponentials, entropy) of a row."""
    at = tl.arange(0, PAD)
    here = at < tiles
    reference = tl.load(weights + _REFERENCE * PAD + at, mask=here, other=-float("inf"))
    mass = tl.load(weights + _MASS * PAD + at, mask=here, other=0.0)
    moment = tl.load(weights + _MOMENT * PAD + at, mask=here, other=0.0)
    top = tl.max(reference, 0)
    below = tl.where(mass > 0, reference - top, 0.0)
    share = tl.exp(below)
    total = tl.sum(mass * share, 0)
    mean = tl.sum(share * (moment + below * mass), 0) / total
    return top + tl.log(total), tl.log(total) - mean


@triton.jit(do_not_specialize=["tiles"])
def _measure_rows(
    logits,
    stride,
    slots,
    state,
    weights,
    maxima,
    chosen,
    measures,
    vocab,
    tiles,
    BEST: tl.constexpr,
    MEMBERS: tl.constexpr,
    PAD: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    wait_for_previous(PDL)
    path = state + tl.load(slots + row).to(tl.int64) * c.WIDTH
    if tl.load(path + c.FINISH) != 0:
        return
    log_total, entropy = _add_up(weights + row * _WEIGHTS * PAD, tiles, PAD)
    own = measures + row * MEASURES
    tl.store(own + LOG_TOTAL, log_total)
    tl.store(own + ENTROPY, entropy)
    if BEST > 0:
        source = logits + row * stride
        groups_block: tl.constexpr = PAD * _GROUPS
        own_maxima = maxima + row * groups_block
        own_chosen = chosen + row * groups_block
        groups = tiles * _GROUPS
        k = tiles * 0 + BEST
        key, reach = kth_score(source, own_maxima, own_chosen, k, vocab, groups, MEMBERS, groups_block)
        above, total = sum_above(source, own_chosen, reach, key, vocab, MEMBERS)
        total += (BEST - above).to(tl.float32) * key_value(key)
        tl.store(own + CONFIDENCE, log_total - total / BEST)


def measure(
    logits: Tensor, slots: Tensor, state: Tensor, work: Workspace, tiling: Tiling, *, confidence: bool
) -> None:
    """Launches it over n rows: fills work.measures; its confidence only where asked for. logits: [n, vocab] of any
    float type; slots: [n] int32."""
    rows, options = logits.shape[0], launch_on(logits.device).options()
    _weigh_tiles[(rows, tiling.tiles)](
        logits,
        logits.stride(0),
        slots,
        state,
        work.weights,
        work.maxima,
        tiling.vocab,
        TILE=tiling.tile,
        PAD=tiling.pad,
        num_warps=warps_for(tiling.tile),
        **options,
    )
    _measure_rows[(rows,)](
        logits,
        logits.stride(0),
        slots,
        state,
        work.weights,
        work.maxima,
        work.chosen,
        work.measures,
        tiling.vocab,
        tiling.tiles,
        BEST=min(CONFIDENT, tiling.vocab) if confidence else 0,
        MEMBERS=tiling.tile // GROUPS,
        PAD=tiling.pad,
        num_warps=warps_for(2048),
        **options,
    )
