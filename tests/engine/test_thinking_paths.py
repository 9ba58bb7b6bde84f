"""Thinking through the whole engine: budgets, minimum, holds, a close on request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from engine.types import Group, Phase, SamplingParams, Thinking
from tests.engine.test_engine import Seen, prompt, start, watch

OPEN, CLOSE = 11, 12


async def thinking_run(model: Path, thinking: Thinking, max_tokens: int = 60, **params: object) -> Seen:
    engine = await start(model)
    sampling = SamplingParams(max_tokens, ignore_eos=True, thinking=thinking, **params)  # type: ignore[arg-type]
    seen = await watch(await engine.open(Group((*prompt(9), OPEN), 6, sampling, 3)))
    await engine.close()
    return seen


async def test_a_thinking_budget_forces_the_close_and_leaves_the_answer_its_tokens(tiny_model):
    seen = await thinking_run(tiny_model, Thinking(OPEN, CLOSE, (CLOSE, 13), max_tokens=10))
    for index, ids in seen.ids.items():
        assert CLOSE in ids[:11]
        assert seen.finished[index].usage.think <= 10
        if ids.index(CLOSE) == 10:
            assert ids[10:12] == [CLOSE, 13]
            assert seen.finished[index].usage.injected == 2


async def test_the_answer_reserve_closes_thinking_before_the_path_budget_is_spent(tiny_model):
    seen = await thinking_run(
        tiny_model, Thinking(OPEN, CLOSE, (CLOSE, 13), answer_reserve=20), max_tokens=50
    )
    for index, ids in seen.ids.items():
        assert ids.index(CLOSE) <= 50 - 22
        assert seen.phases[index][-1] is Phase.ANSWER
        assert len(ids) == 50


async def test_thinking_does_not_end_before_its_minimum(tiny_model):
    seen = await thinking_run(tiny_model, Thinking(OPEN, CLOSE, (CLOSE,), min_tokens=40, max_tokens=45))
    for ids in seen.ids.values():
        assert 40 <= ids.index(CLOSE) <= 45


@pytest.mark.parametrize("changes", [{}, {"overlap": 1}, {"overlap": 1, "queue_steps": 8}])
async def test_held_paths_resume_with_the_tokens_that_they_would_have_had(tiny_model, changes):
    thinking = Thinking(OPEN, CLOSE, (CLOSE, 13), max_tokens=10)
    free = await thinking_run(tiny_model, thinking)
    engine = await start(tiny_model, **changes)
    sampling = SamplingParams(60, ignore_eos=True, thinking=replace(thinking, hold=True))
    handle = await engine.open(Group((*prompt(9), OPEN), 6, sampling, 3, watched=False))
    seen, held = Seen(), set()
    running = asyncio.create_task(watch(handle, seen, held))
    while len(held) < 6:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert not seen.finished
    assert {index: ids[-1] for index, ids in seen.ids.items() if ids[10:]} == dict.fromkeys(range(6), 13)
    assert engine.stats().pages_used
    await handle.resume([4])
    await handle.resume()
    await running
    assert seen.ids == free.ids
    assert engine.stats().pages_used == 0
    await engine.close()


async def test_a_close_request_ends_thinking_at_the_next_step(tiny_model):
    engine = await start(tiny_model)
    thinking = Thinking(OPEN, CLOSE, (CLOSE, 13), min_tokens=1500)
    seen = Seen()
    handle = await engine.open(
        Group((*prompt(9), OPEN), 3, SamplingParams(2000, ignore_eos=True, thinking=thinking))
    )
    running = asyncio.create_task(watch(handle, seen))
    while not seen.ids[2]:
        await asyncio.sleep(0.01)
    await handle.close_thinking([1])
    begun = len(seen.ids[1])
    while CLOSE not in seen.ids[1]:
        await asyncio.sleep(0.01)
    await handle.close()
    await running
    assert begun <= seen.ids[1].index(CLOSE) <= begun + 3
    assert CLOSE not in seen.ids[0]
    await engine.close()
