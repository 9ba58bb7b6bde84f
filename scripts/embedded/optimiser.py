"""Muon for the matrices of the layers, Adam for the embedding and the norms, and the learning-rate course."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class OptimiserConfig:
    muon_rate: float = 0.02
    adam_rate: float = 0.003
    decay: float = 0.02
    momentum: float = 0.95


class Optimiser:
    """Updates weights in place; one `step` also clears the gradients."""

    def __init__(self, weights: Mapping[str, Tensor], config: OptimiserConfig) -> None:
        self.config = config
        self._all = list(weights.values())
        by_shape: defaultdict[tuple[int, ...], list[Tensor]] = defaultdict(list)
        rest = []
        for name, weight in weights.items():
            if weight.ndim == 2 and "embed" not in name:
                by_shape[tuple(weight.shape)].append(weight)
            else:
                rest.append(weight)
        self._groups = [
            (group, torch.zeros(len(group), *shape, device=group[0].device))
            for shape, group in by_shape.items()
        ]
        self._adam = torch.optim.AdamW(
            rest, lr=config.adam_rate, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=rest[0].is_cuda
        )

    @torch.no_grad()
    def step(self, scale: float) -> None:
        """One update with both learning rates times `scale`."""
        for group in self._adam.param_groups:
            group["lr"] = self.config.adam_rate * scale
        self._adam.step()
        rate = self.config.muon_rate * scale
        for weights, average in self._groups:
            gradient = torch.stack([weight.grad for weight in weights if weight.grad is not None]).float()
            average.lerp_(gradient, 1 - self.config.momentum)
            direction = orthogonal(gradient.lerp(average, self.config.momentum)).float()
            rows, columns = weights[0].shape
            direction *= -rate * max(1.0, rows / columns) ** 0.5
            torch._foreach_mul_(weights, 1 - rate * self.config.decay)
            torch._foreach_add_(weights, list(direction.unbind(0)))
        for weight in self._all:
            weight.grad = None


def orthogonal(x: Tensor) -> Tensor:
    """The closest orthogonal matrices, roughly: five Newton-Schulz steps (Jordan et al., Muon, 2024).

    x: [batch, rows, columns]; computed in bfloat16 on a GPU.
    """
    x = x.bfloat16() if x.is_cuda else x
    tall = x.size(1) > x.size(2)
    x = x.mT if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.mT if tall else x


def pretraining_course(done: float, warm: float = 0.01, stable: float = 0.4) -> float:
    """Learning-rate factor at a share `done` of the time: warm up, hold, fall linearly to zero."""
    if done < warm:
        return max(0.05, done / warm)
    return 1.0 if done < stable else max(0.0, (1.0 - done) / (1.0 - stable))


def refining_course(done: float) -> float:
    """The course of a round on the model's own samples: low, and falling to zero."""
    return 0.2 * (1.0 - done)
