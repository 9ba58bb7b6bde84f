"""The thinking budget: a state machine per path, advanced by a few operations on [rows].

UNDECIDED -> THINKING where the first token is open_id, else ANSWER; THINKING -> ANSWER on close_id. While
thinking, a forced close begins when the thinking budget is spent, when only the close and the answer reserve
are left of the path's budget, or on request. From then on the path's tokens are close_ids, in order, whatever
was drawn. Below the minimum, the tokens that would end the thinking or the path cannot be drawn; a forced close
is stronger than the minimum.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.sampling.counters import Counters
from engine.sampling.limits import Limits
from engine.text.markers import opening_phase
from engine.types import Phase, Thinking

__all__ = ["ThinkingBudget", "opening_phase"]


class ThinkingBudget:
    """close_ids: [slots, 1 + longest close] int64, column 0 unused."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self.close_ids = torch.zeros((slots, 1), dtype=torch.int64, device=device)
        self._thinking = torch.tensor(int(Phase.THINKING), device=device)
        self._undecided = torch.tensor(int(Phase.UNDECIDED), device=device)
        self._answer = torch.tensor(int(Phase.ANSWER), device=device)
        self._none = torch.tensor(0, device=device)

    def admit(self, slot: int, thinking: Thinking | None) -> None:
        if thinking is not None:
            length = len(thinking.close_ids)
            self._widen(length)
            self.close_ids[slot, 1 : 1 + length] = torch.tensor(thinking.close_ids)

    def active(self, counters: Counters) -> Tensor:
        """[rows] bool: which rows think."""
        return counters.phase == self._thinking

    def block_endings(
        self, scores: Tensor, thinking: Tensor, counters: Counters, limits: Limits, stop_ids: Tensor
    ) -> Tensor:
        """Scores in which rows below their minimum can draw neither close_id nor a token that ends the path.

        scores: [rows, vocab] float32; thinking: [rows] bool; stop_ids: [rows, n] int64, -1 where unused.
        Adding 0 or -inf instead of writing -inf lets unused entries fall on token 0 without harm.
        """
        blocked = (thinking & (counters.think_count < limits.min_think)).unsqueeze(1)
        ids = torch.cat((limits.close_id.unsqueeze(1), stop_ids), 1)
        barrier = torch.zeros_like(ids, dtype=scores.dtype).masked_fill_(blocked & (ids >= 0), -math.inf)
        return scores.scatter_add(1, ids.clamp_min(0), barrier)

    def force(self, thinking: Tensor, counters: Counters, limits: Limits) -> Tensor:
        """[rows] int64: the place in close_ids of the token this step must commit; 0 where it is free."""
        spent = (counters.think_count >= limits.max_think) | (counters.generated >= limits.close_at)
        return torch.maximum(counters.force, (thinking & spent).long())

    def override(self, tokens: Tensor, slots: Tensor, force: Tensor) -> tuple[Tensor, Tensor]:
        """(tokens with the forced ones in place, [rows] bool: which were forced)."""
        forced = force > self._none
        return torch.where(forced, self.close_ids[slots, force], tokens), forced

    def advance(
        self,
        tokens: Tensor,
        thinking: Tensor,
        force: Tensor,
        forced: Tensor,
        counters: Counters,
        limits: Limits,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(think_count, phase, force) after this step's tokens, each [rows] int64."""
        goes_on = thinking & (tokens != limits.close_id)
        opens = (counters.phase == self._undecided) & (tokens == limits.open_id)
        phase = torch.where(goes_on | opens, self._thinking, self._answer)
        return counters.think_count + goes_on, phase, (force + forced) % limits.force_cycle

    def ended(self, thinking: Tensor, phase: Tensor, forced: Tensor, force: Tensor) -> Tensor:
        """[rows] bool: whose thinking ended with this step's token: its own close_id, or the last of a forced close.

        thinking: before the step; phase, force: after it.
        """
        closes = (thinking & (phase == self._answer)) | forced
        return closes & (force == self._none)

    def _widen(self, length: int) -> None:
        slots, width = self.close_ids.shape
        if width < 1 + length:
            extra = self.close_ids.new_zeros((slots, 1 + length - width))
            self.close_ids = torch.cat((self.close_ids, extra), 1)
