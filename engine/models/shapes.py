"""Shapes of published models by name, for models with random weights: what their config.json says.

Sources: config.json of Qwen/Qwen3-0.6B, -8B, -32B, Qwen/Qwen2.5-7B and meta-llama/Llama-3.1-8B on the hub. The context
length is the caller's.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.errors import InvalidParameter

_QWEN3: dict[str, object] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 128,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000,
    "tie_word_embeddings": False,
    "vocab_size": 151_936,
    "eos_token_id": 151_645,
}

SHAPES: dict[str, dict[str, object]] = {
    "qwen3-0.6b": _QWEN3
    | {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_hidden_layers": 28,
        "tie_word_embeddings": True,
    },
    "qwen3-8b": _QWEN3
    | {
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
    },
    "qwen3-32b": _QWEN3
    | {
        "hidden_size": 5120,
        "intermediate_size": 25_600,
        "num_attention_heads": 64,
        "num_hidden_layers": 64,
    },
    "qwen2.5-7b": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "tie_word_embeddings": False,
        "vocab_size": 152_064,
        "eos_token_id": 151_643,
    },
    "llama-3.1-8b": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "tie_word_embeddings": False,
        "vocab_size": 128_256,
        "eos_token_id": 128_001,
    },
}


def shape_config(name: str, context_length: int) -> dict[str, object]:
    """The config.json of that shape. Raises InvalidParameter."""
    if name not in SHAPES:
        raise InvalidParameter(f"no model shape is called {name!r}; known: {', '.join(SHAPES)}")
    return SHAPES[name] | {"max_position_embeddings": context_length, "torch_dtype": "bfloat16"}


def shape_folder(name: str, context_length: int, folder: Path) -> Path:
    """Makes `folder`, a model folder with nothing but a config.json, and returns it. Raises InvalidParameter."""
    config = shape_config(name, context_length)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    return folder
