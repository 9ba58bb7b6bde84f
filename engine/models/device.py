"""The same decoder on a GPU: bfloat16 weights and products, a float32 residual stream, fused kernels between.

Queries, keys and values are one matrix, gate and up another. Nothing waits for the device and nothing depends on
values, so that a step of decode rows can be captured as a CUDA graph as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.kernels.activation import silu_mul
from engine.kernels.norm import add_norm, embed_norm
from engine.kernels.rope_cache import rope_cache
from engine.models.products import Product, Products
from engine.models.rope import inverse_frequencies
from engine.models.spec import ModelSpec

DTYPE = torch.bfloat16


class TensorSource(Protocol):
    """A checkpoint, or what stands for one: tensors by the names of `loader.expected_tensors`."""

    def shape(self, name: str) -> tuple[int, ...]: ...

    def copy(self, name: str, target: Tensor) -> None:
        """Fills target, wherever it lies, converting the dtype."""


@dataclass(frozen=True, slots=True)
class Step:
    """The tokens of a forward pass: ids, rows of the block table, positions, all [T] int32 on the device, and
    attend(layer, q [T, Hq, D]) -> [T, Hq * D], which finds the step's keys and values in the cache."""

    ids: Tensor
    tables: Tensor
    positions: Tensor
    attend: Callable[[int, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class DeviceLayer:
    norm: Tensor
    qkv: Product
    qk_norms: tuple[Tensor, Tensor] | None
    out: Product
    mlp_norm: Tensor
    gate_up: Product
    down: Product


class DeviceTransformer:
    """A decoder on one GPU; it holds no state between steps."""

    def __init__(
        self,
        spec: ModelSpec,
        source: TensorSource,
        products: Products,
        context_length: int,
        device: torch.device,
    ) -> None:
        self.spec = spec
        read = _Reader(source, products, device)
        self._embedding = read.tensor(["model.embed_tokens.weight"])
        self._layers = [_layer(read, spec, f"model.layers.{index}.") for index in range(spec.layers)]
        self._norm = read.tensor(["model.norm.weight"])
        head = self._embedding if spec.tied else read.tensor(["lm_head.weight"])
        self._head = products.head(head)
        self._rotation = rotation(spec, context_length, device)

    @property
    def weight_bytes(self) -> int:
        """Bytes that a decode step reads: every matrix once, of an untied embedding only the rows looked up."""
        spec = self.spec
        layer = spec.hidden * (2 * spec.q_size + 2 * spec.kv_size + 3 * spec.ffn)
        return DTYPE.itemsize * (spec.layers * layer + spec.vocab * spec.hidden)

    def forward(self, step: Step, caches: Sequence[Tensor], block_table: Tensor) -> Tensor:
        """[T, H] bfloat16, after the last norm. caches: one view of the KV pool a layer, [pages, 2, page, Hkv, D];
        block_table int32 [tables, pages]."""
        spec = self.spec
        tokens = step.ids.shape[0]
        residual = torch.empty(tokens, spec.hidden, dtype=torch.float32, device=step.ids.device)
        hidden = torch.empty(tokens, spec.hidden, dtype=DTYPE, device=step.ids.device)
        embed_norm(step.ids, self._embedding, self._layers[0].norm, spec.eps, residual, hidden)
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(hidden)
            q = torch.empty(tokens, spec.heads, spec.head_dim, dtype=DTYPE, device=qkv.device)
            rope_cache(
                qkv,
                layer.qk_norms,
                spec.eps,
                self._rotation,
                step.tables,
                step.positions,
                block_table,
                caches[index],
                q,
            )
            attended = layer.out(step.attend(index, q))
            add_norm(residual, attended, layer.mlp_norm, spec.eps, hidden)
            gate_up = layer.gate_up(hidden)[0]
            active = torch.empty(tokens, spec.ffn, dtype=DTYPE, device=qkv.device)
            silu_mul(gate_up, active)
            last = index + 1 == len(self._layers)
            add_norm(
                residual,
                layer.down(active),
                self._norm if last else self._layers[index + 1].norm,
                spec.eps,
                hidden,
            )
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """[R, H] rows of `forward` -> [R, V] float32."""
        return self._head(hidden)


class _Reader:
    def __init__(self, source: TensorSource, products: Products, device: torch.device) -> None:
        self._source, self._products, self._device = source, products, device

    def tensor(self, names: Sequence[str]) -> Tensor:
        """The named tensors below each other."""
        shapes = [self._source.shape(name) for name in names]
        stacked = torch.empty(
            sum(shape[0] for shape in shapes), *shapes[0][1:], dtype=DTYPE, device=self._device
        )
        end = 0
        for name, shape in zip(names, shapes, strict=True):
            start, end = end, end + shape[0]
            self._source.copy(name, stacked[start:end])
        return stacked

    def product(self, names: Sequence[str], biased: bool, *, parts: bool) -> Product:
        weight = self.tensor([f"{name}.weight" for name in names])
        bias = self.tensor([f"{name}.bias" for name in names]) if biased else None
        return self._products.linear(weight, bias, parts=parts)


def _layer(read: _Reader, spec: ModelSpec, prefix: str) -> DeviceLayer:
    attention, mlp = prefix + "self_attn.", prefix + "mlp."
    norms = None
    if spec.qk_norm:
        norms = read.tensor([attention + "q_norm.weight"]), read.tensor([attention + "k_norm.weight"])
    return DeviceLayer(
        norm=read.tensor([prefix + "input_layernorm.weight"]),
        qkv=read.product([f"{attention}{part}_proj" for part in "qkv"], spec.qkv_bias, parts=True),
        qk_norms=norms,
        out=read.product([attention + "o_proj"], spec.o_bias, parts=True),
        mlp_norm=read.tensor([prefix + "post_attention_layernorm.weight"]),
        gate_up=read.product([mlp + "gate_proj", mlp + "up_proj"], spec.mlp_bias, parts=False),
        down=read.product([mlp + "down_proj"], spec.mlp_bias, parts=True),
    )


def rotation(spec: ModelSpec, context_length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin of every position and pair of dimensions: [context, D / 2] float32 on the device."""
    frequencies = inverse_frequencies(spec.rope)
    angles = torch.arange(context_length, dtype=torch.float32)[:, None] * frequencies
    scale = spec.rope.attention_factor
    return (angles.cos() * scale).to(device), (angles.sin() * scale).to(device)
