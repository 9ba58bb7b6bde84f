"""Models of a published shape with random weights: what measurements run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import InvalidParameter
from engine.models.loader import expected_tensors
from engine.models.random import RandomWeights
from engine.models.shapes import SHAPES, shape_folder
from engine.models.spec import ModelSpec
from engine.models.transformer import Transformer
from engine.models.weights import WeightReader
from tests.models import reference

# Parameters as the models' cards count them.
PARAMETERS = {
    "qwen3-0.6b": 0.596e9,
    "qwen3-8b": 8.19e9,
    "qwen3-32b": 32.8e9,
    "qwen2.5-7b": 7.62e9,
    "llama-3.1-8b": 8.03e9,
}


@pytest.fixture
def spec(tmp_path: Path) -> ModelSpec:
    return tiny(ModelSpec.read(shape_folder("qwen3-8b", 256, tmp_path / "made")))


def tiny(spec: ModelSpec) -> ModelSpec:
    return replace(spec, hidden=64, layers=3, heads=4, kv_heads=2, ffn=96, vocab=160)


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_as_many_parameters_as_the_published_model(name: str, tmp_path: Path) -> None:
    spec = ModelSpec.read(shape_folder(name, 65_536, tmp_path))
    count = sum(torch.Size(shape).numel() for shape in expected_tensors(spec).values())
    assert count == pytest.approx(PARAMETERS[name], rel=0.01)
    assert spec.context_length == 65_536


def test_an_unknown_shape_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="qwen3-8b"):
        shape_folder("qwen3-9b", 1024, tmp_path)


def test_every_tensor_is_drawn_at_its_own_scale_and_none_is_like_another(spec: ModelSpec) -> None:
    source = RandomWeights(spec)
    drawn = {name: torch.zeros(shape) for name, shape in expected_tensors(spec).items()}
    for name, target in drawn.items():
        source.copy(name, target)
        if target.dim() == 2:
            assert target.std() == pytest.approx(target.shape[1] ** -0.5, rel=0.1)
        else:
            assert target.mean() == pytest.approx(1.0, abs=0.05)
            assert 0.01 < target.std() < 0.2
    matrices = [target for target in drawn.values() if target.shape == (96, 64)]
    assert len({float(matrix.sum()) for matrix in matrices}) == len(matrices)


def test_the_same_seed_gives_the_same_weights_in_any_order(spec: ModelSpec) -> None:
    name = "model.layers.1.mlp.down_proj.weight"

    def draw(source: RandomWeights) -> torch.Tensor:
        target = torch.empty(source.shape(name), dtype=torch.bfloat16)
        source.copy(name, target)
        return target

    warm = RandomWeights(spec)
    warm.copy("lm_head.weight", torch.empty(warm.shape("lm_head.weight")))
    assert torch.equal(draw(warm), draw(RandomWeights(spec)))
    assert not torch.equal(draw(RandomWeights(spec, seed=1)), draw(RandomWeights(spec)))


@pytest.mark.parametrize("name", ["qwen3-8b", "qwen2.5-7b", "llama-3.1-8b"])
def test_a_forward_pass_stays_finite_and_logits_of_a_size_that_samples(name: str, tmp_path: Path) -> None:
    spec = tiny(ModelSpec.read(shape_folder(name, 256, tmp_path)))
    weights = WeightReader(RandomWeights(spec), spec, torch.float32).model()
    model = Transformer(spec, weights, torch.float32)
    ids = torch.randint(0, spec.vocab, (64,), generator=torch.Generator().manual_seed(1))
    hidden = model.forward(ids, torch.arange(64), reference.CausalAttention())
    logits = model.logits(hidden)
    assert logits.isfinite().all()
    assert 0.3 < logits.std() < 3
