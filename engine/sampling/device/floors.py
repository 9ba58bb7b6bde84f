"""Top-k and min-p: the lowest score that each keeps. Top-p is left to the race.

The order is the CPU's: top-p looks at what top-k has kept, so that the race weighs that much; min-p then cuts what
takes part in it.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import launch_on, wait_for_previous, warps_for
from engine.sampling.device import columns as c
from engine.sampling.device.select import key_value, kth_score
from engine.sampling.device.workspace import GROUPS, Tiling, Workspace


@triton.jit(do_not_specialize=["groups"])
def _floors(
    scores,
    slots,
    state,
    maxima,
    chosen,
    floors,
    vocab,
    groups,
    MEMBERS: tl.constexpr,
    GROUPS_BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    wait_for_previous(PDL)
    path = state + tl.load(slots + row).to(tl.int64) * c.WIDTH
    if tl.load(path + c.FINISH) != 0:
        return
    at = tl.arange(0, GROUPS_BLOCK)
    own_maxima = maxima + row * GROUPS_BLOCK
    top = tl.max(tl.load(own_maxima + at, mask=at < groups, other=-float("inf")), 0)
    k = tl.load(path + c.TOP_K)
    kept = tl.full((), -float("inf"), tl.float32)
    if k > 0:
        own_scores = scores + row * vocab
        own_chosen = chosen + row * GROUPS_BLOCK
        key, _ = kth_score(own_scores, own_maxima, own_chosen, k, vocab, groups, MEMBERS, GROUPS_BLOCK)
        kept = key_value(key)
    log_min_p = tl.load(path + c.LOG_MIN_P).to(tl.float32, bitcast=True)
    tl.store(floors + row * 2, kept)
    tl.store(floors + row * 2 + 1, tl.maximum(kept, top + log_min_p))


def find_floors(slots: Tensor, state: Tensor, work: Workspace, tiling: Tiling) -> None:
    """Launches it over n rows behind `shape`: work.floors[i] = (floor of top-k, floor of the race), -inf where nothing
    is cut. slots: [n] int32."""
    _floors[(slots.shape[0],)](
        work.scores,
        slots,
        state,
        work.maxima,
        work.chosen,
        work.floors,
        tiling.vocab,
        tiling.tiles * GROUPS,
        MEMBERS=tiling.tile // GROUPS,
        GROUPS_BLOCK=tiling.groups_block,
        num_warps=warps_for(2048),
        **launch_on(slots.device).options(),
    )
