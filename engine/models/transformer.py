"""The decoder of the Llama, Qwen2 and Qwen3 families: ids and positions in, hidden rows and logits out.

It holds no state between steps: keys and values belong to the `attend` function that the caller passes.
On CPU everything but attention runs in float32. With dtype bfloat16 the weights are those of bfloat16, and
queries, keys, values and what attention returns are bfloat16: AVX2 has no bfloat16 arithmetic, the library's
bfloat16 products take two to five times as long as these, and rounding between them would only add operations.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import ModelLoadError
from engine.models.loader import Checkpoint
from engine.models.rope import RopeTable, rotate
from engine.models.spec import ModelSpec
from engine.models.weights import LayerWeights, ModelWeights, WeightReader

DTYPES = (torch.float32, torch.bfloat16)


class Attend(Protocol):
    """Writes the keys and values of a step's tokens into the cache and attends.

    q: [T, Hq, D], k and v: [T, Hkv, D], in the model's dtype, not always contiguous, valid during the call.
    Returns [T, Hq * D], contiguous. Query and key dimensions are interleaved (see `rope`), which no dot product sees.
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


class Transformer:
    """A loaded decoder on one device. Thread-compatible: one forward at a time."""

    def __init__(self, spec: ModelSpec, weights: ModelWeights, dtype: torch.dtype) -> None:
        self.spec = spec
        self.dtype = dtype
        self._weights = weights
        self._rope = RopeTable(spec.rope, spec.context_length)
        self._floor = torch.tensor(math.sqrt(spec.hidden * spec.eps))
        self._head_floor = torch.tensor(math.sqrt(spec.head_dim * spec.eps))

    @classmethod
    def load(cls, path: Path, spec: ModelSpec, dtype: torch.dtype, device: torch.device) -> Transformer:
        """Reads the checkpoint in `path`. Raises ModelLoadError."""
        if dtype not in DTYPES:
            raise ModelLoadError(f"dtype {dtype} is not supported; known: float32, bfloat16")
        if device.type != "cpu":
            raise ModelLoadError(f"device {device} is not supported yet; known: cpu")
        with torch.inference_mode():
            return cls(spec, WeightReader(Checkpoint(path, spec), spec, dtype).model(), dtype)

    @torch.inference_mode()
    def forward(self, ids: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """ids, positions: [T] int64, T a multiple of 16. Returns [T, H] float32, before the last norm."""
        hidden = self._weights.embedding.index_select(0, ids).float()
        turns = self._rope.rows(positions)
        for index, layer in enumerate(self._weights.layers):
            q, k, v = self._project(layer, _unit(hidden, self._floor), turns)
            attended = attend(index, q.to(self.dtype), k.to(self.dtype), v.to(self.dtype))
            hidden = layer.out.plus(attended.float(), hidden)
            rows = _unit(hidden, self._floor)
            hidden = layer.down.plus(layer.up.times(rows, layer.gate.silu(rows)), hidden)
        return hidden

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [R, H] rows of `forward`, R a multiple of 16. Returns [R, V] float32."""
        rows = _unit(hidden, self._floor)
        if self._weights.head_norm is not None:
            rows *= self._weights.head_norm
        return self._weights.head(rows)

    def _project(self, layer: LayerWeights, rows: Tensor, turns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of normalised rows [T, H]: [T, Hq, D], [T, Hkv, D], [T, Hkv, D]."""
        spec = self.spec
        heads = layer.qkv(rows).view(rows.shape[0], -1, spec.head_dim)
        qk = heads[:, : spec.heads + spec.kv_heads]
        if layer.qk_norm is not None:
            qk = _unit(qk, self._head_floor).mul_(layer.qk_norm)
        turned = rotate(qk, turns)
        return turned[:, : spec.heads], turned[:, spec.heads :], heads[:, spec.heads + spec.kv_heads :]


def _unit(x: Tensor, floor: Tensor) -> Tensor:
    """x / sqrt(|x|^2 + floor^2) over the last dimension: an RMS norm in three operations instead of six."""
    return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), floor)
