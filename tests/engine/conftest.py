"""Tiny random models of each family, written once a session as transformers writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

COMMON = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "initializer_range": 0.25,
}


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

    made = {}
    for name, config, cls in (
        ("llama", LlamaConfig(**COMMON, eos_token_id=2), LlamaForCausalLM),
        ("qwen2", Qwen2Config(**COMMON, eos_token_id=2, tie_word_embeddings=True), Qwen2ForCausalLM),
        ("qwen3", Qwen3Config(**COMMON, eos_token_id=2, head_dim=16), Qwen3ForCausalLM),
    ):
        torch.manual_seed(3)
        folder = tmp_path_factory.mktemp("models") / name
        cls(config).save_pretrained(folder)
        made[name] = folder
    return made


@pytest.fixture(scope="session")
def tiny_model(tiny_models: dict[str, Path]) -> Path:
    return tiny_models["qwen3"]
