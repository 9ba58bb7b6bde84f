"""Tokens of the device sampler equal those of the CPU's, whatever the grid, the neighbours and the type of logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.sampling.device import tile, workspace
from engine.sampling.device.variant import Filters
from engine.types import SamplingParams
from tests.sampling_device.pair import Pair, launch


def logits_of(rng: torch.Generator, rows: int, vocab: int, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=rng) * spread


def test_plain_paths_draw_what_the_cpu_draws(device: torch.device) -> None:
    rng = torch.Generator().manual_seed(1)
    pair = Pair(device, 700)
    pair.admit_all([SamplingParams(100, temperature=t, ignore_eos=True) for t in (1.0, 0.6, 0.0, 1.7, 0.05)])
    assert pair.on_device.variant.filters is Filters.NONE
    for _ in range(4):
        result, _ = pair.step(logits_of(rng, 5, 700), [3, 0, 4, 1, 2])
    assert result.generated.tolist() == [4] * 5
    assert pair.close_calls <= 1


@pytest.mark.parametrize(("vocab", "tile", "steps"), [(700, 512, 3), (5000, 1024, 1)])
def test_paths_with_top_p_draw_what_the_cpu_draws(
    device: torch.device, vocab: int, tile: int, steps: int
) -> None:
    rng = torch.Generator().manual_seed(2)
    pair = Pair(device, vocab, tile=tile)
    kinds = [(1.0, 0.95), (0.6, 0.9), (1.3, 0.5), (1.0, 1.0), (0.0, 0.3), (1.0, 0.2)]
    pair.admit_all([SamplingParams(100, temperature=t, top_p=p, ignore_eos=True) for t, p in kinds])
    assert pair.on_device.variant.filters is Filters.NUCLEUS
    for _ in range(steps):
        pair.step(logits_of(rng, 6, vocab), [5, 4, 3, 2, 1, 0])
    assert pair.close_calls <= 1


def test_where_no_pass_accepts_the_last_kernel_finds_the_token(device: torch.device) -> None:
    """Flat logits and a tiny nucleus: the four passes leave much of the vocabulary to search. A tile of it is empty."""
    rng = torch.Generator().manual_seed(3)
    pair = Pair(device, 700, slots=4)
    pair.admit_all([SamplingParams(100, top_p=p, ignore_eos=True) for p in (1e-6, 0.002, 0.005, 0.004)])
    for _ in range(2):
        logits = logits_of(rng, 4, 700, 0.01)
        logits[:, 512:] = -float("inf")
        result, _ = pair.step(logits, [0, 1, 2, 3])
        assert result.tokens[0, 0] == logits[0].argmax()
    assert bool((pair.on_device._work.carried[workspace.PASSES - 1, :4, 0] < 0).any())  # none accepted


def test_a_token_is_inside_the_nucleus_up_to_one_percent_beside_its_edge(device: torch.device) -> None:
    logits = torch.full((4, 64), -30.0)
    logits[:, [7, 20, 40]] = torch.tensor([0.5, 0.3, 0.2]).log()
    pair = Pair(device, 64, slots=4)
    pair.admit_all([SamplingParams(100, top_p=p, ignore_eos=True) for p in (0.495, 0.505, 0.795, 0.805)])
    drawn = np.array([pair.step(logits, [0, 1, 2, 3])[0].tokens[0] for _ in range(9)])
    assert [set(column.tolist()) for column in drawn.T] == [{7}, {7, 20}, {7, 20}, {7, 20, 40}]


def test_ties_at_the_edge_of_the_nucleus_stay_together(device: torch.device) -> None:
    """Of 64 equal logits each is inside as long as what is better weighs less than top-p."""
    logits = torch.full((3, 700), -20.0)
    logits[:, 100:164] = 2.0
    logits[:, 600] = 3.0
    pair = Pair(device, 700, slots=3)
    pair.admit_all([SamplingParams(1000, top_p=p, ignore_eos=True) for p in (0.03, 0.05, 0.9)])
    drawn = np.array([pair.step(logits, [0, 1, 2])[0].tokens[0] for _ in range(5)])
    assert set(drawn[:, 0]) == {600}
    assert len(set(drawn[:, 1])) > 3
    assert pair.close_calls == 0


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_row_draws_the_same_in_any_grid_and_beside_any_neighbour(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, top_p: float
) -> None:
    rng = torch.Generator().manual_seed(4)
    logits = logits_of(rng, 3, 5000).to(device)
    seen = []
    for programs, slots in ((1, [0, 1, 2]), (10_000, [0, 1, 2]), (10_000, [2]), (4, [1, 4, 0, 4])):
        monkeypatch.setattr(workspace, "_PROGRAMS", programs)
        pair = Pair(device, 5000, slots=4, tile=1024)
        pair.admit_all([SamplingParams(100, top_p=top_p, ignore_eos=True)] * 3)
        rows = torch.tensor([min(slot, 2) for slot in slots])
        launch(pair.on_device, logits[rows], slots)
        reports = pair.on_device._work.reports[0, slots.index(2) if 2 in slots else 0].clone()
        seen.append((pair.on_device.state.clone(), reports))
    assert torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][1], seen[1][1])
    assert torch.equal(seen[0][1], seen[2][1])
    assert torch.equal(seen[0][0][2], seen[2][0][2])
    assert torch.equal(seen[0][0][:2], seen[3][0][:2])


def test_bfloat16_logits_draw_what_their_float32_values_draw(device: torch.device) -> None:
    rng = torch.Generator().manual_seed(5)
    pair = Pair(device, 700)
    pair.admit_all([SamplingParams(100, top_p=0.8, ignore_eos=True)] * 3)
    pair.step(logits_of(rng, 3, 700).bfloat16(), [0, 1, 2])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_logits_without_sense_lead_to_a_token_of_the_vocabulary(device: torch.device) -> None:
    pair = Pair(device, 700)
    pair.admit_all([SamplingParams(100, top_p=0.8, ignore_eos=True)] * 3)
    logits = torch.zeros(3, 700)
    logits[0], logits[1], logits[2, 5] = float("nan"), -float("inf"), float("inf")
    result = launch(pair.on_device, logits.to(device), [0, 1, 2])
    assert ((result.tokens >= 0) & (result.tokens < 700)).all()


def test_tiles_report_the_winner_with_the_lowest_id_where_two_tie(device: torch.device) -> None:
    pair = Pair(device, 700, tile=256)
    pair.admit(0, SamplingParams(100, temperature=0.0, ignore_eos=True))
    logits = torch.zeros(1, 700)
    logits[0, [650, 300, 299, 10, 640]] = torch.tensor([5.0, 5.0, 5.0, 1.0, 5.0])
    assert launch(pair.on_device, logits.to(device), [0]).tokens[0, 0] == 299
    assert pair.on_device._work.reports[0, 0, tile.INDEX.value].tolist()[:3] == [10, 299, 640]
