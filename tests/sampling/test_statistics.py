"""What a path is measured by, against the same figures written out in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampling import FinishCode, SamplerState, sample
from engine.types import MAX_WINDOW, Phase, SamplingParams, Statistic, Thinking
from tests.sampling.conftest import MakeState

VOCAB = 50
OPEN, CLOSE, BREAK = 1, 2, 3
MEASURED = SamplingParams(max_tokens=10**6, statistics=tuple(Statistic), window=3)


def logprobs_of(logits: torch.Tensor) -> np.ndarray:
    exact = logits.double().numpy()
    shifted = exact - exact.max()
    return shifted - np.log(np.exp(shifted).sum())


@dataclass
class Written:
    """The statistics of one path, token by token."""

    window: int
    logprobs: list[float] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)

    def step(self, logits: torch.Tensor, token: int, forced: bool) -> list[float]:
        logprobs = logprobs_of(logits)
        if not forced:
            self.logprobs.append(logprobs[token])
            self.confidences.append(-np.sort(logprobs)[-20:].mean())
        entropy = -sum(math.exp(each) * each for each in logprobs if each > -math.inf)
        last = self.confidences[-self.window :]
        return [sum(self.logprobs), entropy, sum(last) / max(len(last), 1), self.lowest()]

    def lowest(self) -> float:
        ends = range(self.window, len(self.confidences) + 1)
        means = [np.mean(self.confidences[end - self.window : end]) for end in ends]
        return min(means, default=math.inf)


def agree(found: torch.Tensor, expected: list[list[float]]) -> None:
    assert found.dtype == torch.float32
    wanted = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(
    windows=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    vocab=st.sampled_from([VOCAB, 20, 7]),
    spread=st.sampled_from([0.1, 2.0, 15.0]),
    seed=st.integers(0, 10**6),
)
def test_figures_equal_those_written_out(windows: list[int], vocab: int, spread: float, seed: int) -> None:
    """Across the first full window and on, in any order of the rows, some of them absent for a step."""
    rng = torch.Generator().manual_seed(seed)
    state = SamplerState(len(windows), vocab, "cpu", ())
    for slot, window in enumerate(windows):
        shape = {"temperature": 0.4, "top_k": 3, "logit_bias": ((0, 5.0),)} if slot % 2 else {}
        state.admit(slot, replace(MEASURED, window=window, **shape), seed, slot, [0], Phase.ANSWER)
    written = [Written(window) for window in windows]
    for _ in range(30):
        slots = torch.randperm(len(windows), generator=rng)[: int(torch.randint(1, 5, (), generator=rng))]
        logits = torch.randn(len(slots), vocab, generator=rng) * spread
        out = sample(state, logits, slots)
        expected = [
            written[slot].step(logits[row], int(out.tokens[row]), False)
            for row, slot in enumerate(slots.tolist())
        ]
        agree(out.statistics, expected)


def test_the_lowest_confidence_is_infinite_until_a_window_is_full(make_state: MakeState) -> None:
    state = make_state([MEASURED], VOCAB)
    flat = torch.zeros(1, VOCAB)
    lowest = [float(sample(state, flat, torch.tensor([0])).statistics[0, 3]) for _ in range(4)]
    assert lowest == pytest.approx([math.inf, math.inf, math.log(VOCAB), math.log(VOCAB)])


def test_a_low_window_is_remembered_when_it_has_passed(make_state: MakeState, rng: torch.Generator) -> None:
    state = make_state([MEASURED], VOCAB)
    flat, sharp = torch.zeros(1, VOCAB), torch.zeros(1, VOCAB)
    sharp[0, 4] = 30.0
    for logits in (sharp, flat, flat, flat, sharp, sharp, sharp):
        found = sample(state, logits, torch.tensor([0])).statistics[0].tolist()
    assert found[3] == pytest.approx(math.log(VOCAB))
    assert found[2] == pytest.approx(-logprobs_of(sharp[0])[np.argsort(logprobs_of(sharp[0]))[-20:]].mean())
    assert found[2] > found[3] + 10


def test_forced_tokens_leave_an_entropy_and_nothing_else(make_state: MakeState, rng: torch.Generator) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, BREAK, BREAK), max_tokens=2)
    state = make_state([replace(MEASURED, thinking=thinking)], VOCAB, phase=Phase.THINKING)
    written = Written(3)
    for turn in range(8):
        logits = torch.randn(1, VOCAB, generator=rng)
        logits[0, [OPEN, CLOSE]] = -100.0
        out = sample(state, logits, torch.tensor([0]))
        assert bool(out.forced) == (turn in (2, 3, 4))
        agree(out.statistics, [written.step(logits[0], int(out.tokens), bool(out.forced))])


def test_a_path_that_begins_with_a_forced_close_has_no_confidence_yet(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE,), max_tokens=0)
    state = make_state([replace(MEASURED, thinking=thinking)], VOCAB, phase=Phase.THINKING)
    out = sample(state, torch.zeros(1, VOCAB), torch.tensor([0]))
    agree(out.statistics, [[0.0, math.log(VOCAB), 0.0, math.inf]])


def test_twenty_more_steps_change_nothing_of_a_held_path(make_state: MakeState, rng: torch.Generator) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE,), hold=True)
    params = replace(MEASURED, temperature=0.0, thinking=thinking)
    state, written = make_state([params], VOCAB, phase=Phase.THINKING), Written(3)
    closing = torch.zeros(1, VOCAB)
    closing[0, CLOSE] = 5.0
    for logits in (torch.randn(1, VOCAB, generator=rng).index_fill_(1, torch.tensor([CLOSE]), -9.0), closing):
        out = sample(state, logits, torch.tensor([0]))
        told = written.step(logits[0], int(out.tokens), False)
    assert out.finish == FinishCode.HELD
    agree(out.statistics, [told])
    before = state.statistics.totals.clone(), state.statistics.ring.clone()
    for _ in range(20):
        out = sample(state, torch.randn(1, VOCAB, generator=rng), torch.tensor([0]))
    assert torch.equal(state.statistics.totals, before[0])
    assert torch.equal(state.statistics.ring, before[1])
    state.resume(0)
    logits = torch.randn(1, VOCAB, generator=rng)
    out = sample(state, logits, torch.tensor([0]))
    agree(out.statistics, [written.step(logits[0], int(out.tokens), False)])


@pytest.mark.parametrize("vocab", [VOCAB, 40_001])
def test_a_rows_figures_have_the_same_bits_in_any_batch(
    vocab: int, make_state: MakeState, rng: torch.Generator
) -> None:
    """Alone, and beside rows that ask for something else; with more than one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        others = [replace(MEASURED, statistics=(), logprobs=20), replace(MEASURED, window=MAX_WINDOW)]
        alone = [make_state([MEASURED] * 5, vocab) for _ in range(5)]
        mixed = make_state([MEASURED] * 5 + others, vocab)
        for _ in range(5):
            logits = torch.randn(7, vocab, generator=rng) * 3
            order = torch.randperm(7, generator=rng)
            found = sample(mixed, logits[order], order).statistics
            for row in range(5):
                single = sample(alone[row], logits[row : row + 1], torch.tensor([row])).statistics
                assert torch.equal(found[order == row], single)
    finally:
        torch.set_num_threads(threads)


