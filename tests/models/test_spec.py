"""What config.json may say, in both spellings of the rotary embedding, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.errors import ModelLoadError
from engine.models.rope import RopeTable, inverse_frequencies
from engine.models.spec import ModelSpec
from tests.models import reference

CONFIG: dict[str, object] = reference.SHAPE | {"model_type": "llama", "rms_norm_eps": 1e-5}
YARN: dict[str, object] = {"factor": 4.0, "original_max_position_embeddings": 128}


def _spec(**changes: object) -> ModelSpec:
    return ModelSpec.from_config(CONFIG | changes, {})


def test_sizes_and_flags() -> None:
    spec = _spec(attention_bias=True, mlp_bias=True)
    assert (spec.family, spec.heads, spec.kv_heads, spec.head_dim) == ("llama", 4, 2, 16)
    assert spec.qkv_bias
    assert spec.o_bias
    assert spec.mlp_bias
    assert not spec.qk_norm
    assert not spec.tied
    assert spec.kv_bytes_per_token(torch.bfloat16) == 2 * 2 * 2 * 16 * 2
    assert _spec(model_type="qwen2").qkv_bias
    assert not _spec(model_type="qwen2", attention_bias=True).o_bias
    assert _spec(model_type="qwen3").qk_norm
    assert _spec(head_dim=None).head_dim == 12


def test_both_spellings_of_the_rotary_embedding_are_one() -> None:
    old = _spec(rope_theta=5e5, rope_scaling={"type": "yarn"} | YARN)
    new = _spec(rope_parameters={"rope_type": "yarn", "rope_theta": 5e5} | YARN)
    assert old == new
    assert _spec(rope_theta=5e5, rope_scaling=None) == _spec(rope_parameters={"rope_theta": 5e5})


def test_the_context_that_scaling_serves() -> None:
    assert _spec(rope_scaling={"rope_type": "yarn"} | YARN).context_length == 512
    assert _spec(rope_scaling={"rope_type": "dynamic", "factor": 4.0}).context_length == 256
    assert _spec(rope_scaling={"rope_type": "linear", "factor": 4.0}).context_length == 256


def test_eos_ids_come_from_the_generation_config_first() -> None:
    both = {"eos_token_id": [7, 8]}
    assert ModelSpec.from_config(CONFIG | {"eos_token_id": 7}, both).eos_ids == (7, 8)
    assert ModelSpec.from_config(CONFIG | {"eos_token_id": 7}, {"eos_token_id": None}).eos_ids == (7,)
    assert _spec().eos_ids == ()


@pytest.mark.parametrize(("changes", "message"), [
    ({"model_type": "mamba"}, "'mamba' is not supported; known: llama, qwen2, qwen3"),
    ({"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1},
     "a window of 64 tokens is active"),
    ({"sliding_window": 64}, "a window of 64 tokens is active"),
    ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "'longrope' is not supported; known: default"),
    ({"rope_scaling": {"rope_type": "linear"}}, "factor of the rotary embedding must be a number, got None"),
    ({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "differs by kind of layer"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ({"hidden_act": "gelu"}, "'gelu' is not supported"),
    ({"quantization_config": {"quant_method": "fp8"}}, "quantised"),
    ({"hidden_size": "48"}, "hidden_size in config.json must be a positive integer, got '48'"),
    ({"num_key_value_heads": 3}, "4 query heads cannot share 3 key heads"),
    ({"rms_norm_eps": 0}, "rms_norm_eps"),
    ({"eos_token_id": "x"}, "eos_token_id"),
])
def test_what_cannot_be_honoured_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ModelLoadError) as caught:
        _spec(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("changes", [
    {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 64},
    {"model_type": "qwen3", "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2},
    {"sliding_window": 256},
])
def test_an_inactive_window_is_no_obstacle(changes: dict[str, object]) -> None:
    _spec(**changes)


def test_a_folder_without_a_readable_config(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="is not a folder"):
        ModelSpec.read(tmp_path / "absent")
    with pytest.raises(ModelLoadError, match=r"config\.json does not exist"):
        ModelSpec.read(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelLoadError, match="cannot be read as JSON"):
        ModelSpec.read(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert ModelSpec.read(tmp_path) == _spec()


def test_the_rotary_table_grows_without_changing() -> None:
    rope = _spec().rope
    grown, whole = RopeTable(rope, 4096), RopeTable(rope, 4096)
    far = torch.tensor([4095, 0, 1023])
    near = grown.rows(torch.tensor([1023]))
    assert torch.equal(whole.rows(far), grown.rows(far))
    assert torch.equal(near[0], grown.rows(far)[2])
    angles = 4095 * inverse_frequencies(rope)
    torch.testing.assert_close(grown.rows(far)[0, 0], torch.complex(angles.cos(), angles.sin()))
