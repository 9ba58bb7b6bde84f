"""Log-probabilities agree with transformers for every family and every rotary variant."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models import reference

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64}
ALL_BIASES: dict[str, object] = {"attention_bias": True, "mlp_bias": True}
ROPES: dict[str, dict[str, object]] = {
    "linear": {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 3.0},
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn with mscale": YARN | {"mscale": 0.7, "mscale_all_dim": 0.4, "beta_fast": 16.0},
    "yarn with attention factor": YARN | {"attention_factor": 1.3, "truncate": False},
}
MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "qwen3": ("qwen3", {}),
    "qwen3 tied": ("qwen3", {"tie_word_embeddings": True}),
    "qwen3 with biases": ("qwen3", {"attention_bias": True}),
    "qwen2": ("qwen2", {}),
    "qwen2 tied": ("qwen2", {"tie_word_embeddings": True}),
    "llama": ("llama", {"head_dim": 12}),
    "llama tied, with biases": ("llama", ALL_BIASES | {"tie_word_embeddings": True}),
    "llama with one kv head": ("llama", {"num_key_value_heads": 1}),
    **{name: (family, {"rope_parameters": rope})
       for (name, rope), family in zip(ROPES.items(), ("llama", "llama", "llama", "qwen3", "qwen2", "llama"),
                                       strict=True)},
}


@pytest.mark.parametrize("name", MODELS)
def test_float32_agrees_with_transformers(name: str, tmp_path: Path) -> None:
    family, changes = MODELS[name]
    path = reference.write(tmp_path, family, changes)
    ids = reference.token_ids(160)
    difference = reference.our_logprobs(path, ids) - reference.expected_logprobs(path, ids)
    assert difference.abs().max() < 1e-4


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    whole = reference.write(tmp_path / "whole", "qwen3")
    sharded = reference.write(tmp_path / "sharded", "qwen3", shard_size="40KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    ids = reference.token_ids(32)
    assert torch.equal(reference.our_logprobs(whole, ids), reference.our_logprobs(sharded, ids))


@pytest.mark.parametrize("family", ["qwen3", "qwen2", "llama"])
def test_bfloat16_is_as_close_as_that_of_transformers(family: str, tmp_path: Path) -> None:
    path = reference.write(tmp_path, family)
    ids = reference.token_ids(64)
    exact = reference.expected_logprobs(path, ids)
    theirs = (reference.expected_logprobs(path, ids, torch.bfloat16) - exact).abs()
    ours = (reference.our_logprobs(path, ids, torch.bfloat16) - exact).abs()
    assert 0 < ours.mean() <= theirs.mean()
    assert ours.max() < 1.0


def test_embedded_model_agrees_far_into_its_context() -> None:
    ids = reference.token_ids(1024, vocab=448)
    difference = reference.our_logprobs(reference.EMBEDDED, ids) - reference.expected_logprobs(reference.EMBEDDED, ids)
    assert difference.abs().max() < 1e-4
