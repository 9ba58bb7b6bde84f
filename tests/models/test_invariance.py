"""The whole decoder keeps rows apart: what a token computes depends on that token and its attention alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.models.spec import ModelSpec
from engine.models.transformer import Transformer
from tests.models import reference


class Alone:
    """Every token attends to itself only, so that nothing may cross between rows."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        score = (q * k.repeat_interleave(q.shape[1] // k.shape[1], 1)).float().sum(-1, keepdim=True).sigmoid()
        return (score * v.repeat_interleave(q.shape[1] // v.shape[1], 1)).flatten(1)


def _rows(model: Transformer, ids: Tensor, positions: Tensor) -> Tensor:
    return model.logits(model.forward(ids, positions, Alone()))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("source", ["embedded", "llama", "qwen2"])
def test_a_token_gets_the_same_logits_in_every_step(
        source: str, dtype: torch.dtype, threads: int, tmp_path: Path,
) -> None:
    torch.set_num_threads(threads)
    path = reference.EMBEDDED if source == "embedded" else reference.write(tmp_path, source)
    spec = ModelSpec.read(path)
    model = Transformer.load(path, spec, dtype, torch.device("cpu"))
    ids, positions = torch.zeros(16, dtype=torch.int64), torch.zeros(16, dtype=torch.int64)
    ids[0], positions[0] = 41, 137
    expected = _rows(model, ids, positions)[0]
    for total in (16, 48, 512):
        ids, positions = reference.token_ids(total, spec.vocab), torch.arange(total) % 200
        places = torch.tensor([0, 5, total // 2 + 3, total - 1])
        ids[places], positions[places] = 41, 137
        found = _rows(model, ids, positions)[places]
        assert torch.equal(found, expected.expand_as(found))
