"""Weights for measurements: a model of a given shape whose tensors are drawn instead of read.

The speed of a step does not depend on the weights as long as they are no zeros (a chip that multiplies zeros draws
less power and clocks higher) and the activations stay finite.
"""

from __future__ import annotations

from zlib import crc32

import torch
from torch import Tensor

from engine.models.loader import Shape, expected_tensors
from engine.models.spec import ModelSpec

NORM_SPREAD = 0.05
BIAS_STD = 0.02


class RandomWeights:
    """Stands for a `Checkpoint`: the same names and shapes, values from a normal distribution.

    A matrix has a standard deviation of 1 / sqrt(inputs), so that rows of unit variance give rows of unit variance; the
    weight of a norm lies around 1, a bias around 0. A tensor's values depend on the seed, its name, the target's device
    and dtype.
    """

    def __init__(self, spec: ModelSpec, seed: int = 0) -> None:
        self._shapes = expected_tensors(spec)
        self._seed = seed

    def shape(self, name: str) -> Shape:
        return self._shapes[name]

    def copy(self, name: str, target: Tensor) -> None:
        """Fills target, of that tensor's shape, on its own device: 16 GB take a GPU a tenth of a second."""
        shape = self._shapes[name]
        assert tuple(target.shape) == shape, f"{name}: {tuple(target.shape)}, expected {shape}"
        # 32 bits: all that the CPU's generator takes of a seed.
        generator = torch.Generator(target.device).manual_seed(crc32(f"{self._seed} {name}".encode()))
        if len(shape) == 2:
            target.normal_(0.0, shape[1] ** -0.5, generator=generator)
        elif name.endswith(".bias"):
            target.normal_(0.0, BIAS_STD, generator=generator)
        else:
            target.normal_(1.0, NORM_SPREAD, generator=generator)
