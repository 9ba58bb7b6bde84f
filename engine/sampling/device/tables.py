"""What lives on the device for as long as a slot has an owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.sampling.device.slots import WIDTH, frozen_row
from engine.sampling.penalties import is_penalised
from engine.types import MAX_BIAS, MAX_WINDOW, SamplingParams

IN_PROMPT = 1 << 30  # in a count: the token occurs in the prompt


@dataclass(frozen=True, slots=True)
class Tables:
    """One row a slot and a last one of padded rows.

    state: int32 [slots + 1, WIDTH], see slots.py. counts: int32 [slots + 1, vocab], how often a penalised path has
    generated a token, plus IN_PROMPT. bias_ids, bias_values: int32 and float32 [slots + 1, MAX_BIAS], of which the
    state tells how many are in use. ring: float32 [slots + 1, MAX_WINDOW], the last confidences.
    """

    state: Tensor
    counts: Tensor
    bias_ids: Tensor
    bias_values: Tensor
    ring: Tensor

    @classmethod
    def allocate(cls, slots: int, vocab: int, device: torch.device) -> Tables:
        def ints(width: int) -> Tensor:
            return torch.zeros((slots + 1, width), dtype=torch.int32, device=device)

        def floats(width: int) -> Tensor:
            return torch.zeros((slots + 1, width), dtype=torch.float32, device=device)

        state = ints(WIDTH)
        state[:] = torch.from_numpy(frozen_row()).to(device)
        return cls(state, ints(vocab), ints(MAX_BIAS), floats(MAX_BIAS), floats(MAX_WINDOW))

    def admit(self, slot: int, params: SamplingParams, prompt: Tensor | None) -> None:
        """Counts and bias of a new owner; a path without them leaves what is there, which has no effect on it. prompt:
        `prompt_of` its prompt, where that is penalised."""
        if is_penalised(params):
            self.counts[slot].zero_()
        if prompt is not None:
            self.counts[slot].index_fill_(0, prompt, IN_PROMPT)
        if params.logit_bias:
            ids, values = zip(*params.logit_bias, strict=True)
            here = (slot, slice(0, len(ids)))
            self.bias_ids[here] = _send(torch.tensor(ids, dtype=torch.int32), self.bias_ids.device)
            self.bias_values[here] = _send(torch.tensor(values, dtype=torch.float32), self.bias_values.device)

    def prompt_of(self, prompt_ids: Sequence[int]) -> Tensor:
        """int64 on the device: the ids of a prompt."""
        return _send(torch.tensor(prompt_ids, dtype=torch.int64), self.counts.device)

    @property
    def bytes(self) -> int:
        return sum(
            each.nbytes for each in (self.state, self.counts, self.bias_ids, self.bias_values, self.ring)
        )


def _send(values: Tensor, device: torch.device) -> Tensor:
    """To the device without waiting for what is queued there."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)
