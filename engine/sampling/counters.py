"""What the sampler remembers of a path from step to step."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Counters(NamedTuple):
    """One row of the counter table per field, each [rows] int64. With the penalty counts they are all that a
    snapshot of the sampler's part of a path needs."""

    generated: Tensor  # tokens so far, forced ones included; the position of the path's noise
    think_count: Tensor  # tokens inside the thinking, markers not counted
    phase: Tensor  # engine.types.Phase
    force: Tensor  # 1-based place in close_ids of the next forced token; 0: none is due
    finish: Tensor  # stops.FinishCode; a path for which it is not 0 stands still
