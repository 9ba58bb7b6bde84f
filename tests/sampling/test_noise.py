"""The noise is uniform, keyed by (seed, index, position, token) alone, and draws from softmax."""

from __future__ import annotations

import math

import pytest
import torch

from engine.sampling import SamplerState, sample
from engine.sampling.gumbel import Noise
from engine.sampling.hashing import path_key
from engine.types import Phase, SamplingParams
from tests.sampling.conftest import MakeState

FREE = SamplingParams(max_tokens=10**9)


def chi_square(counts: torch.Tensor, probabilities: torch.Tensor) -> float:
    """Standard deviations above its mean of the chi-square statistic; cells under 5 expected are pooled."""
    expected = probabilities.double() * counts.sum()
    small = expected < 5
    assert counts[probabilities == 0].sum() == 0
    observed = torch.cat((counts[~small].double(), counts[small].sum()[None].double()))
    expected = torch.cat((expected[~small], expected[small].sum()[None]))
    observed, expected = observed[expected > 0], expected[expected > 0]
    degrees = len(expected) - 1
    return float(((observed - expected) ** 2 / expected).sum() - degrees) / math.sqrt(2 * degrees)


def draw_counts(state: SamplerState, logits: torch.Tensor, rows: int, steps: int) -> torch.Tensor:
    batch, slots = logits.expand(rows, -1), torch.arange(rows)
    tokens = torch.stack([sample(state, batch, slots).tokens for _ in range(steps)])
    return torch.bincount(tokens.flatten(), minlength=logits.shape[-1])


SHAPES = [
    {},
    {"temperature": 0.6},
    {"top_k": 7},
    {"top_p": 0.8},
    {"min_p": 0.2},
    {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
]


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_draws_follow_the_softmax_of_the_shaped_scores(
    settings: dict[str, float], make_state: MakeState, rng: torch.Generator
) -> None:
    params = SamplingParams(max_tokens=10**9, **settings)  # type: ignore[arg-type]
    logits = torch.randn(50, generator=rng) * 2
    state = make_state([params] * 64, 50)
    scores = logits[None] / params.temperature
    if state.needs.filter_width:
        scores = state.filters.apply(
            scores, torch.zeros(1, dtype=torch.int64), state.needs.filter_width, state.needs.nucleus
        )
    counts = draw_counts(state, logits, 64, 600)
    assert abs(chi_square(counts, scores.softmax(1)[0])) < 4.5


def test_rare_tokens_are_drawn_as_often_as_they_should_be(make_state: MakeState) -> None:
    """256 tokens of probability about 4e-6 each beside a dominant one: the far tail of the noise."""
    logits = torch.zeros(257)
    logits[0] = math.log(256 * 1000)
    counts = draw_counts(make_state([FREE] * 512, 257), logits, 512, 400)
    rare, expected = int(counts[1:].sum()), 512 * 400 / 1001
    assert abs(rare - expected) < 5 * math.sqrt(expected)


def test_words_are_uniform_and_uncorrelated() -> None:
    noise = Noise(64, 4096, torch.device("cpu"))
    for slot in range(64):
        noise.admit(slot, seed=3, index=slot)
    slots = torch.arange(64)
    first = noise.exponentials(slots, torch.zeros(64, dtype=torch.int64)).exp().double()
    second = noise.exponentials(slots, torch.ones(64, dtype=torch.int64)).exp().double()
    uniform = 1 - (-first).exp()
    bins = torch.histc(uniform.float(), 256, 0, 1)
    assert abs(chi_square(bins, torch.full((256,), 1 / 256))) < 4.5
    bound = 5 / math.sqrt(first.numel())
    for a, b in ((first, second), (first[:-1], first[1:]), (first[:, :-1], first[:, 1:])):
        assert abs(float(torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1])) < bound
    assert abs(float(first.mean()) - 1) < bound


def test_noise_is_finite_at_both_ends_of_the_words() -> None:
    noise = Noise(1, 8, torch.device("cpu"))
    words = torch.tensor([[0, 1, -1, -128, 2**31 - 1, -(2**31)]], dtype=torch.int32)
    log_e = noise._log_exponential(words)[0].double()
    assert log_e.isfinite().all()
    assert log_e[0].exp().item() == pytest.approx(2.0**-33, rel=1e-5)
    assert log_e[1].exp().item() == pytest.approx(1.5 * 2.0**-32, rel=1e-5)


@pytest.mark.parametrize("vocab", [7, 448, 449, 5003, 70_001])
def test_a_rows_noise_has_the_same_bits_in_any_batch(vocab: int) -> None:
    noise = Noise(33, vocab, torch.device("cpu"))
    for slot in range(33):
        noise.admit(slot, seed=5, index=slot)
    positions = torch.arange(33) * 977
    whole = noise.exponentials(torch.arange(33), positions)
    for slots in ([0], [32], [3, 1, 2], list(range(32, -1, -1)), [16, 8], list(range(17))):
        rows = torch.tensor(slots)
        assert torch.equal(noise.exponentials(rows, positions[rows]), whole[rows])


