"""What a checkpoint's config.json says about a model: one frozen object, everything else refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import ModelLoadError
from engine.models.rope import RopeSpec, parse_rope, scaled_context

FAMILIES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Shape of one decoder. Sizes are in elements, context_length in tokens.

    qk_norm: RMS norm on each query and key head. qkv_bias, o_bias, mlp_bias: which linear layers have one.
    tied: the output head is the embedding. eos_ids: tokens that end a turn, maybe none.
    """

    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    eps: float
    tied: bool
    qk_norm: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    rope: RopeSpec
    context_length: int
    eos_ids: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> ModelSpec:
        """Reads config.json and generation_config.json of a folder. Raises ModelLoadError."""
        if not path.is_dir():
            raise ModelLoadError(f"{path} is not a folder")
        config = _read_json(path / "config.json")
        generation = path / "generation_config.json"
        return cls.from_config(config, _read_json(generation) if generation.is_file() else {})

    @classmethod
    def from_config(cls, config: Mapping[str, object], generation: Mapping[str, object]) -> ModelSpec:
        family = str(config.get("model_type"))
        if family not in FAMILIES:
            raise ModelLoadError(f"model type {family!r} is not supported; known: {', '.join(FAMILIES)}")
        hidden, heads = _integer(config, "hidden_size"), _integer(config, "num_attention_heads")
        head_dim = _integer(config, "head_dim", 128 if family == "qwen3" else hidden // heads)
        context = _integer(config, "max_position_embeddings")
        rope = parse_rope(config, head_dim, context)
        attention_bias = bool(config.get("attention_bias", False))
        spec = cls(
            family=family,
            hidden=hidden,
            layers=_integer(config, "num_hidden_layers"),
            heads=heads,
            kv_heads=_integer(config, "num_key_value_heads", heads),
            head_dim=head_dim,
            ffn=_integer(config, "intermediate_size"),
            vocab=_integer(config, "vocab_size"),
            eps=_positive(config, "rms_norm_eps", 1e-6),
            tied=bool(config.get("tie_word_embeddings", False)),
            qk_norm=family == "qwen3",
            qkv_bias=True if family == "qwen2" else attention_bias,
            o_bias=False if family == "qwen2" else attention_bias,
            mlp_bias=family == "llama" and bool(config.get("mlp_bias", False)),
            rope=rope,
            context_length=scaled_context(rope, context),
            eos_ids=_eos_ids(config, generation),
        )
        _refuse_unsupported(config, spec)
        return spec

    @property
    def q_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.kv_heads * self.head_dim

    def kv_bytes_per_token(self, dtype: torch.dtype) -> int:
        """Bytes of keys and values that one token occupies in all layers together."""
        return 2 * self.layers * self.kv_size * dtype.itemsize


def _refuse_unsupported(config: Mapping[str, object], spec: ModelSpec) -> None:
    if spec.heads % spec.kv_heads:
        raise ModelLoadError(f"{spec.heads} query heads cannot share {spec.kv_heads} key heads evenly")
    if spec.head_dim % 2:
        raise ModelLoadError(f"head_dim must be even for the rotary embedding, got {spec.head_dim}")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelLoadError(f"hidden_act {config['hidden_act']!r} is not supported; known: silu")
    if config.get("quantization_config") is not None:
        raise ModelLoadError("quantised checkpoints are not supported: quantization_config is set")
    window = _active_window(config, spec)
    if window is not None:
        raise ModelLoadError(
            f"sliding-window attention is not supported: a window of {window} tokens is active"
        )


def _active_window(config: Mapping[str, object], spec: ModelSpec) -> int | None:
    """The sliding window that some layer would apply within the context, if any."""
    window = config.get("sliding_window")
    if not isinstance(window, int) or window >= spec.context_length:
        return None
    if spec.family == "llama":
        return window
    if not config.get("use_sliding_window", False):
        return None
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return window if "sliding_attention" in kinds else None
    return window if _integer(config, "max_window_layers", 28) < spec.layers else None


def _eos_ids(config: Mapping[str, object], generation: Mapping[str, object]) -> tuple[int, ...]:
    """generation_config.json comes first: it lists what ends a turn, config.json often only one of them."""
    found = generation.get("eos_token_id")
    if found is None:
        found = config.get("eos_token_id")
    if found is None:
        return ()
    ids = found if isinstance(found, list) else [found]
    if not all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in ids):
        raise ModelLoadError(f"eos_token_id must be a token id or a list of them, got {found!r}")
    return tuple(ids)


def _integer(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelLoadError(f"{key} in config.json must be a positive integer, got {value!r}")
    return value


def _positive(config: Mapping[str, object], key: str, default: float) -> float:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ModelLoadError(f"{key} in config.json must be a positive number, got {value!r}")
    return float(value)


def _read_json(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelLoadError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise ModelLoadError(f"{path} must hold a JSON object")
    return content
