"""The training forward pass: Qwen3's shapes and parameter names over a flat batch of tokens.

Everything but attention sees tensors of one fixed number of tokens, so each piece compiles once whatever
the lengths of the rows in the batch; attention runs per segment of equally long rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from scripts.embedded.tokenizer import vocabulary

Weights = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of the model; the names on the right of `config.json` are in export.py."""

    hidden: int = 384
    layers: int = 6
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    feed_forward: int = 1024
    theta: float = 100_000.0
    eps: float = 1e-6
    positions: int = 8192

    @property
    def vocabulary_size(self) -> int:
        return vocabulary().size


@dataclass(frozen=True, slots=True)
class Batch:
    """tokens, positions, targets: int64 [N] on the device, target -100 where nothing is learned.
    segments: (rows, length) of consecutive blocks, rows x length summing to N. learned: targets that count."""

    tokens: Tensor
    positions: Tensor
    targets: Tensor
    segments: tuple[tuple[int, int], ...]
    learned: int


def initial_weights(config: ModelConfig, seed: int, device: str) -> Weights:
    """float32 weights that require gradients; the outputs of each block start at zero."""
    generator = torch.Generator().manual_seed(seed)
    c = config

    def normal(rows: int, columns: int, std: float) -> Tensor:
        return torch.randn(rows, columns, generator=generator) * std

    weights: Weights = {"model.embed_tokens.weight": normal(c.vocabulary_size, c.hidden, 0.05)}
    std = 0.6 / math.sqrt(c.hidden)
    for layer in range(c.layers):
        block = {
            "input_layernorm": torch.ones(c.hidden),
            "self_attn.q_proj": normal(c.heads * c.head_dim, c.hidden, std),
            "self_attn.k_proj": normal(c.kv_heads * c.head_dim, c.hidden, std),
            "self_attn.v_proj": normal(c.kv_heads * c.head_dim, c.hidden, std),
            "self_attn.o_proj": torch.zeros(c.hidden, c.heads * c.head_dim),
            "self_attn.q_norm": torch.ones(c.head_dim),
            "self_attn.k_norm": torch.ones(c.head_dim),
            "post_attention_layernorm": torch.ones(c.hidden),
            "mlp.gate_proj": normal(c.feed_forward, c.hidden, std),
            "mlp.up_proj": normal(c.feed_forward, c.hidden, std),
            "mlp.down_proj": torch.zeros(c.hidden, c.feed_forward),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": value for name, value in block.items()}
    weights["model.norm.weight"] = torch.ones(c.hidden)
    return {name: value.to(device).requires_grad_(True) for name, value in weights.items()}


def rope_table(config: ModelConfig, device: str) -> tuple[Tensor, Tensor]:
    """cos and sin, float32 [positions, head_dim], the halves repeated as Qwen3 rotates them."""
    inverse = config.theta ** -(torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
    angles = torch.outer(torch.arange(config.positions, dtype=torch.float64), inverse)
    angles = torch.cat([angles, angles], 1)
    return angles.cos().float().to(device), angles.sin().float().to(device)


class Network:
    """The forward pass of one shape on one device; weights are an argument."""

    def __init__(self, config: ModelConfig, device: str, dtype: torch.dtype, compiled: bool) -> None:
        self.config, self.device, self.dtype = config, device, dtype
        self.cos, self.sin = rope_table(config, device)
        wrap: Callable[[Any], Any] = (
            (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        )
        self._before = wrap(self._before_attention)
        self._after = wrap(self._after_attention)
        self._head = wrap(self._loss_head)

    def loss_sum(self, weights: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """Cross entropy in nats, summed over the learned targets: float32 []."""
        x = F.embedding(batch.tokens, weights["model.embed_tokens.weight"].to(self.dtype))
        cos, sin = self.cos[batch.positions, None], self.sin[batch.positions, None]
        for layer in range(self.config.layers):
            block = {n: weights[f"model.layers.{layer}.{n}.weight"] for n in _BEFORE + _AFTER}
            q, k, v = self._before(x, cos, sin, *(block[name] for name in _BEFORE))
            attended = self._attention(q, k, v, batch.segments)
            x = self._after(x, attended, *(block[name] for name in _AFTER))
        loss: Tensor = self._head(
            x, weights["model.norm.weight"], weights["model.embed_tokens.weight"], batch.targets
        )
        return loss

    def _before_attention(
        self, x: Tensor, cos: Tensor, sin: Tensor, norm: Tensor, wq: Tensor, wk: Tensor, wv: Tensor,
        q_norm: Tensor, k_norm: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        c = self.config
        h = self._norm(x, norm)
        q = self._norm(_linear(h, wq).view(-1, c.heads, c.head_dim), q_norm)
        k = self._norm(_linear(h, wk).view(-1, c.kv_heads, c.head_dim), k_norm)
        return _rotate(q, cos, sin), _rotate(k, cos, sin), _linear(h, wv).view(-1, c.kv_heads, c.head_dim)

    def _after_attention(
        self, x: Tensor, attended: Tensor, wo: Tensor, norm: Tensor, gate: Tensor, up: Tensor, down: Tensor
    ) -> Tensor:
        x = x + _linear(attended, wo)
        h = self._norm(x, norm)
        return x + _linear(F.silu(_linear(h, gate)) * _linear(h, up), down)

    def _loss_head(self, x: Tensor, norm: Tensor, embedding: Tensor, targets: Tensor) -> Tensor:
        logits = _linear(self._norm(x, norm), embedding).float()
        return F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.config.eps) * weight).to(x.dtype)

    def _attention(self, q: Tensor, k: Tensor, v: Tensor, segments: tuple[tuple[int, int], ...]) -> Tensor:
        """Causal attention within each row: q [N, heads, head_dim] -> [N, heads * head_dim]."""
        sizes = [rows * length for rows, length in segments]
        parts = []
        with fast_attention(self.device):
            for (rows, length), *qkv in zip(
                segments, *(torch.split(z, sizes) for z in (q, k, v)), strict=True
            ):
                qs, ks, vs = (z.unflatten(0, (rows, length)).transpose(1, 2) for z in qkv)
                out = F.scaled_dot_product_attention(qs, ks, vs, is_causal=True, enable_gqa=True)
                parts.append(out.transpose(1, 2).reshape(rows * length, -1))
        return torch.cat(parts)


_BEFORE = (
    "input_layernorm",
    *(f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm")),
)
_AFTER = (
    *("self_attn.o_proj", "post_attention_layernorm"),
    *(f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")),
)


def fast_attention(device: str) -> AbstractContextManager[None]:
    """On a GPU, the kernels that plan nothing per length and never build a score matrix."""
    if device != "cuda":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    context: AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    )
    return context


def _linear(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight.to(x.dtype))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    y = x.float()
    first, second = y.chunk(2, -1)
    return (y * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)
