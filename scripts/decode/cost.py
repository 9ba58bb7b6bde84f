"""The least time that a decode step can take: the bytes it must read, over what the memory delivers."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch

from engine.models.loader import expected_tensors
from engine.models.spec import ModelSpec
from scripts.decode.points import Point

H200_READ = 4.5e12  # bytes a second, measured as `read_bandwidth` does
PASSES = 10  # between two waits for the device
EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes. weights: read once a step; of an embedding that is not the head as well only some rows are looked up.
    kv_token: keys and values of one token in all layers."""

    weights: int
    kv_token: int

    @classmethod
    def of(cls, spec: ModelSpec, dtype: torch.dtype) -> Cost:
        read = [shape for name, shape in expected_tensors(spec).items() if spec.tied or name != EMBEDDING]
        return cls(dtype.itemsize * sum(math.prod(shape) for shape in read), spec.kv_bytes_per_token(dtype))

    def step_bytes(self, point: Point, generated: float) -> float:
        """Of a step whose paths have generated so many tokens, on the mean of all steps."""
        return self.weights + point.batch * (point.context + generated) * self.kv_token

    def floor_ms(self, point: Point, generated: float, read_bytes_a_second: float) -> float:
        return 1000 * self.step_bytes(point, generated) / read_bytes_a_second


def read_bandwidth(device: str) -> float:
    """Bytes a second of a sum over memory that no cache holds: 4 GiB on a GPU, 128 MiB on a CPU. Best of five."""
    on_gpu = device == "cuda"
    data = torch.empty(2**30 if on_gpu else 2**25, dtype=torch.float32, device=device).normal_()
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        sums = [data.sum() for _ in range(PASSES)]
        sums[-1].item()  # waits for the device
        taken.append((time.perf_counter() - begun) / PASSES)
    return data.nbytes / min(taken)
