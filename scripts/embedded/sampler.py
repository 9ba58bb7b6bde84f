"""Samples many sequences at once, for evaluation and for samples to learn from.

All sequences stand at the same position, so attention needs no mask: prompts are fed one token a step and
each sequence starts to sample at the end of its own. The ended ones are dropped and the cache grows in stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from scripts.embedded.network import ModelConfig, fast_attention, rope_table
from scripts.embedded.tokenizer import vocabulary

Tokens = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class _Layer:
    """norm, out_norm: [hidden]; qkv, out, gate_up, down: [out, in]; head_norms: [heads + kv_heads, head_dim]."""

    norm: Tensor
    qkv: Tensor
    head_norms: Tensor
    out: Tensor
    out_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(slots=True)
class _Running:
    """The sequences that still run. rows [B]: their index in the result. tokens [B]: the input of the next
    step. prompts [B, longest], lengths [B], done [B]. keys, values: per layer [B, kv_heads, room, head_dim]."""

    rows: Tensor
    tokens: Tensor
    prompts: Tensor
    lengths: Tensor
    done: Tensor
    keys: list[Tensor]
    values: list[Tensor]

    def narrowed(self, position: int, room: int) -> _Running:
        """Without the ended ones, with a cache for `room` tokens of which `position` are filled."""
        keep = (~self.done).nonzero()[:, 0]
        for cache in (self.keys, self.values):
            for layer, old in enumerate(cache):
                new = old.new_empty(len(keep), old.size(1), room, old.size(3))
                new[:, :, :position] = old[keep, :, :position]
                cache[layer] = new  # one layer at a time, so that old and new never both lie in memory
        return _Running(
            self.rows[keep],
            self.tokens[keep],
            self.prompts[keep],
            self.lengths[keep],
            self.done[keep],
            self.keys,
            self.values,
        )


class Sampler:
    """Samples from one set of weights. On a GPU in bfloat16."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, Tensor], device: str) -> None:
        self.config, self.device = config, device
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        w = {name: value.detach().to(device, self.dtype) for name, value in weights.items()}
        self._embedding, self._norm = w["model.embed_tokens.weight"], w["model.norm.weight"]
        self._layers = [self._layer(w, f"model.layers.{layer}.") for layer in range(config.layers)]
        cos, sin = rope_table(config, device)
        self._cos, self._sin = cos.to(self.dtype), sin.to(self.dtype)

    def _layer(self, weights: Mapping[str, Tensor], prefix: str) -> _Layer:
        c = self.config
        names = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
        q, k, v, out, q_norm, k_norm = (weights[f"{prefix}self_attn.{name}.weight"] for name in names)
        gate, up, down = (weights[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        return _Layer(
            weights[f"{prefix}input_layernorm.weight"],
            torch.cat([q, k, v]),
            torch.cat([q_norm.expand(c.heads, -1), k_norm.expand(c.kv_heads, -1)]),
            out,
            weights[f"{prefix}post_attention_layernorm.weight"],
            torch.cat([gate, up]),
            down,
        )

    def sample(
        self, prompts: Sequence[Sequence[int]], longest: int, *, temperature: float = 1.0, seed: int = 0
    ) -> list[Tokens]:
        """Up to `longest` new tokens after each prompt, the end of turn included; temperature 0 is greedy."""
        with torch.inference_mode(), fast_attention(self.device):
            return self._sample(prompts, longest, temperature, seed)

    def _sample(
        self, prompts: Sequence[Sequence[int]], longest: int, temperature: float, seed: int
    ) -> list[Tokens]:
        generator = torch.Generator(self.device).manual_seed(seed)
        stop = vocabulary().end_of_turn
        running = self._start(prompts)
        prompt_room = running.prompts.size(1)
        total = min(prompt_room + longest, self.config.positions)
        out = torch.full((len(prompts), total), stop, dtype=torch.int16, device=self.device)
        out[:, :prompt_room] = running.prompts.to(torch.int16)
        for position in range(total - 1):
            logits = self._step(running, position)
            following = _draw(logits, temperature, generator)
            at = position + 1
            if at < prompt_room:
                following = torch.where(at < running.lengths, running.prompts[:, at], following)
            following = torch.where(running.done, stop, following)
            out[running.rows, at] = following.to(torch.int16)
            ended = (following == stop) & (at >= running.lengths)
            running.done |= ended | (at - running.lengths + 1 >= longest)
            running.tokens = following
            room = running.keys[0].size(2)
            if at % 64 == 0 or at >= room:
                active = int((~running.done).sum())
                if active == 0:
                    break
                if at >= room or active < 0.75 * len(running.rows):
                    running = running.narrowed(at, min(total, 2 * room) if at >= room else room)
        return _cut(out.cpu().numpy(), [len(prompt) for prompt in prompts], longest, stop)

    def _start(self, prompts: Sequence[Sequence[int]]) -> _Running:
        c, rows, width = self.config, len(prompts), max(map(len, prompts))
        padded = np.full((rows, width), vocabulary().end_of_turn, np.int64)
        for row, prompt in zip(padded, prompts, strict=True):
            row[: len(prompt)] = prompt
        forced = torch.from_numpy(padded).to(self.device)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)

        def caches() -> list[Tensor]:
            shape = (rows, c.kv_heads, max(128, width), c.head_dim)
            return [torch.empty(shape, device=self.device, dtype=self.dtype) for _ in range(c.layers)]

        done = torch.zeros(rows, dtype=torch.bool, device=self.device)
        index = torch.arange(rows, device=self.device)
        return _Running(index, forced[:, 0], forced, lengths, done, caches(), caches())

    def _step(self, running: _Running, position: int) -> Tensor:
        """Writes keys and values of running.tokens at `position`; returns logits [B, vocabulary]."""
        c, (batch,) = self.config, running.tokens.shape
        x = self._embedding[running.tokens]
        cos, sin = self._cos[position], self._sin[position]
        for layer, keys, values in zip(self._layers, running.keys, running.values, strict=True):
            z = F.linear(self._rms(x, layer.norm), layer.qkv).view(batch, -1, c.head_dim)
            y = self._rms(z[:, : c.heads + c.kv_heads], layer.head_norms)
            first, second = y.chunk(2, -1)
            y = y * cos + torch.cat([-second, first], -1) * sin
            keys[:, :, position] = y[:, c.heads :]
            values[:, :, position] = z[:, c.heads + c.kv_heads :]
            # the query heads of one key head stand as query rows: no key is expanded
            q = y[:, : c.heads].reshape(batch, c.kv_heads, -1, c.head_dim)
            end = position + 1
            attended = F.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end])
            x = x + F.linear(attended.reshape(batch, -1), layer.out)
            gate, up = F.linear(self._rms(x, layer.out_norm), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return F.linear(self._rms(x, self._norm), self._embedding)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.size(-1),), None, self.config.eps) * weight


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """One id a row: int64 [B]. The exponential race gives each id its probability."""
    if temperature == 0:
        return logits.argmax(-1)
    odds = torch.softmax(logits.float() / temperature, -1)
    return (odds / torch.empty_like(odds).exponential_(generator=generator)).argmax(-1)


def _cut(out: Tokens, prompt_lengths: Sequence[int], longest: int, stop: int) -> list[Tokens]:
    """The generated part of each row, up to and with its first end of turn."""
    cut = []
    for row, length in zip(out, prompt_lengths, strict=True):
        generated = row[length : length + longest]
        ends = np.flatnonzero(generated == stop)
        cut.append(generated[: ends[0] + 1] if len(ends) else generated)
    return cut