def test_the_longest_window(make_state: MakeState) -> None:
    """Full with its last token, and the first one leaves it with the next."""
    state = make_state([replace(MEASURED, window=MAX_WINDOW)], 20)
    slots = torch.tensor([0])
    other = torch.arange(20.0)[None]
    first = sample(state, other, slots).statistics[0].tolist()
    confidence = -logprobs_of(other[0]).mean()
    assert first[2] == pytest.approx(confidence)
    flat = torch.zeros(1, 20)
    for _ in range(MAX_WINDOW - 1):
        found = sample(state, flat, slots).statistics[0].tolist()
    whole = (confidence + (MAX_WINDOW - 1) * math.log(20)) / MAX_WINDOW
    assert found[2:] == pytest.approx([whole, whole], rel=1e-6)
    found = sample(state, flat, slots).statistics[0].tolist()
    assert found[2:] == pytest.approx([math.log(20)] * 2, rel=1e-6)
    assert found[0] == pytest.approx(first[0] - MAX_WINDOW * math.log(20), rel=1e-6)


def test_the_next_owner_of_a_slot_starts_anew(make_state: MakeState, rng: torch.Generator) -> None:
    state = make_state([replace(MEASURED, window=40)], VOCAB)
    for _ in range(30):
        sample(state, torch.randn(1, VOCAB, generator=rng) * 9, torch.tensor([0]))
    state.release(0)
    state.admit(0, MEASURED, 0, 0, [0], Phase.ANSWER)
    written = Written(3)
    for _ in range(5):
        logits = torch.randn(1, VOCAB, generator=rng)
        out = sample(state, logits, torch.tensor([0]))
        agree(out.statistics, [written.step(logits[0], int(out.tokens), False)])


def test_nothing_is_kept_or_computed_until_a_path_asks(make_state: MakeState) -> None:
    plain = replace(MEASURED, statistics=())
    state = make_state([plain], VOCAB, slots=2)
    assert sample(state, torch.zeros(1, VOCAB), torch.tensor([0])).statistics.shape == (0, 4)
    assert state.statistics.ring.numel() == 0
    state.admit(1, replace(plain, statistics=(Statistic.ENTROPY,)), 0, 1, [0], Phase.ANSWER)
    out = sample(state, torch.zeros(2, VOCAB), torch.arange(2))
    assert float(out.statistics[1, 1]) == pytest.approx(math.log(VOCAB))
    assert out.top_ids.shape == (2, 0)
    state.release(1)
    assert not state.needs.statistics


def test_a_token_that_cannot_occur_has_no_part_in_the_entropy(make_state: MakeState) -> None:
    logits = torch.zeros(1, VOCAB)
    logits[0, 25:] = -math.inf
    out = sample(make_state([MEASURED], VOCAB), logits, torch.tensor([0]))
    assert float(out.statistics[0, 1]) == pytest.approx(math.log(25))
