"""A path with every setting at once is the same path in any row of any step, and the one that is written out here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from engine.sampling import FinishCode, SamplerState, sample
from engine.types import Phase, SamplingParams, Statistic, Thinking
from tests.sampling.oracle import Oracle

VOCAB, OPEN, CLOSE, BREAK, EOS = 600, 1, 2, 3, 4
PROMPT = (7, 8, 9, OPEN)
STEPS = 40
WINDOW = 7

THINKING = Thinking(OPEN, CLOSE, (CLOSE, BREAK, BREAK), max_tokens=12, min_tokens=4, hold=True)
EVERYTHING = SamplingParams(
    60,
    temperature=0.8,
    repetition_penalty=1.2,
    presence_penalty=0.3,
    frequency_penalty=0.2,
    stop_ids=(11,),
    logprobs=3,
    logit_bias=((CLOSE, 6.0), (EOS, -100.0), (11, -100.0), (20, 2.5)),
    statistics=tuple(Statistic),
    window=WINDOW,
    thinking=THINKING,
)
OTHERS = (
    SamplingParams(500, top_p=0.9, logprobs=20),
    SamplingParams(500, temperature=0.0, logit_bias=((30, 5.0),), statistics=(Statistic.ENTROPY,), window=3),
    SamplingParams(500, top_k=5, min_p=0.1, frequency_penalty=1.0),
    SamplingParams(6, thinking=Thinking(OPEN, CLOSE, (CLOSE,))),
)


@dataclass
class Trace:
    """What a path committed, each step one entry."""

    tokens: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)
    finish: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    statistics: list[list[float]] = field(default_factory=list)


def logits_of(step: int, rows: int) -> torch.Tensor:
    """[rows, VOCAB]: the first row is the path's, the same for any number of rows."""
    own = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(step)) * (1 + step % 4)
    rest = torch.randn(rows - 1, VOCAB, generator=torch.Generator().manual_seed(1000 + step)) * 3
    return torch.cat((own, rest))


def trace(params: SamplingParams, row: int, rows: int) -> Trace:
    """The path's steps in this row of `rows`, and in a slot that has another number. Resumed where it is held, after
    the others have gone on without it."""
    state = SamplerState(rows + 2, VOCAB, "cpu", (EOS,))
    slot = rows + 1 - row
    state.admit(slot, params, 5, 3, PROMPT, Phase.THINKING)
    free = [each for each in range(rows + 2) if each != slot][: rows - 1]
    for index, other in enumerate(free):
        neighbour = OTHERS[index % len(OTHERS)]
        phase = Phase.ANSWER if neighbour.thinking is None else Phase.THINKING
        state.admit(other, neighbour, 5, 100 + index, PROMPT, phase)
    slots = torch.tensor([*free[:row], slot, *free[row:]])
    found = Trace()
    for step in range(STEPS):
        logits = logits_of(step, rows)
        logits = torch.cat((logits[1 : row + 1], logits[:1], logits[row + 1 :]))
        out = sample(state, logits, slots)
        found.tokens.append(int(out.tokens[row]))
        found.forced.append(bool(out.forced[row]))
        found.finish.append(int(out.finish[row]))
        found.logprobs.append(float(out.logprob[row]))
        found.statistics.append(out.statistics[row].tolist())
        if out.finish[row] == FinishCode.HELD:
            sample(state, logits.flip(0), slots)
            state.resume(slot)
    return found


PLACES = [(0, 32), (17, 32), (31, 32), (1, 2)]


@pytest.mark.parametrize(("row", "rows"), PLACES)
def test_a_path_is_the_same_alone_and_in_any_row(row: int, rows: int) -> None:
    """To the last bit, with its log-probabilities and statistics."""
    assert trace(EVERYTHING, row, rows) == trace(EVERYTHING, 0, 1)


class Written:
    """One path in float64: scores, race, budget, statistics."""

    def __init__(self, params: SamplingParams, state: SamplerState) -> None:
        self.params, self.state = params, state
        self.budget = Oracle(params, (EOS,), Phase.THINKING)
        self.generated: list[int] = []
        self.confidences: list[float] = []
        self.logprob_sum, self.lowest = 0.0, math.inf

    def scores(self, raw: np.ndarray) -> np.ndarray:
        scores, params = raw.copy(), self.params
        for token in {*PROMPT, *self.generated}:
            scores[token] *= params.repetition_penalty if scores[token] < 0 else 1 / params.repetition_penalty
        for token in set(self.generated):
            scores[token] -= params.presence_penalty + params.frequency_penalty * self.generated.count(token)
        for token, value in params.logit_bias:
            scores[token] += value
        scores[list(self.budget.blocked())] = -math.inf
        return scores / params.temperature

    def step(self, raw: np.ndarray) -> tuple[int, bool, FinishCode, list[float]]:
        place = torch.tensor([0]), torch.tensor([len(self.generated)])
        noise = self.state.noise.exponentials(*place)[0].double().numpy()
        token, forced, finish = self.budget.step(int((self.scores(raw) - noise).argmax()))
        self.generated.append(token)
        return token, forced, finish, self.measure(raw, token, forced)

    def measure(self, raw: np.ndarray, token: int, forced: bool) -> list[float]:
        logprobs = raw - raw.max()
        logprobs -= math.log(np.exp(logprobs).sum())
        if not forced:
            self.logprob_sum += logprobs[token]
            self.confidences.append(-np.sort(logprobs)[-20:].mean())
        last = self.confidences[-self.params.window :]
        mean = sum(last) / len(last) if last else 0.0
        if not forced and len(last) == self.params.window:
            self.lowest = min(self.lowest, mean)
        return [self.logprob_sum, -(np.exp(logprobs) * logprobs).sum(), mean, self.lowest]


@pytest.mark.parametrize("closes", ["by itself", "by force"])
def test_a_path_with_every_setting_equals_the_one_written_out(closes: str) -> None:
    bias = ((CLOSE, 6.0 if closes == "by itself" else -100.0), *EVERYTHING.logit_bias[1:])
    params = replace(EVERYTHING, logit_bias=bias)
    found = trace(params, 17, 32)
    names = SamplerState(1, VOCAB, "cpu", ())
    names.admit(0, params, 5, 3, PROMPT, Phase.THINKING)
    written = Written(params, names)
    for step in range(STEPS):
        token, forced, finish, statistics = written.step(logits_of(step, 1)[0].double().numpy())
        assert (found.tokens[step], found.forced[step], found.finish[step]) == (token, forced, finish)
        assert found.statistics[step] == pytest.approx(statistics, rel=1e-5, abs=1e-5)
    assert found.finish.count(FinishCode.HELD) == 1
    assert found.forced.count(True) == (3 if closes == "by force" else 0)
