"""On a GPU, at the size of a real vocabulary: a replayed graph does what its launches do, and what the CPU does."""

from __future__ import annotations

import pytest
import torch

from engine.sampling.device.result import out_width
from engine.sampling.device.variant import Filters
from engine.types import SamplingParams, Statistic
from tests.sampling_device.pair import Pair

pytestmark = pytest.mark.gpu

VOCAB, ROWS = 151_936, 16
KINDS = {
    Filters.NONE: SamplingParams(1000, temperature=0.8, ignore_eos=True),
    Filters.NUCLEUS: SamplingParams(
        1000, temperature=0.8, top_p=0.95, statistics=tuple(Statistic), logprobs=5, ignore_eos=True
    ),
    Filters.FULL: SamplingParams(
        1000, temperature=0.6, top_p=0.95, top_k=20, min_p=0.01, presence_penalty=0.3, ignore_eos=True
    ),
}


def pair_of(device: torch.device, kind: Filters) -> Pair:
    pair = Pair(device, VOCAB, slots=ROWS, tile=2048)
    pair.admit_all([KINDS[kind]] * ROWS)
    assert pair.on_device.variant.filters is kind
    return pair


def some_logits(steps: int) -> torch.Tensor:
    return (torch.randn(steps, ROWS, VOCAB, generator=torch.Generator().manual_seed(1)) * 3).bfloat16()


@pytest.mark.parametrize("kind", list(Filters))
def test_tokens_equal_the_cpus(device: torch.device, kind: Filters) -> None:
    pair = pair_of(device, kind)
    for logits in some_logits(4):
        pair.step(logits, range(ROWS))
    print(f"{kind}: {pair.close_calls} close calls in {4 * ROWS} tokens")
    assert pair.close_calls <= 1


@pytest.mark.parametrize("kind", list(Filters))
def test_a_replay_equals_its_launches(device: torch.device, kind: Filters) -> None:
    every = some_logits(3).to(device)
    logits = torch.empty_like(every[0])
    rows = torch.arange(ROWS, dtype=torch.int32, device=device)
    found = []
    for captured in (False, True):
        sampler = pair_of(device, kind).on_device
        variant, first = sampler.variant, sampler.state.clone()
        out = torch.zeros(ROWS, out_width(variant), dtype=torch.int32, device=device)
        logits.copy_(every[0])
        sampler.launch(logits, rows, variant, out)  # compiles
        graph = torch.cuda.CUDAGraph()
        if captured:
            with torch.cuda.graph(graph):
                sampler.launch(logits, rows, variant, out)
        sampler.state.copy_(first)
        sampler._tables.counts.zero_()
        sampler._tables.ring.zero_()
        outs = []
        for each in every:
            logits.copy_(each)
            if captured:
                graph.replay()
            else:
                sampler.launch(logits, rows, variant, out)
            outs.append(out.clone())
        found.append((torch.stack(outs), sampler.state, sampler._tables.counts, sampler._tables.ring))
    for launched, replayed in zip(*found, strict=True):
        assert torch.equal(launched, replayed)
