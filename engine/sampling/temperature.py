"""Temperature: how much the noise counts. 0 is greedy."""

from __future__ import annotations

import torch
from torch import Tensor


class Temperature:
    """table: [2, slots] float32: the divisor of the logits, and the factor of the noise.

    A greedy slot divides by 1 and has noise 0, so that its token is the argmax of the unscaled logits.
    """

    def __init__(self, slots: int, device: torch.device) -> None:
        self.table = torch.ones((2, slots), dtype=torch.float32, device=device)

    def admit(self, slot: int, temperature: float) -> None:
        column = (temperature, 1.0) if temperature > 0 else (1.0, 0.0)
        self.table[:, slot] = torch.tensor(column, dtype=torch.float32)

    def scale(self, logits: Tensor, slots: Tensor) -> Tensor:
        """logits over temperature. logits: [rows, vocab] float32; slots: [rows] int64."""
        return logits / self.table[0].index_select(0, slots).unsqueeze(1)

    def noise_weight(self, slots: Tensor) -> Tensor:
        """[rows, 1] float32: 0 for greedy rows, else 1."""
        return self.table[1].index_select(0, slots).unsqueeze(1)
