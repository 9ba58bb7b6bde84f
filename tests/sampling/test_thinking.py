"""The budget state machine equals a plain-Python oracle, and keeps what it promises."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidParameter
from engine.sampling import FinishCode, SamplerState, opening_phase, sample
from engine.types import FinishReason, Phase, SamplingParams, Thinking
from tests.sampling.conftest import MakeState
from tests.sampling.oracle import Oracle

VOCAB = 12
OPEN, CLOSE, BREAK, EOS = 1, 2, 3, 4


@st.composite
def paths(draw: st.DrawFn) -> SamplingParams:
    thinking = None
    max_tokens = draw(st.integers(1, 25))
    if draw(st.integers(0, 5)):
        close_ids = (CLOSE, *draw(st.lists(st.sampled_from([BREAK, EOS, CLOSE, 7]), max_size=3)))
        reserve = draw(st.integers(0, 4))
        most = draw(st.one_of(st.none(), st.integers(0, 8)))
        least = draw(st.integers(0, 6 if most is None else most))
        thinking = Thinking(OPEN, CLOSE, close_ids, most, least, reserve, hold=draw(st.booleans()))
        max_tokens += len(close_ids) + reserve
    stop_ids = tuple(draw(st.lists(st.integers(0, VOCAB - 1), max_size=2)))
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=0.0,
        thinking=thinking,
        stop_ids=stop_ids,
        ignore_eos=draw(st.booleans()),
    )


@settings(deadline=None, max_examples=150)
@given(
    params=st.lists(paths(), min_size=1, max_size=5),
    eos_ids=st.sampled_from([(), (EOS,), (EOS, 5)]),
    seed=st.integers(0, 2**32),
)
def test_equals_the_oracle(params: list[SamplingParams], eos_ids: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    state = SamplerState(len(params) + 2, VOCAB, "cpu", eos_ids)
    live: dict[int, Oracle] = {}
    for index, each in enumerate(params):
        phase = rng.choice(list(Phase) if each.thinking else [Phase.UNDECIDED, Phase.ANSWER])
        state.admit(index + 1, each, 0, index, [0], phase)
        live[index + 1] = Oracle(each, eos_ids, phase)
    while live:
        slots = rng.sample(sorted(live), len(live))
        for slot in slots:
            if rng.random() < 0.08:
                state.request_close(slot)
                live[slot].request_close()
        logits, expected = torch.zeros(len(slots), VOCAB), []
        for row, slot in enumerate(slots):
            first, second = rng.choice([OPEN, CLOSE, BREAK, EOS, 5, 7, 9, 9, 9]), rng.randrange(VOCAB)
            logits[row, second], logits[row, first] = 1.0, 2.0
            order = [first, second, *range(VOCAB)]
            drawn = next(token for token in order if token not in live[slot].blocked())
            expected.append(
                (*live[slot].step(drawn), live[slot].phase, live[slot].think, live[slot].generated)
            )
        out = sample(state, logits, torch.tensor(slots))
        found = list(
            zip(
                out.tokens.tolist(),
                out.forced.tolist(),
                out.finish.tolist(),
                out.phase.tolist(),
                out.think_count.tolist(),
                out.generated.tolist(),
                strict=True,
            )
        )
        assert found == expected
        for slot, (_, _, finish, *_) in zip(slots, expected, strict=True):
            if finish == FinishCode.HELD:
                state.resume(slot)
            elif finish != FinishCode.RUNNING:
                del live[slot]
                state.release(slot)


def run(state: SamplerState, token: int, slot: int = 0, steps: int = 100) -> tuple[list[int], FinishCode]:
    """Tokens of a path whose model always wants `token`, and how it ended."""
    logits = torch.zeros(1, VOCAB)
    logits[0, token] = 100.0
    tokens: list[int] = []
    for _ in range(steps):
        out = sample(state, logits, torch.tensor([slot]))
        tokens.append(int(out.tokens))
        if out.finish:
            return tokens, FinishCode(int(out.finish))
    return tokens, FinishCode.RUNNING


@pytest.mark.parametrize("reserve", [0, 1, 7])
@pytest.mark.parametrize("budget", [None, 0, 1, 5])
def test_a_model_that_never_stops_thinking_still_has_its_answer_tokens(
    budget: int | None, reserve: int, make_state: MakeState
) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, BREAK, BREAK), budget, 0, reserve)
    params = SamplingParams(max_tokens=30, temperature=0.0, thinking=thinking)
    tokens, code = run(make_state([params], VOCAB, phase=Phase.THINKING), 9)
    at = tokens.index(CLOSE)
    assert at == (30 - 3 - reserve if budget is None else budget)
    assert tokens[at : at + 3] == [CLOSE, BREAK, BREAK]
    assert len(tokens) - at - 3 >= reserve
    assert code == FinishCode.LENGTH


def test_a_budget_that_no_path_can_spend_is_no_budget(make_state: MakeState) -> None:
    params = SamplingParams(
        max_tokens=6, temperature=0.0, thinking=Thinking(OPEN, CLOSE, (CLOSE,), 2**80, 2**70)
    )
    assert run(make_state([params], VOCAB, phase=Phase.THINKING), 9)[0] == [9, 9, 9, 9, 9, CLOSE]


def test_a_budget_of_zero_closes_as_soon_as_thinking_opens(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, BREAK), 0)
    params = SamplingParams(max_tokens=6, temperature=0.0, thinking=thinking)
    assert run(make_state([params], VOCAB), OPEN)[0] == [OPEN, CLOSE, BREAK, OPEN, OPEN, OPEN]


def test_a_closing_model_is_held_to_its_minimum(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE,), None, 4)
    params = SamplingParams(max_tokens=20, temperature=0.0, thinking=thinking, stop_ids=(8,))
    for token, place in ((CLOSE, 4), (EOS, 4), (8, 4)):
        tokens, _ = run(make_state([params], VOCAB, eos_ids=(EOS,), phase=Phase.THINKING), token)
        assert tokens.index(token) == place


def test_a_closed_path_ends_at_eos_while_forced_text_ends_nothing(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, EOS, BREAK), 1)
    params = SamplingParams(max_tokens=20, temperature=0.0, thinking=thinking, stop_ids=(BREAK,))
    state = make_state([params], VOCAB, eos_ids=(EOS,), phase=Phase.THINKING)
    assert run(state, 9, steps=5)[0] == [9, CLOSE, EOS, BREAK, 9]
    assert run(state, EOS) == ([EOS], FinishCode.EOS)


def test_who_stops_at_the_marker_stops_there_though_it_was_forced(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, BREAK), 2)
    params = SamplingParams(max_tokens=20, temperature=0.0, thinking=thinking, stop_ids=(CLOSE,))
    assert run(make_state([params], VOCAB, phase=Phase.THINKING), 9) == ([9, 9, CLOSE], FinishCode.STOP_TOKEN)


def test_a_request_closes_a_thinking_path_and_no_other(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, BREAK), None, 5)
    params = SamplingParams(max_tokens=20, temperature=0.0, thinking=thinking)
    for phase in Phase:
        state = make_state([params], VOCAB, phase=phase)
        state.request_close(0)
        state.request_close(0)
        expected = [CLOSE, BREAK, 9] if phase == Phase.THINKING else [9, 9, 9]
        assert run(state, 9, steps=3)[0] == expected


def test_a_request_before_the_first_token_waits_for_the_thinking_to_open(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, BREAK), None, 5)
    params = SamplingParams(max_tokens=20, temperature=0.0, thinking=thinking)
    state = make_state([params], VOCAB, phase=Phase.UNDECIDED)
    state.request_close(0)
    assert run(state, OPEN, steps=1)[0] == [OPEN]
    assert run(state, 9, steps=3)[0] == [CLOSE, BREAK, 9]


def test_a_forced_token_overrides_filters_and_penalties(make_state: MakeState) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, BREAK, BREAK), 0)
    params = SamplingParams(
        max_tokens=20, top_k=1, frequency_penalty=2.0, presence_penalty=2.0, thinking=thinking
    )
    assert run(make_state([params], VOCAB, phase=Phase.THINKING), 9, steps=3)[0] == [CLOSE, BREAK, BREAK]


def test_stop_lists_and_closes_of_other_lengths_live_side_by_side(make_state: MakeState) -> None:
    short = SamplingParams(max_tokens=9, temperature=0.0, stop_ids=(7,))
    long = SamplingParams(max_tokens=9, temperature=0.0, stop_ids=(5, 6, 8, 9))
    state = make_state([short, long], VOCAB, eos_ids=(EOS,))
    assert run(state, 7, 0) == ([7], FinishCode.STOP_TOKEN)
    assert run(state, 9, 1) == ([9], FinishCode.STOP_TOKEN)
    state.release(1)
    state.admit(1, short, 0, 0, [0], Phase.ANSWER)
    assert run(state, 9, 1) == ([9] * 9, FinishCode.LENGTH)


def test_ignored_eos_and_reasons(make_state: MakeState) -> None:
    params = SamplingParams(max_tokens=3, temperature=0.0, ignore_eos=True)
    assert run(make_state([params], VOCAB, eos_ids=(EOS,)), EOS) == ([EOS] * 3, FinishCode.LENGTH)
    assert [code.reason for code in FinishCode if code > 0] == [
        FinishReason.LENGTH,
        FinishReason.STOP_TOKEN,
        FinishReason.EOS,
    ]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(max_tokens=5, stop_ids=(VOCAB,)),
        SamplingParams(max_tokens=5, thinking=Thinking(OPEN, 99, (99,))),
    ],
)
def test_ids_outside_the_vocabulary_are_refused(params: SamplingParams, make_state: MakeState) -> None:
    with pytest.raises(InvalidParameter, match="outside the vocabulary"):
        make_state([params], VOCAB)


@pytest.mark.parametrize(
    ("prompt", "phase"),
    [
        ([9, 9, OPEN], Phase.THINKING),
        ([9, OPEN, BREAK], Phase.THINKING),
        ([OPEN, BREAK, CLOSE, BREAK], Phase.ANSWER),
        ([OPEN, 9, 9, 9, 9], Phase.UNDECIDED),
        ([], Phase.UNDECIDED),
    ],
)
def test_the_prompt_decides_where_a_path_starts(prompt: list[int], phase: Phase) -> None:
    assert opening_phase(prompt, Thinking(OPEN, CLOSE, (CLOSE, BREAK))) == phase
    assert opening_phase(prompt, None) == Phase.UNDECIDED
