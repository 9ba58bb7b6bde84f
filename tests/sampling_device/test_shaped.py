"""Penalties, bias, minimum thinking, top-k, min-p: tokens equal those of the CPU's sampler."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

from engine.sampling.device import sampler, workspace
from engine.sampling.device.variant import Filters
from engine.types import SamplingParams, Thinking
from tests.sampling_device.pair import Pair, launch

VOCAB = 700
OPEN, CLOSE, EOS = 1, 2, 3


def logits_of(rng: torch.Generator, rows: int, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=rng) * spread


def some_params(draw: random.Random) -> SamplingParams:
    return SamplingParams(
        max_tokens=100,
        temperature=draw.choice([0.0, 0.3, 0.7, 1.0, 1.6]),
        top_k=draw.choice([0, 1, 2, 5, 20, 90, 600, 699, 5000]),
        top_p=draw.choice([1.0, 0.95, 0.8, 0.3]),
        min_p=draw.choice([0.0, 0.0, 0.02, 0.4]),
        repetition_penalty=draw.choice([1.0, 1.3, 0.8]),
        presence_penalty=draw.choice([0.0, 0.9, -0.4]),
        frequency_penalty=draw.choice([0.0, 0.5]),
        logit_bias=tuple(
            (token, draw.uniform(-9, 9)) for token in draw.sample(range(VOCAB), draw.choice([0, 3, 200]))
        ),
        ignore_eos=True,
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_mixture_of_settings_draws_what_the_cpu_draws(device: torch.device, seed: int) -> None:
    draw, rng = random.Random(seed), torch.Generator().manual_seed(seed)
    pair = Pair(device, VOCAB, slots=9)
    pair.admit_all([some_params(draw) for _ in range(8)] + [SamplingParams(9, top_k=30, ignore_eos=True)])
    assert pair.on_device.variant.filters is Filters.FULL
    for spread in (3.0, 0.5):
        pair.step(logits_of(rng, 9, spread), draw.sample(range(9), 9))
    assert pair.close_calls <= 1


@pytest.mark.soak
def test_many_mixtures_of_settings_draw_what_the_cpu_draws(device: torch.device) -> None:
    calls = 0
    for seed in range(100, 120):
        draw, rng = random.Random(seed), torch.Generator().manual_seed(seed)
        pair = Pair(device, 2500, slots=12, tile=1024)
        pair.admit_all([some_params(draw) for _ in range(12)])
        for spread in (3.0, 1.0, 6.0):
            logits = torch.randn(12, 2500, generator=rng) * spread
            pair.step(logits.bfloat16() if draw.random() < 0.5 else logits, draw.sample(range(12), 12))
        calls += pair.close_calls
    print(f"{calls} close calls in {20 * 36} tokens")
    assert calls <= 5


def test_penalties_count_every_committed_token(device: torch.device) -> None:
    rng = torch.Generator().manual_seed(11)
    thinking = Thinking(OPEN, CLOSE, (CLOSE, 50, 51), max_tokens=2)
    pair = Pair(device, VOCAB, slots=2)
    pair.admit(0, SamplingParams(100, temperature=0.0, frequency_penalty=0.7, thinking=thinking, ignore_eos=True),
               prompt=(1, 9, OPEN))  # fmt: skip
    pair.admit(
        1, SamplingParams(100, temperature=0.0, repetition_penalty=1.4, ignore_eos=True), prompt=(7, 8, 7)
    )
    logits = logits_of(rng, 2)
    for _ in range(8):
        pair.step(logits, [0, 1])
    counts = pair.on_device._tables.counts.cpu() & 0xFFFF
    assert torch.equal(counts[:2], pair.on_cpu.penalties.generated)


def test_tokens_of_the_prompt_are_seen_but_not_counted(device: torch.device) -> None:
    params = SamplingParams(
        100, temperature=0.0, repetition_penalty=1.1, frequency_penalty=0.5, presence_penalty=0.5
    )
    pair = Pair(device, VOCAB, slots=1)
    pair.admit(0, params, prompt=(40, 41, 42))
    logits = torch.zeros(1, VOCAB)
    logits[0, [40, 41, 42, 43]] = torch.tensor([6.0, 5.9, 5.8, 5.3])
    drawn = [int(pair.step(logits, [0])[0].tokens[0, 0]) for _ in range(6)]
    assert drawn[:3] == [40, 41, 43]


def test_the_next_owner_of_a_slot_starts_without_counts(device: torch.device) -> None:
    rng = torch.Generator().manual_seed(12)
    pair = Pair(device, VOCAB, slots=1)
    pair.admit(0, SamplingParams(100, temperature=0.0, presence_penalty=2.0, ignore_eos=True))
    logits = logits_of(rng, 1)
    first = [pair.step(logits, [0])[0].tokens[0, 0] for _ in range(2)]
    pair.release(0)
    pair.admit(0, SamplingParams(100, temperature=0.0, presence_penalty=2.0, ignore_eos=True))
    assert first == [pair.step(logits, [0])[0].tokens[0, 0] for _ in range(2)]


@pytest.mark.parametrize("step", [1.0, 0.25])
def test_scores_that_tie_with_the_kth_are_all_kept(device: torch.device, step: float) -> None:
    """Coarse logits: dozens of tokens share a score, at the k-th place and above it."""
    rng = torch.Generator().manual_seed(21)
    pair = Pair(device, VOCAB, slots=6)
    pair.admit_all([SamplingParams(100, top_k=k, top_p=p, ignore_eos=True)
                    for k, p in ((1, 1.0), (4, 1.0), (20, 0.9), (33, 1.0), (150, 0.7), (400, 1.0))])  # fmt: skip
    for _ in range(2):
        pair.step((logits_of(rng, 6) / step).round() * step, [0, 1, 2, 3, 4, 5])
    assert pair.close_calls == 0


def test_top_k_finds_its_tokens_in_one_group_and_in_many(device: torch.device) -> None:
    """The best tokens are neighbours: one group's maximum stands for all of them, and the bound is too low: by many
    tokens, by one, and not at all."""
    pair = Pair(device, 5000, slots=5, tile=1024)
    places = (40, 12, 5, 5, 5)
    pair.admit_all([SamplingParams(1000, temperature=5.0, top_k=k, ignore_eos=True) for k in places])
    logits = torch.randn(5, 5000, generator=torch.Generator().manual_seed(22))
    logits[:3, 1500:1516] = 10.0 + torch.arange(16.0)
    logits[3, 1504:1506] = torch.tensor([10.0, 11.0])
    pair.step(logits, [0, 1, 2, 3, 4])
    floors = pair.on_device._work.floors[:5, 0].cpu()
    kth = torch.stack([logits[row].topk(k).values[-1] for row, k in enumerate(places)])
    assert torch.equal(floors, kth / 5.0)


def test_top_k_may_keep_more_tokens_than_there_are_groups(device: torch.device) -> None:
    pair = Pair(device, 512, slots=3, tile=512)
    places = (33, 200, 511)
    pair.admit_all([SamplingParams(1000, top_k=k, ignore_eos=True) for k in places])
    logits = torch.randn(3, 512, generator=torch.Generator().manual_seed(23))
    pair.step(logits, [0, 1, 2])
    kth = torch.stack([logits[row].topk(k).values[-1] for row, k in enumerate(places)])
    assert torch.equal(pair.on_device._work.floors[:3, 0].cpu(), kth)


def test_bias_is_added_before_the_temperature_and_the_filters(device: torch.device) -> None:
    """The CPU's path gets logits that have it already."""
    rng = torch.Generator().manual_seed(13)
    bias = ((0, 2.0), (5, -100.0), (255, 7.0), (256, 7.5), (699, 6.5))
    plain = SamplingParams(100, temperature=0.7, top_k=10, ignore_eos=True)
    pair = Pair(device, VOCAB, slots=3, tile=256)
    pair.admit(0, plain)
    pair.admit(1, dataclasses.replace(plain, logit_bias=bias), on_cpu=plain)
    pair.admit(2, plain)
    drawn = set()
    for _ in range(4):
        logits = logits_of(rng, 3, 1.0)
        with_bias = logits.clone()
        for token, value in bias:
            with_bias[1, token] += value
        drawn.add(int(pair.step(logits, [0, 1, 2], on_cpu=with_bias)[0].tokens[0, 1]))
    assert drawn <= {0, 255, 256, 699}


