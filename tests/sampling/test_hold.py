"""Slots that stand still: of a path that is held behind its thinking, and of one that has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.sampling import FinishCode, SamplerState, sample
from engine.types import Phase, SamplingParams, Thinking
from tests.sampling.conftest import MakeState

VOCAB = 12
OPEN, CLOSE, BREAK, EOS = 1, 2, 3, 4
HOLDING = Thinking(OPEN, CLOSE, (CLOSE,), hold=True)
FORCED = Thinking(OPEN, CLOSE, (CLOSE, BREAK, BREAK), max_tokens=2, hold=True)
GREEDY = SamplingParams(max_tokens=30, temperature=0.0, thinking=HOLDING)


def step(state: SamplerState, token: int, slot: int = 0) -> tuple[int, FinishCode]:
    """(committed token, what became of the path) where the model wants `token`."""
    logits = torch.zeros(1, VOCAB)
    logits[0, token] = 100.0
    out = sample(state, logits, torch.tensor([slot]))
    return int(out.tokens), FinishCode(int(out.finish))


def steps(state: SamplerState, *wanted: int) -> list[tuple[int, FinishCode]]:
    return [step(state, token) for token in wanted]


def running(*tokens: int) -> list[tuple[int, FinishCode]]:
    return [(token, FinishCode.RUNNING) for token in tokens]


def everything(state: SamplerState) -> list[torch.Tensor]:
    """All that a step may change."""
    changing = (state.counters, state.limits, state.penalties.generated, state.penalties.in_prompt)
    return [tensor.clone() for tensor in changing]


def test_a_path_is_held_with_its_own_close_and_goes_on_when_resumed(make_state: MakeState) -> None:
    state = make_state([GREEDY], VOCAB, phase=Phase.THINKING)
    assert steps(state, 9, 7, CLOSE) == [*running(9, 7), (CLOSE, FinishCode.HELD)]
    state.resume(0)
    assert steps(state, 9, CLOSE, OPEN, CLOSE) == running(9, CLOSE, OPEN, CLOSE)


def test_a_forced_close_holds_with_its_last_token(make_state: MakeState) -> None:
    state = make_state([replace(GREEDY, thinking=FORCED)], VOCAB, phase=Phase.THINKING)
    assert steps(state, *[9] * 5) == [*running(9, 9, CLOSE, BREAK), (BREAK, FinishCode.HELD)]
    state.resume(0)
    assert step(state, 9) == (9, FinishCode.RUNNING)


def test_a_natural_close_holds_at_once_though_a_forced_one_has_text_behind_it(make_state: MakeState) -> None:
    state = make_state([replace(GREEDY, thinking=FORCED)], VOCAB, phase=Phase.THINKING)
    assert steps(state, 9, CLOSE) == [*running(9), (CLOSE, FinishCode.HELD)]


def test_a_close_on_request_holds(make_state: MakeState) -> None:
    state = make_state([GREEDY], VOCAB, phase=Phase.THINKING)
    step(state, 9)
    state.request_close(0)
    assert step(state, 9) == (CLOSE, FinishCode.HELD)


def test_below_the_minimum_of_thinking_nothing_is_held(make_state: MakeState) -> None:
    thinking = replace(HOLDING, min_tokens=3)
    state = make_state([replace(GREEDY, thinking=thinking)], VOCAB, phase=Phase.THINKING)
    found = steps(state, *[CLOSE] * 4)
    assert [code for _, code in found] == [FinishCode.RUNNING] * 3 + [FinishCode.HELD]
    assert CLOSE not in [token for token, _ in found[:3]]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stop_ids": (CLOSE,)}, FinishCode.STOP_TOKEN),
        ({"max_tokens": 2}, FinishCode.LENGTH),
        ({}, FinishCode.EOS),
    ],
)
def test_a_path_that_ends_with_the_close_is_not_held(
    changes: dict[str, object], reason: FinishCode, make_state: MakeState
) -> None:
    eos_ids = (CLOSE,) if reason is FinishCode.EOS else (EOS,)
    state = make_state([replace(GREEDY, **changes)], VOCAB, eos_ids=eos_ids, phase=Phase.THINKING)  # type: ignore[arg-type]
    assert steps(state, 9, CLOSE) == [*running(9), (CLOSE, reason)]


@pytest.mark.parametrize("phase", [Phase.UNDECIDED, Phase.ANSWER])
def test_a_path_that_does_not_think_is_never_held(phase: Phase, make_state: MakeState) -> None:
    assert steps(make_state([GREEDY], VOCAB, phase=phase), 9, CLOSE, CLOSE) == running(9, CLOSE, CLOSE)


def test_siblings_without_a_hold_go_on_behind_their_close(make_state: MakeState) -> None:
    plain = replace(GREEDY, thinking=replace(HOLDING, hold=False))
    state = make_state([GREEDY, plain], VOCAB, phase=Phase.THINKING)
    assert step(state, CLOSE, slot=0) == (CLOSE, FinishCode.HELD)
    assert step(state, CLOSE, slot=1) == (CLOSE, FinishCode.RUNNING)


@pytest.mark.parametrize("end", [CLOSE, EOS])
def test_twenty_more_steps_change_nothing_of_a_slot_that_stands_still(
    end: int, make_state: MakeState, rng: torch.Generator
) -> None:
    params = SamplingParams(50, frequency_penalty=0.5, repetition_penalty=1.2, logprobs=1, thinking=HOLDING)
    state = make_state([params], VOCAB, eos_ids=(EOS,), phase=Phase.THINKING)
    steps(state, 9, 7)
    _, code = step(state, end)
    assert code == (FinishCode.HELD if end == CLOSE else FinishCode.EOS)
    before = everything(state)
    for _ in range(20):
        out = sample(state, torch.randn(1, VOCAB, generator=rng), torch.tensor([0]))
        told = (out.generated, out.phase, out.think_count, out.finish)
        assert [int(each) for each in told] == [3, *state.counters[[2, 1], 0].tolist(), code]
    assert all(map(torch.equal, everything(state), before))


def test_the_tokens_behind_a_hold_are_those_of_a_path_that_was_never_held(
    make_state: MakeState, rng: torch.Generator
) -> None:
    """Sampled, penalised, forced to close, and in a batch with it for a while."""
    params = SamplingParams(40, top_p=0.9, presence_penalty=0.7, thinking=FORCED, ignore_eos=True)
    plain = replace(params, thinking=replace(FORCED, hold=False))
    held, free = (make_state([each], VOCAB, phase=Phase.THINKING) for each in (params, plain))
    logits = torch.randn(20, 1, VOCAB, generator=rng)
    slots = torch.tensor([0])
    expected = [int(sample(free, each, slots).tokens) for each in logits]
    tokens: list[int] = []
    pauses = 0
    while len(tokens) < 20:
        out = sample(held, logits[len(tokens)], slots)
        tokens.append(int(out.tokens))
        if out.finish == FinishCode.HELD:
            pauses += 1
            sample(held, torch.randn(1, VOCAB, generator=rng), slots)
            held.resume(0)
    assert tokens == expected
    assert pauses == 1


def test_only_a_held_path_can_be_resumed(make_state: MakeState) -> None:
    state = make_state([GREEDY], VOCAB, eos_ids=(EOS,), phase=Phase.THINKING)
    with pytest.raises(ValueError, match="not held"):
        state.resume(0)
    step(state, EOS)
    with pytest.raises(ValueError, match="not held"):
        state.resume(0)
