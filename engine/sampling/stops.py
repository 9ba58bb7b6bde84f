"""What ends a path: the model's EOS ids, the caller's stop ids, its token budget."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from engine.sampling.counters import Counters
from engine.sampling.limits import Limits
from engine.types import FinishReason, SamplingParams


class FinishCode(IntEnum):
    """What a path does, or why it ended. Where two reasons meet in one token the higher one counts.

    A path whose code is not RUNNING stands still: steps change nothing of it.
    """

    HELD = -1  # its thinking has ended and it waits to be resumed
    RUNNING = 0
    LENGTH = 1
    STOP_TOKEN = 2
    EOS = 3

    @property
    def reason(self) -> FinishReason:
        """Not for RUNNING and HELD, which are no reasons."""
        return _REASONS[self]


_REASONS = {
    FinishCode.LENGTH: FinishReason.LENGTH,
    FinishCode.STOP_TOKEN: FinishReason.STOP_TOKEN,
    FinishCode.EOS: FinishReason.EOS,
}

_NO_TOKEN = -1


class Stops:
    """ids: [slots, eos + longest stop list] int64, EOS ids first, -1 where unused."""

    def __init__(self, slots: int, eos_ids: tuple[int, ...], device: torch.device) -> None:
        self._eos_ids = eos_ids or (_NO_TOKEN,)
        self.ids = torch.full((slots, len(self._eos_ids)), _NO_TOKEN, dtype=torch.int64, device=device)
        self._codes = torch.full((len(self._eos_ids),), int(FinishCode.EOS), device=device)
        self._running = torch.tensor(int(FinishCode.RUNNING), device=device)
        self._held = torch.tensor(int(FinishCode.HELD), device=device)
        self._marker = torch.tensor(1, device=device)  # place of close_id in close_ids, from 1

    def admit(self, slot: int, params: SamplingParams) -> None:
        eos_ids = (_NO_TOKEN,) * len(self._eos_ids) if params.ignore_eos else self._eos_ids
        row = (*eos_ids, *params.stop_ids)
        self._widen(len(row))
        self.ids[slot] = _NO_TOKEN
        self.ids[slot, : len(row)] = torch.tensor(row)

    def read(self, slots: Tensor) -> Tensor:
        """[rows, n] int64: the ids that end each row's path, -1 where unused."""
        return self.ids.index_select(0, slots)

    def running(self, counters: Counters) -> Tensor:
        """[rows] bool: which rows do not stand still."""
        return counters.finish == self._running

    def finish(
        self, tokens: Tensor, stop_ids: Tensor, force: Tensor, generated: Tensor, limits: Limits
    ) -> Tensor:
        """[rows] int64: FinishCode after this step's tokens, of paths that were running.

        The text behind a forced close marker ends nothing: it stands for no decision of the model, and
        "\\n\\n" may well be a stop token. The marker itself does: who stops at `</think>` wants to stop there,
        whoever wrote it.
        """
        counts = (force <= self._marker).unsqueeze(1)
        ends = (stop_ids == tokens.unsqueeze(1)) & counts
        code = torch.where(ends, self._codes, self._running).amax(1)
        spent = (generated >= limits.max_tokens).long()
        return torch.maximum(code, spent)

    def hold(self, finish: Tensor, ended: Tensor, limits: Limits) -> Tensor:
        """The codes of `finish`, HELD where the thinking has ended, the path is to be held then and nothing ends it.

        ended: [rows] bool, see `thinking.ThinkingBudget.ended`.
        """
        return torch.where(ended & (finish == self._running) & (limits.hold > 0), self._held, finish)

    def _widen(self, width: int) -> None:
        slots, current = self.ids.shape
        if current < width:
            self.ids = torch.cat((self.ids, self.ids.new_full((slots, width - current), _NO_TOKEN)), 1)
            stop = self._codes.new_full((width - current,), int(FinishCode.STOP_TOKEN))
            self._codes = torch.cat((self._codes, stop))
