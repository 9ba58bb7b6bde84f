"""Log-probabilities are of the raw distribution, whatever shapes the draw."""

from __future__ import annotations

import torch

from engine.sampling import sample
from engine.types import Phase, SamplingParams, Thinking
from tests.sampling.conftest import MakeState


def test_logprobs_equal_log_softmax_of_the_raw_logits(make_state: MakeState, rng: torch.Generator) -> None:
    params = SamplingParams(max_tokens=99, temperature=0.5, top_k=3, presence_penalty=1.0, logprobs=4)
    state = make_state([params, SamplingParams(max_tokens=99, logprobs=2)], 70)
    total, expected = torch.zeros(2), torch.zeros(2, dtype=torch.float64)
    for _ in range(20):
        logits = torch.randn(2, 70, generator=rng) * 3
        out = sample(state, logits, torch.arange(2))
        exact = logits.double().log_softmax(1)
        total += out.logprob
        expected += exact.gather(1, out.tokens[:, None])[:, 0]
        best = exact.topk(4, dim=1)
        assert torch.equal(out.top_ids, best.indices)
        torch.testing.assert_close(out.top_logprobs.double(), best.values, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(total.double(), expected, rtol=1e-5, atol=1e-4)


def test_a_forced_token_has_its_own_logprob(make_state: MakeState, rng: torch.Generator) -> None:
    thinking = Thinking(open_id=1, close_id=2, close_ids=(2,), max_tokens=0)
    params = SamplingParams(max_tokens=50, logprobs=0, thinking=thinking)
    logits = torch.randn(1, 30, generator=rng)
    out = sample(make_state([params], 30, phase=Phase.THINKING), logits, torch.tensor([0]))
    assert out.tokens.tolist() == [2]
    torch.testing.assert_close(out.logprob, logits.log_softmax(1)[:, 2])
    assert out.top_ids.shape == (1, 0)


def test_nothing_is_computed_that_nobody_asks_for(make_state: MakeState) -> None:
    out = sample(make_state([SamplingParams(max_tokens=5)], 30), torch.zeros(1, 30), torch.tensor([0]))
    assert out.logprob.shape == (0,)
    assert out.top_ids.shape == out.top_logprobs.shape == (0, 0)
