"""What one step does and what came of it, as flat frozen data: all that an executor (later: a rank) exchanges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.kv.edits import PageCopy, PageEdit
from engine.types import SamplingParams

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Admit:
    """A slot gets a new owner before the step. first_id is fed at `position`; its KV is not in the cache yet.

    shared_pages: pages at the front of its table that are the first ones of table `prompt_table` and are never written
    again; the boundary behind them is where its attention is split, whatever else runs. They are not edited in: a long
    prompt has a thousand, and a group many paths.
    """

    slot: int
    index: int
    seed: int
    sampling: SamplingParams
    prompt_ids: tuple[int, ...]
    first_id: int
    position: int
    prompt_table: int
    shared_pages: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt tokens to prefill into table `table` from position `start` on."""

    table: int
    start: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Order of effect: releases, admits, edits, copies, closes, resumes; then the forward passes.

    repeat: how many forward passes run over `slots`, each on the ids that the one before sampled; more than one only
    where there are no chunks. The pages of every pass are edited in beforehand. A row that finishes or is held at one
    of them stands still: the later ones commit nothing to it.
    """

    step: int
    releases: tuple[int, ...]  # tables whose owner is gone
    admits: tuple[Admit, ...]
    edits: tuple[PageEdit, ...]
    copies: tuple[PageCopy, ...]
    closes: tuple[int, ...]  # slots whose thinking is closed by force from now on, or as soon as it opens
    resumes: tuple[int, ...]  # slots whose held path goes on
    slots: tuple[int, ...]  # decoding rows: one token each and pass
    positions: tuple[int, ...]  # the position that each row's first input token takes
    chunks: tuple[Chunk, ...]
    repeat: int = 1

    @property
    def empty(self) -> bool:
        return not (self.slots or self.chunks)


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What a step did to its rows, one column a row, in the plan's order.

    count: int32 [rows], tokens committed, 0 .. repeat. tokens: int32 [repeat, rows], of which the first `count` are
    valid. injected (of these tokens), phase, think, generated, finish (stops.FinishCode): int32 [rows], after the last
    of them. logprobs: float32 [repeat, rows], top_ids: int32 and top_logprobs: float32 [repeat, rows, k], at least
    as many as any row asked for; statistics: float32 [rows, 4], in the order of engine.types.Statistic. None where no
    row asked.
    """

    step: int
    count: Ints
    tokens: Ints
    injected: Ints
    phase: Ints
    think: Ints
    generated: Ints
    finish: Ints
    logprobs: Floats | None = None
    top_ids: Ints | None = None
    top_logprobs: Floats | None = None
    statistics: Floats | None = None

    @classmethod
    def blank(cls, step: int, repeat: int, rows: int) -> StepResult:
        """Zeros to be filled in: nothing has been committed to any row."""
        counts = np.zeros((6, rows), dtype=np.int32)
        return cls(step, counts[0], np.zeros((repeat, rows), dtype=np.int32), *counts[1:])


class Pending(Protocol):
    """A step that has been launched."""

    def result(self) -> StepResult:
        """Waits for it. Raises what the step raised."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was over when it had been launched."""

    outcome: StepResult

    def result(self) -> StepResult:
        return self.outcome