def test_a_released_path_takes_its_bias_with_it(device: torch.device) -> None:
    pair = Pair(device, VOCAB, slots=1)
    greedy = SamplingParams(100, temperature=0.0, ignore_eos=True)
    pair.admit(0, dataclasses.replace(greedy, logit_bias=((9, 100.0),)), on_cpu=greedy)
    logits = logits_of(torch.Generator().manual_seed(14), 1)
    assert launch(pair.on_device, logits.to(device), [0]).tokens[0, 0] == 9
    pair.release(0)
    pair.admit(0, dataclasses.replace(greedy, presence_penalty=0.1))
    assert launch(pair.on_device, logits.to(device), [0]).tokens[0, 0] == logits[0].argmax()


def test_below_the_minimum_neither_the_close_nor_an_end_can_be_drawn(device: torch.device) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE,), min_tokens=3)
    pair = Pair(device, VOCAB, slots=2)
    params = SamplingParams(100, top_k=2, thinking=thinking, stop_ids=(600,))
    pair.admit(0, params, prompt=(7, OPEN))
    pair.admit(1, dataclasses.replace(params, ignore_eos=True), prompt=(7, OPEN))
    logits = torch.zeros(2, VOCAB)
    logits[:, [CLOSE, EOS, 600, 40, 41]] = torch.tensor([30.0, 29.0, 28.0, 10.0, 9.0])
    drawn = [pair.step(logits, [0, 1])[0].tokens[0].tolist() for _ in range(4)]
    assert [row[0] in (40, 41) for row in drawn] == [True, True, True, False]
    assert drawn[3][0] in (CLOSE, EOS)
    assert drawn[0][1] in (EOS, 40)  # an EOS that the path ignores ends nothing


def test_more_rows_than_are_shaped_at_once_are_done_in_turns(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = torch.Generator().manual_seed(15)
    for module in (workspace, sampler):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 2)
    pair = Pair(device, VOCAB, slots=5)
    pair.admit_all([SamplingParams(100, top_k=9, logprobs=0, ignore_eos=True)] * 5)
    pair.step(logits_of(rng, 5), [4, 1, 0, 3, 2])
    assert pair.on_device._work.scores.shape[0] == 2
