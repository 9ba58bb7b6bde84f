"""From a checkpoint's tensors to the matrices of the forward pass.

Three changes, all exact but for float32 rounding: queries, keys and values are one matrix (gate and up stay
two, because each ends in an operation of its own that the product can apply); the weight of a norm, and the
square root that its mean leaves, are folded into the matrix behind it; the rows of queries and keys are
interleaved for `rope.rotate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.models.linear import Linear, PlainLinear, linear
from engine.models.loader import Checkpoint
from engine.models.rope import interleaved
from engine.models.spec import ModelSpec

# A tied head gets its own folded and packed copy of the embedding up to this size.
COPIED_HEAD_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """qk_norm: [Hq + Hkv, D] float32, what the unit vector of each query and key head is multiplied by."""

    qkv: Linear
    qk_norm: Tensor | None
    out: Linear
    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """embedding: [V, H] in the model's dtype. head_norm: [H] float32 where it is not folded into the head."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    head_norm: Tensor | None
    head: Linear


class WeightReader:
    """Reads tensors of one checkpoint as float32, rounded to dtype first."""

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec, dtype: torch.dtype) -> None:
        self._checkpoint = checkpoint
        self._spec = spec
        self._dtype = dtype

    def model(self) -> ModelWeights:
        spec = self._spec
        embedding = torch.empty(spec.vocab, spec.hidden, dtype=self._dtype)
        self._checkpoint.copy("model.embed_tokens.weight", embedding)
        layers = tuple(self._layer(f"model.layers.{layer}.") for layer in range(spec.layers))
        norm = self._norm("model.norm")
        if not spec.tied:
            return ModelWeights(embedding, layers, None, linear(self._stacked(["lm_head.weight"], norm)))
        if 4 * embedding.numel() > COPIED_HEAD_BYTES and self._dtype == torch.float32:
            return ModelWeights(embedding, layers, norm, PlainLinear(embedding))
        return ModelWeights(embedding, layers, None, linear(embedding.float() * norm))

    def _layer(self, prefix: str) -> LayerWeights:
        spec = self._spec
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        qkv = [f"{attention}{part}_proj" for part in "qkv"]
        rows = self._qkv_rows()
        norm, mlp_norm = (
            self._norm(prefix + "input_layernorm"),
            self._norm(prefix + "post_attention_layernorm"),
        )
        return LayerWeights(
            qkv=linear(self._weight(qkv, norm)[rows], _select(self._bias(qkv, spec.qkv_bias), rows)),
            qk_norm=self._qk_norm(attention) if spec.qk_norm else None,
            out=self._linear(attention + "o_proj", spec.o_bias),
            gate=self._linear(mlp + "gate_proj", spec.mlp_bias, mlp_norm),
            up=self._linear(mlp + "up_proj", spec.mlp_bias, mlp_norm),
            down=self._linear(mlp + "down_proj", spec.mlp_bias),
        )

    def _linear(self, name: str, biased: bool, norm: Tensor | None = None) -> Linear:
        return linear(self._weight([name], norm), self._bias([name], biased))

    def _weight(self, names: Sequence[str], norm: Tensor | None = None) -> Tensor:
        return self._stacked([f"{name}.weight" for name in names], norm)

    def _bias(self, names: Sequence[str], biased: bool) -> Tensor | None:
        return self._stacked([f"{name}.bias" for name in names]) if biased else None

    def _norm(self, name: str) -> Tensor:
        """Weight of an RMS norm times sqrt(H): x / rms(x) is sqrt(H) times x / |x|."""
        return self._stacked([f"{name}.weight"]) * math.sqrt(self._spec.hidden)

    def _qk_norm(self, attention: str) -> Tensor:
        spec = self._spec
        order = interleaved(spec.head_dim)
        heads = [
            self._stacked([f"{attention}{part}_norm.weight"])[order].expand(count, -1)
            for part, count in (("q", spec.heads), ("k", spec.kv_heads))
        ]
        return torch.cat(heads) * math.sqrt(spec.head_dim)

    def _qkv_rows(self) -> Tensor:
        """Order of the rows of the fused matrix: interleaved in each query and key head, plain in values."""
        spec = self._spec
        heads = torch.arange(spec.heads + spec.kv_heads)[:, None] * spec.head_dim
        turned = (heads + interleaved(spec.head_dim)).reshape(-1)
        return torch.cat((turned, torch.arange(turned.numel(), turned.numel() + spec.kv_size)))

    def _stacked(self, names: Sequence[str], columns: Tensor | None = None) -> Tensor:
        """The named tensors below each other, each column times `columns`: float32, contiguous."""
        shapes = [self._checkpoint.shape(name) for name in names]
        stacked = torch.empty(sum(shape[0] for shape in shapes), *shapes[0][1:], dtype=torch.float32)
        end = 0
        for name, shape in zip(names, shapes, strict=True):
            start, end = end, end + shape[0]
            self._checkpoint.copy(name, stacked[start:end])
        if self._dtype != torch.float32:
            stacked.copy_(stacked.to(self._dtype))
        return stacked if columns is None else stacked.mul_(columns)


def _select(bias: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if bias is None else bias[rows]
