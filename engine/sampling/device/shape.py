"""Scores of paths that need more than a temperature: penalties, bias, minimum thinking, in the order of the CPU.

They are written out, so that each pass over them is a plain read, together with the maximum of each group, which is
what the search for the k best starts from.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import launch_on, wait_for_previous, warps_for
from engine.sampling.device import columns as c
from engine.sampling.device.tables import IN_PROMPT, Tables
from engine.sampling.device.workspace import GROUPS, Tiling, Workspace
from engine.types import MAX_BIAS, Phase

_COUNT_BITS = tl.constexpr(IN_PROMPT - 1)
_GROUPS = tl.constexpr(GROUPS)
_MAX_BIAS = tl.constexpr(MAX_BIAS)
_THINKING = tl.constexpr(int(Phase.THINKING))


@triton.jit
def tile_ids(start, TILE: tl.constexpr):
    """int32 [_GROUPS, members]: the token ids of a tile, a group a row."""
    members: tl.constexpr = TILE // _GROUPS
    return start + tl.arange(0, _GROUPS)[:, None] * members + tl.arange(0, members)[None, :]


@triton.jit
def _shape(logits, counts, path, ids, bias, inside):
    """Scores of the given tokens: logits with penalties and bias over the temperature."""
    scores = tl.load(logits + ids, mask=inside, other=-float("inf")).to(tl.float32)
    if tl.load(path + c.PENALISED) != 0:
        seen = tl.load(counts + ids, mask=inside, other=0)
        used = (seen & _COUNT_BITS).to(tl.float32)
        repetition = tl.load(path + c.REPETITION).to(tl.float32, bitcast=True)
        factor = tl.where(seen != 0, repetition, 1.0)
        scores = tl.where(scores < 0, scores * factor, tl.div_rn(scores, factor))
        presence = tl.load(path + c.PRESENCE).to(tl.float32, bitcast=True)
        scores -= tl.where(used > 0, presence, 0.0)
        scores -= tl.load(path + c.FREQUENCY).to(tl.float32, bitcast=True) * used
    return tl.div_rn(scores + bias, tl.load(path + c.TEMPERATURE).to(tl.float32, bitcast=True))


@triton.jit
def _edit(logits, counts, path, bias_ids, bias_values, scores, start, end):
    """Bias, and -inf for what a path below its minimum of thinking cannot draw, in scores [start, end)."""
    biased = tl.load(path + c.BIASED)
    blocked = (tl.load(path + c.PHASE) == _THINKING) & (tl.load(path + c.THINK) < tl.load(path + c.MIN_THINK))
    if biased > 0:
        tl.debug_barrier()  # what other threads have written is edited here
        at = tl.arange(0, _MAX_BIAS)
        ids = tl.load(bias_ids + at, mask=at < biased, other=-1)
        bias = tl.load(bias_values + at, mask=at < biased, other=0.0)
        here = (ids >= start) & (ids < end)
        tl.store(scores + ids, _shape(logits, counts, path, ids, bias, here), mask=here)
    if blocked:
        tl.debug_barrier()
        ids = tl.load(path + c.ENDS + tl.arange(0, c.END_IDS))
        here = (ids >= start) & (ids < end)
        nothing = tl.full((c.END_IDS,), -float("inf"), tl.float32)
        tl.store(scores + ids, nothing, mask=here)
        close = tl.load(path + c.CLOSE_ID)
        tl.store(scores + close, -float("inf"), mask=(close >= start) & (close < end))
    tl.debug_barrier()


@triton.jit
def _shape_tiles(
    logits,
    stride,
    slots,
    state,
    counts,
    bias_ids,
    bias_values,
    scores,
    maxima,
    vocab,
    TILE: tl.constexpr,
    GROUPS_BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    wait_for_previous(PDL)
    slot = tl.load(slots + row).to(tl.int64)
    path = state + slot * c.WIDTH
    if tl.load(path + c.FINISH) != 0:
        return
    own_logits = logits + row * stride
    own_counts = counts + slot * vocab
    own_scores = scores + row * vocab
    ids = tile_ids(tile * TILE, TILE)
    inside = ids < vocab
    values = _shape(own_logits, own_counts, path, ids, 0.0, inside)
    tl.store(own_scores + ids, values, mask=inside)
    if (tl.load(path + c.BIASED) > 0) | (tl.load(path + c.MIN_THINK) > 0):
        biases = slot * _MAX_BIAS
        start = tile * TILE
        end = tl.minimum(start + TILE, vocab)
        _edit(own_logits, own_counts, path, bias_ids + biases, bias_values + biases, own_scores, start, end)
        values = tl.load(own_scores + ids, mask=inside, other=-float("inf"))
    at = row * GROUPS_BLOCK + tile * _GROUPS + tl.arange(0, _GROUPS)
    tl.store(maxima + at, tl.max(values, 1))


def shape(logits: Tensor, slots: Tensor, tables: Tables, work: Workspace, tiling: Tiling) -> None:
    """Launches it over n rows: fills work.scores and work.maxima. logits: [n, vocab]; slots: [n] int32."""
    _shape_tiles[(logits.shape[0], tiling.tiles)](
        logits,
        logits.stride(0),
        slots,
        tables.state,
        tables.counts,
        tables.bias_ids,
        tables.bias_values,
        work.scores,
        work.maxima,
        tiling.vocab,
        TILE=tiling.tile,
        GROUPS_BLOCK=tiling.groups_block,
        num_warps=warps_for(tiling.tile),
        **launch_on(logits.device).options(),
    )