@pytest.mark.parametrize("vocab", [448, 20_011])
@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_a_rows_tokens_are_the_same_in_any_batch(
    vocab: int, settings: dict[str, float], make_state: MakeState, rng: torch.Generator
) -> None:
    """Alone, in any row, beside rows that need parts of the sampler which it does not."""
    params = SamplingParams(max_tokens=10**9, **settings)  # type: ignore[arg-type]
    others = [
        SamplingParams(max_tokens=10**9, temperature=0.0, repetition_penalty=1.3),
        SamplingParams(max_tokens=10**9, top_p=0.5, logprobs=3),
        SamplingParams(max_tokens=10**9, top_k=2),
    ]
    logits = torch.randn(9, vocab, generator=rng) * 3
    alone, mixed = make_state([params] * 9, vocab), make_state([params] * 9 + others, vocab)
    for step in range(3):
        expected = [int(sample(alone, logits[i : i + 1], torch.tensor([i])).tokens) for i in range(9)]
        order = torch.randperm(12, generator=rng)
        batch = torch.cat((logits, logits[:3]))[order]
        tokens = sample(mixed, batch, order).tokens
        assert [int(tokens[order == i]) for i in range(9)] == expected, step


def test_blocks_of_a_large_vocabulary_agree_with_one_pass(rng: torch.Generator) -> None:
    vocab = 150_001
    noise = Noise(4, vocab, torch.device("cpu"))
    for slot in range(4):
        noise.admit(slot, seed=9, index=slot)
    slots, positions = torch.arange(4), torch.tensor([0, 5, 10**6, 3])
    scores = torch.randn(4, vocab, generator=rng)
    expected = (scores - noise.exponentials(slots, positions)).argmax(1)
    assert torch.equal(noise.draw(scores, slots, positions, None), expected)
    many = noise.draw(scores.repeat(8, 1), slots.repeat(8), positions.repeat(8), None)
    assert torch.equal(many, expected.repeat(8))
    ties = torch.zeros(4, vocab)
    assert torch.equal(
        noise.draw(ties, slots, positions, torch.zeros(4, 1)), torch.zeros(4, dtype=torch.int64)
    )


def test_seed_index_and_position_each_change_the_noise() -> None:
    assert len({path_key(seed, index) for seed in range(200) for index in range(200)}) == 200 * 200
    noise = Noise(3, 1000, torch.device("cpu"))
    for slot, (seed, index) in enumerate([(1, 0), (1, 1), (2, 0)]):
        noise.admit(slot, seed, index)
    slots = torch.tensor([0, 1, 2, 0])
    rows = noise.exponentials(slots, torch.tensor([0, 0, 0, 1]))
    for a in range(4):
        for b in range(a):
            assert (rows[a] == rows[b]).sum() <= 1
    noise.admit(1, 1, 0)
    again = noise.exponentials(torch.tensor([1]), torch.tensor([0]))
    assert torch.equal(again[0], rows[0])


def test_siblings_diverge_at_once_on_flat_logits(make_state: MakeState) -> None:
    state = make_state([FREE] * 16, 448)
    steps = [sample(state, torch.zeros(16, 448), torch.arange(16)).tokens for _ in range(8)]
    paths = torch.stack(steps, 1).tolist()
    for a in range(16):
        for b in range(a):
            assert paths[a][:4] != paths[b][:4]


def test_temperature_zero_is_the_argmax_even_beside_random_rows(
    make_state: MakeState, rng: torch.Generator
) -> None:
    greedy = SamplingParams(max_tokens=100, temperature=0.0)
    logits = torch.randn(4, 300, generator=rng)
    expected = logits.argmax(1)
    assert torch.equal(sample(make_state([greedy] * 4, 300), logits, torch.arange(4)).tokens, expected)
    tokens = sample(make_state([greedy, FREE, greedy, FREE], 300), logits * 1e-3, torch.arange(4)).tokens
    assert tokens[[0, 2]].tolist() == expected[[0, 2]].tolist()


def test_bfloat16_logits_are_read_exactly_and_left_alone(make_state: MakeState, rng: torch.Generator) -> None:
    params = SamplingParams(max_tokens=9, temperature=0.7, top_k=5, repetition_penalty=1.2)
    logits = (torch.randn(2, 64, generator=rng) * 4).bfloat16()
    kept = logits.clone()
    low = sample(make_state([params] * 2, 64), logits, torch.arange(2)).tokens
    high = sample(make_state([params] * 2, 64), logits.float(), torch.arange(2)).tokens
    assert torch.equal(low, high)
    assert torch.equal(logits, kept)


def test_a_slot_can_be_used_again_and_flags_follow(make_state: MakeState) -> None:
    state = make_state([SamplingParams(max_tokens=5, top_p=0.5, logprobs=2, temperature=0.3)], 32)
    assert (state.needs.filter_width, state.needs.top_logprobs, state.needs.temperature) == (32, 2, True)
    with pytest.raises(ValueError, match="taken"):
        state.admit(0, FREE, 0, 0, [1], Phase.UNDECIDED)
    state.release(0)
    assert not state.needs.filter_width
    state.admit(0, FREE, 0, 0, [1], Phase.UNDECIDED)
    assert state.needs.noise
    assert not (state.needs.logprobs)
    assert not (state.needs.nucleus)
    assert not (state.needs.temperature)
