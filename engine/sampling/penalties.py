"""Repetition, presence and frequency penalties over incremental counts.

Repetition: Keskar et al., "CTRL", 2019, as in Hugging Face: over prompt and generated tokens, positive logits
are divided, negative ones multiplied. Presence and frequency: OpenAI's definition, over generated tokens.
A step adds one to one cell of each row; nothing is recounted, so the cost does not grow with the path.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.types import SamplingParams


def is_penalised(params: SamplingParams) -> bool:
    return (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) != (1.0, 0.0, 0.0)


class Penalties:
    """factors: [3, slots] float32: repetition, presence, frequency.

    generated: [slots, vocab] int32 counts; in_prompt: [slots, vocab] bool. Both are empty until the first path
    that is penalised. A slot without penalties has neutral factors, and whatever its counts hold is without
    effect.
    """

    def __init__(self, slots: int, vocab_size: int, device: torch.device) -> None:
        self.factors = torch.zeros((3, slots), dtype=torch.float32, device=device)
        self.generated = torch.empty((0, vocab_size), dtype=torch.int32, device=device)
        self.in_prompt = torch.empty((0, vocab_size), dtype=torch.bool, device=device)

    def admit(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int]) -> None:
        factors = (params.repetition_penalty, params.presence_penalty, params.frequency_penalty)
        self.factors[:, slot] = torch.tensor(factors, dtype=torch.float32)
        if not is_penalised(params):
            return
        if not len(self.generated):
            shape = (self.factors.shape[1], self.generated.shape[1])
            self.generated, self.in_prompt = self.generated.new_zeros(shape), self.in_prompt.new_zeros(shape)
        self.generated[slot].zero_()
        self.in_prompt[slot].zero_()
        if params.repetition_penalty != 1:
            ids = torch.tensor(list(prompt_ids), dtype=torch.int64, device=self.in_prompt.device)
            self.in_prompt[slot].index_fill_(0, ids, True)

    def apply(self, logits: Tensor, slots: Tensor) -> Tensor:
        """Penalised logits, a new tensor. logits: [rows, vocab] float32; slots: [rows] int64."""
        repetition, presence, frequency = self.factors.index_select(1, slots).unsqueeze(2).unbind(0)
        counts = self.generated.index_select(0, slots)
        used = counts > 0
        seen = used | self.in_prompt.index_select(0, slots)
        factor = torch.where(seen, repetition, 1.0)
        logits = torch.where(logits < 0, logits * factor, logits / factor)
        return logits.sub_(presence * used).sub_(frequency * counts)

    def count(self, slots: Tensor, tokens: Tensor, running: Tensor) -> None:
        """Add the step's tokens, forced ones included. slots, tokens: [rows] int64; running: [rows] bool, which of
        them are to be counted."""
        self.generated.index_put_((slots, tokens), running.int(), accumulate=True)
