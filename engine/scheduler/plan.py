"""What one step does and what came of it, as flat frozen data: all that an executor (later: a rank) exchanges."""

from __future__ import annotations

from dataclasses import dataclass

from engine.kv.edits import PageCopy, PageEdit
from engine.types import SamplingParams


@dataclass(frozen=True, slots=True)
class Admit:
    """A slot gets a new owner before the step. first_id is fed at `position`; its KV is not in the cache yet.

    shared_pages: pages at the front of its table that belong to the prompt and are never written again; the
    boundary behind them is where its attention is split, whatever else runs.
    """

    slot: int
    index: int
    seed: int
    sampling: SamplingParams
    prompt_ids: tuple[int, ...]
    first_id: int
    position: int
    shared_pages: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt tokens to prefill into table `table` from position `start` on."""

    table: int
    start: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Order of effect: releases, admits, edits, copies, closes; then one forward pass over rows and chunks."""

    step: int
    releases: tuple[int, ...]  # tables whose owner is gone
    admits: tuple[Admit, ...]
    edits: tuple[PageEdit, ...]
    copies: tuple[PageCopy, ...]
    closes: tuple[
        int, ...
    ]  # slots whose thinking is closed by force from this step on, or as soon as it opens
    slots: tuple[int, ...]  # decoding rows: one token each
    positions: tuple[int, ...]  # the position that each row's input token takes
    chunks: tuple[Chunk, ...]

    @property
    def empty(self) -> bool:
        return not (self.slots or self.chunks)


@dataclass(frozen=True, slots=True)
class StepResult:
    """One entry a decoding row, in the plan's order. finish: codes of engine.sampling.stops, 0 while running.
    logprobs and top are empty unless a row asked for them."""

    step: int
    tokens: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    phases: tuple[int, ...] = ()
    think: tuple[int, ...] = ()
    generated: tuple[int, ...] = ()
    finish: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    top_ids: tuple[tuple[int, ...], ...] = ()
    top_logprobs: tuple[tuple[float, ...], ...] = ()
