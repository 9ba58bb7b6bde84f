"""A damaged or foreign checkpoint is refused in one line that names the file or tensor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import ModelLoadError
from engine.models.loader import INDEX, SINGLE, Checkpoint
from engine.models.spec import ModelSpec
from engine.models.transformer import Transformer
from tests.models import reference

CPU = torch.device("cpu")
GATE = "model.layers.1.mlp.gate_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return reference.write(tmp_path, "qwen3", {"tie_word_embeddings": True})


def _refusal(path: Path) -> str:
    with pytest.raises(ModelLoadError) as caught:
        Transformer.load(path, ModelSpec.read(path), torch.float32, CPU)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _edit(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(path / SINGLE)
    change(tensors)
    save_file(tensors, path / SINGLE)


def test_a_missing_tensor(folder: Path) -> None:
    _edit(folder, lambda tensors: tensors.pop(GATE))
    assert _refusal(folder) == f"tensor {GATE} is missing in the checkpoint, expected shape [80, 48]"


def test_a_wrong_shape(folder: Path) -> None:
    _edit(folder, lambda tensors: tensors.update({GATE: torch.zeros(79, 48)}))
    assert _refusal(folder) == f"tensor {GATE} has the wrong shape: expected [80, 48], found [79, 48]"


def test_a_dtype_that_is_no_weight(folder: Path) -> None:
    _edit(folder, lambda tensors: tensors.update({GATE: torch.zeros(80, 48, dtype=torch.int8)}))
    assert _refusal(folder) == f"tensor {GATE} has dtype I8; known: BF16, F16, F32"


def test_an_unexpected_tensor(folder: Path) -> None:
    _edit(folder, lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(64)}))
    assert "q_proj.bias of the checkpoint has no place in this model" in _refusal(folder)


def test_known_leftovers_are_harmless(folder: Path) -> None:
    _edit(folder, lambda tensors: tensors.update({
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8), "lm_head.weight": torch.zeros(83, 48)}))
    Transformer.load(folder, ModelSpec.read(folder), torch.float32, CPU)


def test_a_truncated_file(folder: Path) -> None:
    content = (folder / SINGLE).read_bytes()
    (folder / SINGLE).write_bytes(content[: len(content) // 2])
    assert f"{folder / SINGLE} is damaged or truncated" in _refusal(folder)
    (folder / SINGLE).write_bytes(b"")
    assert f"{folder / SINGLE} is damaged or truncated" in _refusal(folder)


def test_no_weights_at_all(folder: Path) -> None:
    (folder / SINGLE).unlink()
    assert "holds neither model.safetensors nor" in _refusal(folder)


def test_missing_shards(tmp_path: Path) -> None:
    path = reference.write(tmp_path, "llama", shard_size="40KB")
    shards = sorted(path.glob("model-*.safetensors"))
    shards[1].unlink()
    shards[2].unlink()
    assert _refusal(path) == (f"2 of {len(shards)} shards are missing in {path}: "
                              f"{shards[1].name}, {shards[2].name}")


def test_an_index_that_names_the_wrong_shard(tmp_path: Path) -> None:
    path = reference.write(tmp_path, "llama", shard_size="40KB")
    index = json.loads((path / INDEX).read_text())
    files = sorted(set(index["weight_map"].values()))
    name = next(name for name, file in index["weight_map"].items() if file == files[0])
    index["weight_map"][name] = files[1]
    (path / INDEX).write_text(json.dumps(index))
    assert f"tensor {name} is missing in {path / files[1]}" in _refusal(path)
    (path / INDEX).write_text("{}")
    assert "has no readable weight_map" in _refusal(path)


def test_what_is_not_built_yet_is_refused(folder: Path) -> None:
    spec = ModelSpec.read(folder)
    with pytest.raises(ModelLoadError, match="rank 1 of 2"):
        Checkpoint(folder, spec, rank=1, world=2)
    with pytest.raises(ModelLoadError, match=r"float16 is not supported"):
        Transformer.load(folder, spec, torch.float16, CPU)
    with pytest.raises(ModelLoadError, match="cuda is not supported yet"):
        Transformer.load(folder, spec, torch.float32, torch.device("cuda"))
