"""Thinking budget, stops, freezing and holding: step by step what the CPU's sampler does."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

from engine.sampling.device.slots import Column
from engine.sampling.stops import FinishCode
from engine.types import Phase, SamplingParams, Thinking
from tests.sampling_device.pair import FIRST_ID, POSITION, Pair, launch

VOCAB = 12
OPEN, CLOSE, BREAK, EOS = 1, 2, 3, 4
GREEDY = SamplingParams(100, temperature=0.0)


def some_path(draw: random.Random, least: int) -> SamplingParams:
    thinking, max_tokens = None, draw.randint(1, 20)
    if draw.random() < 0.85:
        close_ids = (CLOSE, *(draw.choice([BREAK, EOS, CLOSE, 7]) for _ in range(draw.randint(0, 3))))
        reserve, most = draw.randint(0, 4), draw.choice([None, *range(9)])
        least = draw.randint(0, least if most is None else min(most, least))
        thinking = Thinking(OPEN, CLOSE, close_ids, most, least, reserve, hold=draw.random() < 0.5)
        max_tokens += len(close_ids) + reserve
    stop_ids = tuple(draw.randrange(VOCAB) for _ in range(draw.randint(0, 2)))
    return SamplingParams(
        max_tokens, temperature=0.0, thinking=thinking, stop_ids=stop_ids, ignore_eos=draw.random() < 0.5
    )


def wants(tokens: list[int]) -> torch.Tensor:
    """Logits of rows that each want one token."""
    logits = torch.zeros(len(tokens), VOCAB)
    logits[range(len(tokens)), tokens] = 9.0
    return logits


@pytest.mark.parametrize(("eos_ids", "paths", "least"), [((EOS,), 14, 0), ((EOS, 5), 4, 4), ((), 7, 0)])
def test_traces_equal_the_cpus_and_what_is_held_or_has_finished_stands_still(
    device: torch.device, eos_ids: tuple[int, ...], paths: int, least: int
) -> None:
    draw = random.Random(paths)
    pair = Pair(device, VOCAB, slots=paths, eos_ids=eos_ids)
    for slot in range(paths):
        pair.admit(slot, some_path(draw, least), prompt=draw.choice([(9, 9), (9, OPEN), (OPEN, CLOSE)]))
    every, finish = list(range(paths)), [int(FinishCode.RUNNING)] * paths
    while any(code <= 0 for code in finish):
        draw.shuffle(every)
        for slot in every:
            resume(pair, slot, finish, draw)
        standing = [slot for slot in every if finish[slot]]
        before = pair.on_device.state.clone()
        result, wanted = pair.step(
            wants([draw.choice([OPEN, CLOSE, BREAK, EOS, 5, 7, 9, 9, 9]) for _ in every]), every
        )
        assert result.count.tolist() == [int(finish[slot] == 0) for slot in every]
        for name in ("phase", "generated", "finish"):
            assert getattr(result, name).tolist() == getattr(wanted, name).tolist(), name
        assert result.think.tolist() == wanted.think_count.tolist()
        moved = result.count > 0
        assert result.injected[moved].tolist() == wanted.forced.numpy()[moved].tolist()
        assert torch.equal(pair.on_device.state[standing], before[standing])
        for slot, code in zip(every, result.finish.tolist(), strict=True):
            finish[slot] = code


def resume(pair: Pair, slot: int, finish: list[int], draw: random.Random) -> None:
    """Now and then a held path goes on, and the thinking of another is closed."""
    if finish[slot] == FinishCode.HELD and draw.random() < 0.4:
        pair.on_cpu.resume(slot)
        pair.on_device.state[slot, Column.FINISH] = finish[slot] = int(FinishCode.RUNNING)
    if draw.random() < 0.05 and pair.on_device.thinks(slot):
        pair.on_cpu.request_close(slot)
        pair.on_device.state[slot, Column.MAX_THINK] = 0


def alone(device: torch.device, params: SamplingParams, **how: object) -> Pair:
    pair = Pair(device, VOCAB, slots=1, eos_ids=(EOS,))
    pair.admit(0, params, **how)  # type: ignore[arg-type]
    return pair


def inputs(pair: Pair) -> tuple[int, int]:
    """(next input, its position) of slot 0."""
    return tuple(pair.on_device.state[0, [Column.NEXT_ID, Column.POSITION]].tolist())


def test_a_token_becomes_the_next_input_and_a_finished_path_keeps_its_last(device: torch.device) -> None:
    pair = alone(device, GREEDY)
    assert inputs(pair) == (FIRST_ID, POSITION)
    launch(pair.on_device, wants([9]).to(device), [0])
    assert inputs(pair) == (9, POSITION + 1)
    result = launch(pair.on_device, wants([EOS]).to(device), [0], repeat=3)
    assert inputs(pair) == (9, POSITION + 1)
    assert (result.count.tolist(), result.tokens[0].tolist(), result.finish.tolist()) == (
        [1],
        [EOS],
        [FinishCode.EOS],
    )
    assert result.generated.tolist() == [2]


def test_repetitions_stop_in_the_middle_of_a_step(device: torch.device) -> None:
    pair = alone(device, dataclasses.replace(GREEDY, max_tokens=2))
    result = launch(pair.on_device, wants([9]).to(device), [0], repeat=4)
    assert result.count.tolist() == [2]
    assert result.tokens[:2, 0].tolist() == [9, 9]
    assert result.finish.tolist() == [FinishCode.LENGTH]


@pytest.mark.parametrize(("close_ids", "most"), [((CLOSE,), None), ((CLOSE, BREAK, 7), 2)])
def test_a_path_is_held_where_its_thinking_ends_and_goes_on_where_it_stood(
    device: torch.device, close_ids: tuple[int, ...], most: int | None
) -> None:
    """A natural close, and a forced one: held with its last token."""
    thinking = Thinking(OPEN, CLOSE, close_ids, max_tokens=most, hold=True)
    pair = alone(device, dataclasses.replace(GREEDY, thinking=thinking), prompt=(9, OPEN))
    if most is None:
        script = [9, 9, CLOSE]
        results = [launch(pair.on_device, wants([token]).to(device), [0]) for token in script]
    else:
        results = [launch(pair.on_device, wants([9]).to(device), [0]) for _ in range(most + len(close_ids))]
    assert [int(each.finish[0]) for each in results] == [0] * (len(results) - 1) + [FinishCode.HELD]
    assert results[-1].phase.tolist() == [Phase.ANSWER]
    last = (close_ids[-1], POSITION + len(results))
    assert inputs(pair) == last
    before = pair.on_device.state.clone()
    still = launch(pair.on_device, wants([9]).to(device), [0], repeat=2)
    assert (still.count.tolist(), still.finish.tolist()) == ([0], [FinishCode.HELD])
    assert torch.equal(pair.on_device.state, before)
    pair.on_device.state[0, Column.FINISH] = FinishCode.RUNNING  # as a resume does
    after = launch(pair.on_device, wants([7]).to(device), [0])
    assert (after.count.tolist(), after.finish.tolist(), after.tokens.tolist()) == ([1], [0], [[7]])
    assert after.generated.tolist() == [len(results) + 1]


def test_an_end_is_stronger_than_a_hold(device: torch.device) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE,), hold=True)
    params = dataclasses.replace(GREEDY, thinking=thinking, stop_ids=(CLOSE,))
    pair = alone(device, params, prompt=(9, OPEN))
    result = launch(pair.on_device, wants([CLOSE]).to(device), [0])
    assert result.finish.tolist() == [FinishCode.STOP_TOKEN]


def test_padded_rows_change_nothing_however_many_there_are(device: torch.device) -> None:
    pair = alone(device, dataclasses.replace(GREEDY, presence_penalty=0.5, stop_ids=(0,)))
    scratch = pair.on_device.state[1].clone()
    result = launch(pair.on_device, wants([9, 0, 5, 7]).to(device), [0, 1, 1, 1])
    assert result.count.tolist() == [1, 0, 0, 0]
    assert torch.equal(pair.on_device.state[1], scratch)
    assert not pair.on_device._tables.counts[1].any()


def test_a_forced_marker_can_end_a_path_and_the_text_behind_it_cannot(device: torch.device) -> None:
    thinking = Thinking(OPEN, CLOSE, (CLOSE, EOS, 7), max_tokens=0)
    pair = Pair(device, VOCAB, slots=2, eos_ids=(EOS,))
    pair.admit(0, dataclasses.replace(GREEDY, thinking=thinking, stop_ids=(CLOSE,)), prompt=(9, OPEN))
    pair.admit(1, dataclasses.replace(GREEDY, thinking=thinking, stop_ids=(7,)), prompt=(9, OPEN))
    result = launch(pair.on_device, wants([9, 9]).to(device), [0, 1], repeat=4)
    assert result.count.tolist() == [1, 4]
    assert result.injected.tolist() == [1, 3]
    assert result.tokens[:, 1].tolist() == [CLOSE, EOS, 7, 9]
    assert result.finish.tolist() == [FinishCode.STOP_TOKEN, FinishCode.RUNNING]
