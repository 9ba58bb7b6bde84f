"""Penalties equal Hugging Face's and OpenAI's formulas, with counts that only ever grow by one cell a row."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

from engine.sampling import SamplerState, sample
from engine.types import Phase, SamplingParams, Thinking
from tests.sampling.conftest import MakeState

VOCAB = 40
GREEDY = SamplingParams(max_tokens=1000, temperature=0.0)


def reference(
    logits: torch.Tensor, prompt: list[int], generated: list[int], params: SamplingParams
) -> torch.Tensor:
    ids = torch.tensor([prompt + generated])
    if params.repetition_penalty != 1:
        logits = RepetitionPenaltyLogitsProcessor(params.repetition_penalty)(ids, logits[None])[0]
    counts = torch.bincount(torch.tensor(generated, dtype=torch.int64), minlength=VOCAB)
    return logits - params.presence_penalty * (counts > 0) - params.frequency_penalty * counts


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12),
    repetition=st.sampled_from([1.0, 0.8, 1.3]),
    presence=st.sampled_from([0.0, 0.7, -0.5]),
    frequency=st.sampled_from([0.0, 0.4, -0.2]),
)
def test_greedy_paths_equal_a_recount_of_the_whole_history(
    seed: int, prompt: list[int], repetition: float, presence: float, frequency: float
) -> None:
    params = SamplingParams(
        max_tokens=1000,
        temperature=0.0,
        repetition_penalty=repetition,
        presence_penalty=presence,
        frequency_penalty=frequency,
    )
    state = SamplerState(3, VOCAB, "cpu", ())
    state.admit(2, params, 0, 0, prompt, Phase.ANSWER)
    state.admit(1, GREEDY, 0, 1, prompt, Phase.ANSWER)
    rng, generated = torch.Generator().manual_seed(seed), []
    base = torch.randn(VOCAB, generator=rng)
    for _ in range(15):
        logits = base + torch.randn(VOCAB, generator=rng) * 0.2
        expected = reference(logits, prompt, generated, params)
        if state.needs.penalties:
            found = state.penalties.apply(logits[None], torch.tensor([2]))[0]
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
        tokens = sample(state, torch.stack((logits, logits)), torch.tensor([1, 2])).tokens.tolist()
        assert tokens[0] == int(logits.argmax())
        assert float(expected[tokens[1]]) >= float(expected.max()) - 1e-5
        generated.append(tokens[1])


def test_neutral_rows_keep_every_bit_of_their_logits(make_state: MakeState, rng: torch.Generator) -> None:
    state = make_state([GREEDY, SamplingParams(max_tokens=9, repetition_penalty=1.5)], VOCAB)
    logits = torch.randn(2, VOCAB, generator=rng)
    for _ in range(3):
        sample(state, logits, torch.arange(2))
    assert torch.equal(state.penalties.apply(logits, torch.arange(2))[0], logits[0])


def test_storage_is_allocated_by_the_first_penalised_path_and_cleared_for_the_next(
    make_state: MakeState,
) -> None:
    state = make_state([GREEDY], VOCAB, slots=2)
    assert state.penalties.generated.numel() == 0
    params = SamplingParams(max_tokens=9, frequency_penalty=1.0, repetition_penalty=1.1)
    state.admit(1, params, 0, 0, [5, 6], Phase.ANSWER)
    sample(state, torch.zeros(1, VOCAB), torch.tensor([1]))
    assert state.penalties.generated[1].sum() == 1
    assert state.penalties.in_prompt[1].nonzero().flatten().tolist() == [5, 6]
    state.release(1)
    assert not state.needs.penalties
    state.admit(1, params, 0, 0, [7], Phase.ANSWER)
    assert state.penalties.generated[1].sum() == 0
    assert state.penalties.in_prompt[1].nonzero().flatten().tolist() == [7]


def test_forced_tokens_are_counted(make_state: MakeState) -> None:
    thinking = Thinking(open_id=1, close_id=2, close_ids=(2, 3, 3), max_tokens=0)
    params = SamplingParams(max_tokens=50, frequency_penalty=1.0, thinking=thinking)
    state = make_state([params], VOCAB, phase=Phase.THINKING)
    for _ in range(3):
        assert bool(sample(state, torch.randn(1, VOCAB), torch.tensor([0])).forced)
    assert state.penalties.generated[0, :5].tolist() == [0, 0, 1, 2, 0]
