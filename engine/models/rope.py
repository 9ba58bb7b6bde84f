"""Rotary position embedding: the scaling variants of the Llama and Qwen families, and the table of a step.

Frequencies and angles are computed in float32, step by step as transformers does it: at position 8,000 an
angle rounded to float32 is off by 2e-4 radians, checkpoints were trained with exactly that rounding, and a
more exact table would disagree with them.
Sources: YaRN (arXiv 2309.00071), Llama 3.1 scaling, transformers' modeling_rope_utils.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import ModelLoadError

KINDS = ("default", "linear", "dynamic", "llama3", "yarn")


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """One rotary embedding. original_context: positions before scaling. The rest is used by some kinds only:
    factor (linear, llama3, yarn), low/high_freq_factor (llama3), attention_factor, beta_*, truncate (yarn)."""

    kind: str
    theta: float
    head_dim: int
    original_context: int
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    attention_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True


def parse_rope(config: Mapping[str, object], head_dim: int, context: int) -> RopeSpec:
    """Reads `rope_parameters` (transformers 5) or `rope_theta` with `rope_scaling` (before) of a config.json."""
    values = _rope_values(config)
    kind = str(values.get("rope_type", values.get("type", "default")))
    if kind not in KINDS:
        raise ModelLoadError(f"rope type {kind!r} is not supported; known: {', '.join(KINDS)}")
    if _number(values, "partial_rotary_factor", 1.0) != 1.0:
        raise ModelLoadError("partial_rotary_factor other than 1 is not supported")
    theta = _number(values, "rope_theta", 10_000.0)
    if kind == "default":
        return RopeSpec(kind, theta, head_dim, context)
    # Dynamic scaling begins beyond max_position_embeddings, whatever else the config names.
    original = (
        context if kind == "dynamic" else int(_number(values, "original_max_position_embeddings", context))
    )
    if kind == "yarn" and values.get("factor") is None:
        factor = context / original
    else:
        factor = _number(values, "factor")
    if factor <= 0 or original <= 0 or theta <= 0:
        raise ModelLoadError(
            f"rope factor {factor}, original context {original} and theta {theta} must be > 0"
        )
    return RopeSpec(
        kind,
        theta,
        head_dim,
        original,
        factor,
        low_freq_factor=_number(values, "low_freq_factor") if kind == "llama3" else 1.0,
        high_freq_factor=_number(values, "high_freq_factor") if kind == "llama3" else 4.0,
        attention_factor=_yarn_attention(values, factor) if kind == "yarn" else 1.0,
        beta_fast=_number(values, "beta_fast", 32.0) or 32.0,
        beta_slow=_number(values, "beta_slow", 1.0) or 1.0,
        truncate=bool(values.get("truncate", True)),
    )


def scaled_context(rope: RopeSpec, context: int) -> int:
    """Positions that the embedding serves. YaRN is documented to be switched on by adding its parameters to a
    config.json that still names the unscaled context, so there the factor counts."""
    return max(context, int(rope.original_context * rope.factor)) if rope.kind == "yarn" else context


def _rope_values(config: Mapping[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key in ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings"):
        if config.get(key) is not None:
            values[key] = config[key]
    for key in ("rope_scaling", "rope_parameters"):
        found = config.get(key)
        if found is None:
            continue
        if not isinstance(found, Mapping):
            raise ModelLoadError(f"{key} in config.json must be an object, got {found!r}")
        if any(isinstance(value, Mapping) for value in found.values()):
            raise ModelLoadError(f"{key} in config.json differs by kind of layer, which is not supported")
        values |= {name: value for name, value in found.items() if value is not None}
    return values


def _number(values: Mapping[str, object], key: str, default: float | None = None) -> float:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ModelLoadError(f"{key} of the rotary embedding must be a number, got {value!r}")
    return float(value)


def _yarn_attention(values: Mapping[str, object], factor: float) -> float:
    def scale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if values.get("attention_factor") is not None:
        return _number(values, "attention_factor")
    mscale, all_dims = _number(values, "mscale", 0.0), _number(values, "mscale_all_dim", 0.0)
    return scale(mscale) / scale(all_dims) if mscale and all_dims else scale(1.0)


def inverse_frequencies(rope: RopeSpec) -> Tensor:
    """Angle per position of each pair of dimensions: [head_dim / 2], float32, CPU."""
    exponents = torch.arange(0, rope.head_dim, 2, dtype=torch.float32) / rope.head_dim
    plain = 1.0 / rope.theta**exponents
    if rope.kind == "linear":
        return plain / rope.factor
    if rope.kind == "llama3":
        return _llama3(plain, rope)
    if rope.kind == "yarn":
        return _yarn(rope.theta**exponents, rope)
    return plain


def _llama3(plain: Tensor, rope: RopeSpec) -> Tensor:
    """Long wavelengths are divided by factor, short ones kept, those between interpolated."""
    wavelengths = 2 * math.pi / plain
    longest = rope.original_context / rope.low_freq_factor
    shortest = rope.original_context / rope.high_freq_factor
    smooth = (rope.original_context / wavelengths - rope.low_freq_factor) / (
        rope.high_freq_factor - rope.low_freq_factor
    )
    between = (1 - smooth) * plain / rope.factor + smooth * plain
    scaled = torch.where(wavelengths > longest, plain / rope.factor, plain)
    return torch.where((wavelengths >= shortest) & (wavelengths <= longest), between, scaled)


def _yarn(periods: Tensor, rope: RopeSpec) -> Tensor:
    """Dimensions that turn often are kept, slow ones divided by factor, a ramp between."""
    dim = rope.head_dim

    def dimension(rotations: float) -> float:
        turns = math.log(rope.original_context / (rotations * 2 * math.pi))
        return dim * turns / (2 * math.log(rope.theta))

    low, high = dimension(rope.beta_fast), dimension(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = torch.clamp((torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    kept = 1 - ramp
    return 1.0 / (rope.factor * periods) * (1 - kept) + 1.0 / periods * kept


class RopeTable:
    """The rotation of every position as complex numbers, grown when a longer one is asked for.

    A head's dimensions lie as pairs (2j, 2j + 1) of one complex number each, so that turning queries and keys
    is a single multiplication. Checkpoints pair j with j + head_dim / 2: `interleaved` is the permutation.
    """

    def __init__(self, rope: RopeSpec, context: int) -> None:
        self._frequencies = inverse_frequencies(rope)
        self._scale = rope.attention_factor
        self._context = context
        self._rows = self._build(min(context, 1024))

    def rows(self, positions: Tensor) -> Tensor:
        """positions: [T] int64, below the context length. Returns [T, 1, D / 2] complex64 for `rotate`."""
        longest = int(positions.max()) + 1
        if longest > self._rows.shape[0]:
            self._rows = self._build(min(self._context, max(longest, 2 * self._rows.shape[0])))
        return self._rows.index_select(0, positions).unsqueeze(1)

    def _build(self, length: int) -> Tensor:
        angles = torch.arange(length, dtype=torch.float32)[:, None] * self._frequencies
        return torch.complex(angles.cos() * self._scale, angles.sin() * self._scale)


def interleaved(head_dim: int) -> Tensor:
    """Checkpoint dimension at each place of a head: 0, D/2, 1, D/2 + 1, ...; [D] int64."""
    return torch.arange(head_dim).view(2, -1).t().reshape(-1)


def rotate(x: Tensor, rows: Tensor) -> Tensor:
    """x: [T, H, D] float32, last dimension contiguous; rows: as `RopeTable.rows`. Returns [T, H, D]."""
    turned = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2)) * rows
    return torch.view_as_real(turned).flatten(-2)
