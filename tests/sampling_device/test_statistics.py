"""What a path is measured by, against the same figures written out in float64."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from engine.sampling.device.slots import Column
from engine.types import SamplingParams, Statistic, Thinking
from tests.sampling_device.pair import Pair, launch

VOCAB, OPEN, CLOSE = 700, 1, 2
MEASURED = SamplingParams(100, statistics=tuple(Statistic), window=3, ignore_eos=True)


class Written:
    """The statistics of one path, token by token."""

    def __init__(self, window: int) -> None:
        self.window, self.logprobs, self.confidences, self.lowest = window, 0.0, [], math.inf

    def step(self, logits: torch.Tensor, token: int, forced: bool) -> list[float]:
        logprobs = logits.double().log_softmax(0)
        entropy = -(logprobs.exp() * logprobs).nan_to_num(0.0).sum().item()
        if not forced:
            self.logprobs += logprobs[token].item()
            self.confidences.append(-logprobs.topk(min(20, len(logprobs))).values.mean().item())
        last = self.confidences[-self.window :]
        mean = sum(last) / len(last) if last else 0.0
        if len(last) == self.window and not forced:
            self.lowest = min(self.lowest, mean)
        return [self.logprobs, entropy, mean, self.lowest]


@pytest.mark.parametrize(
    ("vocab", "tile", "coarse"), [(700, 256, False), (700, 512, True), (2500, 1024, False), (12, 512, False)]
)
def test_figures_equal_those_written_out(device: torch.device, vocab: int, tile: int, coarse: bool) -> None:
    """coarse: many logits share a value, at the twentieth place, too. The flattest comes first: its confidence is the
    lowest, but belongs to no full window."""
    rng = torch.Generator().manual_seed(vocab)
    pair = Pair(device, vocab, slots=2, tile=tile)
    pair.admit_all([MEASURED, dataclasses.replace(MEASURED, temperature=0.5, top_p=0.9, window=2)])
    written = [Written(3), Written(2)]
    for spread in (0.1, 2.0, 9.0, 1.0):
        logits = torch.randn(2, vocab, generator=rng) * spread
        logits = logits.round() if coarse else logits
        result, _ = pair.step(logits, [0, 1])
        rows = [one.step(logits[i], int(result.tokens[0, i]), False) for i, one in enumerate(written)]
        torch.testing.assert_close(
            torch.from_numpy(result.statistics).double(), torch.tensor(rows).double(), rtol=1e-5, atol=1e-5
        )


def test_forced_tokens_have_an_entropy_and_nothing_else(device: torch.device) -> None:
    rng = torch.Generator().manual_seed(5)
    thinking = Thinking(OPEN, CLOSE, (CLOSE, 40), max_tokens=2)
    pair = Pair(device, VOCAB, slots=1)
    pair.admit(0, dataclasses.replace(MEASURED, thinking=thinking), prompt=(9, OPEN))
    written = Written(3)
    for turn in range(6):
        logits = torch.randn(1, VOCAB, generator=rng)
        logits[0, CLOSE] = -100.0
        result, wanted = pair.step(logits, [0])
        assert bool(wanted.forced[0]) == (turn in (2, 3))
        row = written.step(logits[0], int(result.tokens[0, 0]), bool(wanted.forced[0]))
        torch.testing.assert_close(
            torch.from_numpy(result.statistics), torch.tensor([row]), rtol=1e-5, atol=1e-5
        )


def test_a_path_that_stands_still_keeps_the_figures_of_its_last_token(device: torch.device) -> None:
    pair = Pair(device, VOCAB, slots=1)
    pair.admit(0, dataclasses.replace(MEASURED, max_tokens=2, temperature=0.0))
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(6))
    once = launch(pair.on_device, logits.to(device), [0], repeat=4)
    assert once.count.tolist() == [2]
    written = Written(3)
    rows = [written.step(logits[0], int(logits.argmax()), False) for _ in range(2)]
    torch.testing.assert_close(
        torch.from_numpy(once.statistics), torch.tensor(rows[-1:]), rtol=1e-5, atol=1e-5
    )


def test_a_short_window_reads_nothing_of_the_longer_one_of_the_owner_before(device: torch.device) -> None:
    pair = Pair(device, VOCAB, slots=1)
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(7))
    pair.admit(0, dataclasses.replace(MEASURED, window=50))
    launch(pair.on_device, logits.to(device), [0], repeat=5)
    pair.release(0)
    pair.admit(0, MEASURED)
    result = launch(pair.on_device, logits.to(device), [0], repeat=5)
    confidence = -logits.double().log_softmax(1).topk(20).values.mean().item()
    assert result.statistics[0, 2:].tolist() == pytest.approx([confidence] * 2, rel=1e-5)


def test_the_sum_of_many_log_probabilities_loses_nothing(device: torch.device) -> None:
    """A term far below the last place of the sum still counts: the sum of what follows is exact."""
    pair = Pair(device, VOCAB, slots=1)
    pair.admit(0, dataclasses.replace(MEASURED, temperature=0.0))
    floats = pair.on_device.state.view(torch.float32)
    floats[0, Column.LOGPROB_SUM] = -100_000.0
    logits = torch.zeros(1, VOCAB)
    logits[0, 7] = 14.0
    each = logits[0].double().log_softmax(0)[7].item()
    assert -0.001 < each < -1e-4
    for _ in range(5):
        launch(pair.on_device, logits.to(device), [0])
    lost = floats[0, Column.LOGPROB_LOST].item()
    found = floats[0, Column.LOGPROB_SUM].double().item() - lost
    assert found == pytest.approx(-100_000 + 5 * each, abs=1e-5)


def test_log_probabilities_equal_the_cpus(device: torch.device) -> None:
    rng = torch.Generator().manual_seed(8)
    pair = Pair(device, VOCAB, slots=3)
    pair.admit_all([SamplingParams(100, logprobs=20, top_p=p, ignore_eos=True) for p in (1.0, 0.9, 0.5)])
    for _ in range(2):
        result, wanted = pair.step(torch.randn(3, VOCAB, generator=rng) * 3, [2, 0, 1])
        torch.testing.assert_close(torch.from_numpy(result.logprobs[0]), wanted.logprob, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(
            torch.from_numpy(result.top_logprobs[0]), wanted.top_logprobs, rtol=1e-5, atol=1e-5
        )
        assert result.top_ids[0].tolist() == wanted.top_ids.tolist()
        assert result.statistics is None
