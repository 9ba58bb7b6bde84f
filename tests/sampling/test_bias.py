"""The bias equals a sum written out in float64, behind the penalties and ahead of everything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidParameter
from engine.sampling import SamplerState, check_ids, sample
from engine.types import MAX_BIAS, Phase, SamplingParams, Thinking
from tests.sampling.conftest import MakeState

VOCAB = 40
OPEN, CLOSE, EOS = 1, 2, 3
GREEDY = SamplingParams(max_tokens=1000, temperature=0.0)

biases = st.dictionaries(
    st.integers(0, VOCAB - 1), st.floats(-100, 100, allow_nan=False, width=32), max_size=VOCAB
)


def written(logits: torch.Tensor, generated: list[int], params: SamplingParams) -> np.ndarray:
    """float64 [vocab]: the scores of one path before its temperature."""
    scores = logits.double().numpy().copy()
    for token in range(VOCAB):
        if params.repetition_penalty != 1 and token in generated:
            factor = params.repetition_penalty
            scores[token] *= factor if scores[token] < 0 else 1 / factor
        scores[token] -= params.frequency_penalty * generated.count(token)
    for token, value in params.logit_bias:
        scores[token] += value
    return scores


@settings(deadline=None, max_examples=80)
@given(each=st.lists(biases, min_size=1, max_size=4), seed=st.integers(0, 10**6), penalised=st.booleans())
def test_greedy_paths_take_the_best_of_the_sum(
    each: list[dict[int, float]], seed: int, penalised: bool
) -> None:
    rng = torch.Generator().manual_seed(seed)
    base = replace(GREEDY, repetition_penalty=1.4, frequency_penalty=0.3) if penalised else GREEDY
    params = [replace(base, logit_bias=tuple(bias.items())) for bias in each]
    state = SamplerState(len(params), VOCAB, "cpu", ())
    for slot, one in enumerate(params):
        state.admit(slot, one, 0, slot, [], Phase.ANSWER)
    generated: list[list[int]] = [[] for _ in params]
    for _ in range(4):
        logits = torch.randn(len(params), VOCAB, generator=rng) * 20
        tokens = sample(state, logits, torch.arange(len(params))).tokens.tolist()
        for row, token in enumerate(tokens):
            scores = written(logits[row], generated[row], params[row])
            assert scores[token] >= scores.max() - 1e-4
            generated[row].append(token)


def test_a_biased_path_draws_what_it_would_draw_from_logits_that_have_the_bias(
    make_state: MakeState, rng: torch.Generator
) -> None:
    """Temperature and filters come behind it. Its neighbours keep their tokens."""
    plain = SamplingParams(1000, temperature=0.7, top_k=10, top_p=0.95)
    bias = ((0, 2.0), (5, -100.0), (17, 1.5), (39, 0.25))
    biased = make_state([plain, replace(plain, logit_bias=bias), plain], VOCAB)
    apart = make_state([plain] * 3, VOCAB)
    for _ in range(40):
        logits = torch.randn(3, VOCAB, generator=rng)
        with_bias = logits.clone()
        for token, value in bias:
            with_bias[1, token] += value
        order = torch.randperm(3, generator=rng)
        tokens = sample(biased, logits[order], order).tokens
        assert torch.equal(tokens, sample(apart, with_bias[order], order).tokens)


def test_rows_without_a_bias_keep_every_bit_of_their_logits(make_state: MakeState) -> None:
    state = make_state([GREEDY, replace(GREEDY, logit_bias=((7, 1.0), (8, 2.0)))], VOCAB)
    logits = torch.full((2, VOCAB), -0.0)
    kept = logits.clone()
    scores = state.bias.apply(logits, torch.arange(2))
    assert torch.equal(scores[0].view(torch.int32), logits[0].view(torch.int32))
    assert scores[1, 6:10].tolist() == [0.0, 1.0, 2.0, 0.0]
    assert torch.equal(logits.view(torch.int32), kept.view(torch.int32))


def test_the_log_probabilities_are_those_before_the_bias(make_state: MakeState, rng: torch.Generator) -> None:
    state = make_state([replace(GREEDY, logprobs=0, logit_bias=((9, 100.0),))], VOCAB)
    logits = torch.randn(1, VOCAB, generator=rng)
    out = sample(state, logits, torch.tensor([0]))
    assert out.tokens.tolist() == [9]
    torch.testing.assert_close(out.logprob, logits.log_softmax(1)[:, 9])


def test_a_bias_cannot_weaken_the_minimum_of_thinking_nor_a_forced_close(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE,), max_tokens=3, min_tokens=2)
    bias = ((CLOSE, 100.0), (EOS, 99.0), (9, 98.0))
    params = replace(GREEDY, thinking=thinking, logit_bias=bias)
    state = make_state([params], VOCAB, eos_ids=(EOS,), phase=Phase.THINKING)
    logits = torch.zeros(1, VOCAB)
    assert [int(sample(state, logits, torch.tensor([0])).tokens) for _ in range(3)] == [9, 9, CLOSE]
    params = replace(params, logit_bias=((CLOSE, -100.0), (9, 1.0)))
    state = make_state([params], VOCAB, phase=Phase.THINKING)
    assert [int(sample(state, logits, torch.tensor([0])).tokens) for _ in range(4)] == [9, 9, 9, CLOSE]


def test_the_next_owner_of_a_slot_starts_without_the_bias(make_state: MakeState) -> None:
    state = make_state([replace(GREEDY, logit_bias=((9, 100.0), (8, 50.0)))], VOCAB, slots=2)
    logits = torch.zeros(1, VOCAB)
    logits[0, 5] = 1.0
    assert state.needs.bias
    assert sample(state, logits, torch.tensor([0])).tokens.tolist() == [9]
    state.release(0)
    assert not state.needs.bias
    state.admit(0, GREEDY, 0, 0, [], Phase.ANSWER)
    state.admit(1, replace(GREEDY, logit_bias=((6, 3.0),)), 0, 1, [], Phase.ANSWER)
    assert sample(state, logits.repeat(2, 1), torch.arange(2)).tokens.tolist() == [5, 6]


def test_the_longest_bias_that_is_allowed(make_state: MakeState) -> None:
    pairs = tuple((token, -100.0) for token in range(MAX_BIAS))
    state = make_state([replace(GREEDY, logit_bias=pairs), GREEDY], MAX_BIAS + 3)
    logits = torch.zeros(2, MAX_BIAS + 3)
    assert sample(state, logits, torch.arange(2)).tokens.tolist() == [MAX_BIAS, 0]


@pytest.mark.parametrize("token", [-1, VOCAB])
def test_a_token_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(InvalidParameter, match=r"logit_bias: token .* is outside the vocabulary"):
        check_ids(replace(GREEDY, logit_bias=((4, 1.0), (token, 1.0))), VOCAB)
