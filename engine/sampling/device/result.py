"""The packed row that a step leaves for each of its rows, and how the host reads it."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from engine.sampling.device.variant import Variant
from engine.scheduler.plan import Floats, Ints, StepResult
from engine.types import MAX_LOGPROBS, Statistic


class Field(IntEnum):
    """Columns of a packed row, int32; floats are stored as their bits."""

    COUNT = 0  # tokens that were committed: 1, or 0 where the slot stands still
    TOKEN = 1
    INJECTED = 2
    PHASE = 3
    THINK = 4
    GENERATED = 5
    FINISH = 6
    LOGPROB = 7  # float
    STATISTICS = 8  # first of four floats
    TOP_IDS = 12  # first of MAX_LOGPROBS
    TOP_LOGPROBS = 32  # first of MAX_LOGPROBS floats


OUT_WIDTH = Field.TOP_LOGPROBS + MAX_LOGPROBS

assert Field.STATISTICS + len(Statistic) <= Field.TOP_IDS
assert Field.TOP_IDS + MAX_LOGPROBS <= Field.TOP_LOGPROBS


def out_width(variant: Variant) -> int:
    """Columns of a packed row: only what a path asks for is copied to the host."""
    if variant.logprobs:
        return int(OUT_WIDTH)
    return int(Field.TOP_IDS) if variant.statistics else int(Field.STATISTICS)


def unpack(step: int, packed: Ints, variant: Variant, vocab: int) -> StepResult:
    """packed: int32 [repeat, rows, out_width], as the launches of one step have left it. The result shares no memory
    with it. A row that stands still does so until the step ends: its tokens are the first `count`."""
    rows = packed.shape[1]
    count = packed[:, :, Field.COUNT].sum(0, dtype=np.int32)
    last = packed[-1]
    top = min(MAX_LOGPROBS, vocab)

    def floats(first: int, width: int) -> Floats:
        return packed[:, :, first : first + width].copy().view(np.float32)

    newest = (np.maximum(count, 1) - 1, np.arange(rows))
    return StepResult(
        step,
        count=count,
        tokens=packed[:, :, Field.TOKEN].copy(),
        injected=packed[:, :, Field.INJECTED].sum(0, dtype=np.int32),
        phase=last[:, Field.PHASE].copy(),
        think=last[:, Field.THINK].copy(),
        generated=last[:, Field.GENERATED].copy(),
        finish=last[:, Field.FINISH].copy(),
        logprobs=floats(Field.LOGPROB, 1)[:, :, 0] if variant.logprobs else None,
        top_ids=packed[:, :, Field.TOP_IDS : Field.TOP_IDS + top].copy() if variant.logprobs else None,
        top_logprobs=floats(Field.TOP_LOGPROBS, top) if variant.logprobs else None,
        statistics=floats(Field.STATISTICS, len(Statistic))[newest] if variant.statistics else None,
    )
