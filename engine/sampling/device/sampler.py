"""The sampler of a GPU engine: which kernels a step launches, and what the host remembers of the slots.

Order of a step, as in engine.sampling.sampler and for the same reasons: penalties, bias and minimum thinking, then
temperature, the filters and the draw; the thinking budget, which nothing can weaken; stops and length.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention.decode_plan import StateView
from engine.sampling.device.commit import commit
from engine.sampling.device.floors import find_floors
from engine.sampling.device.measure import measure
from engine.sampling.device.race import NUCLEUS, PLAIN, run_pass
from engine.sampling.device.result import unpack
from engine.sampling.device.shape import shape
from engine.sampling.device.slots import Column, check_eos, params_row, slot_row
from engine.sampling.device.tables import Tables
from engine.sampling.device.variant import Filters, Variant
from engine.sampling.device.workspace import ROWS_AT_ONCE, TILE, Tiling, Workspace
from engine.sampling.state import check_ids
from engine.scheduler.plan import Admit, Ints, StepResult
from engine.types import MAX_LOGPROBS, SamplingParams


class DeviceSampler:
    """Samples up to max_rows rows a step for up to `slots` paths.

    state: int32 [slots + 1, WIDTH] on the device, one row a slot, see slots.py; row `slots` is that of padded rows.
    Every launch has fixed addresses, waits for nothing and branches on nothing but the variant and the number of rows:
    it can be captured, and a replay is right for whatever the slots hold then.
    """

    def __init__(
        self,
        *,
        slots: int,
        vocab: int,
        eos_ids: tuple[int, ...],
        device: torch.device,
        max_rows: int,
        tile: int = TILE,
    ) -> None:
        self._eos_ids = tuple(token for token in eos_ids if token < vocab)
        check_eos(self._eos_ids)
        self._tiling = Tiling.of(vocab, tile)
        self._tables = Tables.allocate(slots, vocab, device)
        self._work = Workspace.allocate(self._tiling, max_rows, device)
        self._max_rows = max_rows
        self._admitted: dict[int, SamplingParams] = {}
        # The paths of a group share one SamplingParams: what is needed is a question to a few distinct values.
        self._distinct: Counter[SamplingParams] = Counter()
        self._rows: dict[SamplingParams, NDArray[np.int32]] = {}
        self._variant: Variant | None = Variant()
        self._prompt: tuple[tuple[int, ...], Tensor] = (), torch.empty(0, dtype=torch.int64, device=device)

    @property
    def state(self) -> Tensor:
        return self._tables.state

    @property
    def bytes(self) -> int:
        """Device memory that it holds."""
        return self._tables.bytes + self._work.bytes

    @property
    def view(self) -> StateView:
        return StateView(self.state, Column.NEXT_ID, Column.POSITION)

    @property
    def variant(self) -> Variant:
        """What the next step must compute for the slots that are admitted."""
        if self._variant is None:
            self._variant = Variant.of(self._distinct, self._tiling.vocab)
        return self._variant

    def thinks(self, slot: int) -> bool:
        """Whether the slot's path has a thinking that could be closed."""
        return self._admitted[slot].thinking is not None

    def record(self, admit: Admit) -> NDArray[np.int32]:
        """int32 [WIDTH]: what is to be written to the slot's row of the state before its first step. Raises
        InvalidParameter for ids outside the vocabulary, and for more stop or close ids than a row has room for."""
        return slot_row(admit, self._shared_row(admit.sampling))

    def admit(self, admit: Admit) -> None:
        """The host's part of a slot's new owner, and what of it does not lie in the state."""
        params = admit.sampling
        if admit.slot in self._admitted:
            raise ValueError(f"slot {admit.slot} is taken")
        self._rows[params] = self._shared_row(params)
        penalised = params.repetition_penalty != 1
        self._tables.admit(admit.slot, params, self._sent(admit.prompt_ids) if penalised else None)
        self._admitted[admit.slot] = params
        self._distinct[params] += 1
        self._variant = None

    def _sent(self, prompt_ids: tuple[int, ...]) -> Tensor:
        """A prompt on the device. The paths of a group come one after the other: one copy serves them all."""
        if self._prompt[0] is not prompt_ids:
            self._prompt = prompt_ids, self._tables.prompt_of(prompt_ids)
        return self._prompt[1]

    def release(self, slot: int) -> None:
        """The slot's path has left. Its row keeps its values until the next owner's is written."""
        params = self._admitted.pop(slot)
        self._distinct[params] -= 1
        if not self._distinct[params]:
            del self._distinct[params], self._rows[params]
        self._variant = None

    def launch(self, logits: Tensor, rows: Tensor, variant: Variant, out: Tensor) -> None:
        """Draws one token for each row and advances its slot.

        logits: [n, vocab] bfloat16 or float32, left unchanged; rows: int32 [n], the slot of each, distinct but for
        padded rows; out: int32 [n, `out_width` of the variant], see result.py. All on the device.
        """
        if len(rows) > self._max_rows:
            raise ValueError(f"{len(rows)} rows, but room for {self._max_rows}")
        at_once = ROWS_AT_ONCE if variant.filters is Filters.FULL else len(rows)
        for start in range(0, len(rows), at_once):
            part = slice(start, start + at_once)
            self._launch(logits[part], rows[part], variant, out[part])

    def unpack(self, step: int, packed: Ints, variant: Variant) -> StepResult:
        """packed: int32 [repeat, rows, `out_width`] on the host: what the launches of one step have left in `out`."""
        return unpack(step, packed, variant, self._tiling.vocab)

    def _shared_row(self, params: SamplingParams) -> NDArray[np.int32]:
        known = self._rows.get(params)
        if known is not None:
            return known
        check_ids(params, self._tiling.vocab)
        return params_row(params, self._tiling.vocab, self._eos_ids)

    def _launch(self, logits: Tensor, rows: Tensor, variant: Variant, out: Tensor) -> None:
        tables, work, tiling = self._tables, self._work, self._tiling
        full = variant.filters is Filters.FULL
        passes = PLAIN if variant.filters is Filters.NONE else NUCLEUS
        source = work.scores[: len(rows)] if full else logits
        if variant.statistics or variant.logprobs:
            measure(logits, rows, tables.state, work, tiling, confidence=variant.statistics)
        if full:
            shape(logits, rows, tables, work, tiling)
            find_floors(rows, tables.state, work, tiling)
        for turn, what in enumerate(passes):
            run_pass(source, rows, tables.state, work, tiling, turn, what, full=full)
        best = None
        if variant.logprobs:
            best = torch.topk(logits, min(MAX_LOGPROBS, tiling.vocab), dim=1)
        commit(logits, rows, tables, work, tiling, variant, passes, best, out)
