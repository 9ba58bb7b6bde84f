"""Bias and statistics through the whole engine on the CPU: as asked for, and as the tokens' log-probabilities say."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from engine.async_engine import AsyncEngine, GroupHandle
from engine.config import EngineConfig
from engine.errors import InvalidParameter
from engine.types import Committed, Group, PathHeld, PathTokens, SamplingParams, Statistic, Thinking

OPEN, CLOSE, BREAK = 10, 11, 12
ASKED = (
    Statistic.LOWEST_CONFIDENCE,
    Statistic.LOGPROB_SUM,
    Statistic.ENTROPY,
    Statistic.CONFIDENCE,
)
THINKING = Thinking(OPEN, CLOSE, (CLOSE, BREAK), max_tokens=9, min_tokens=9)
MEASURED = SamplingParams(40, ignore_eos=True, logprobs=20, statistics=ASKED, window=6, thinking=THINKING)
PROMPT = (30, 41, 52, OPEN)


async def start(model, **changes) -> AsyncEngine:
    config = EngineConfig(model, threads=1, kv_tokens=4096, max_paths=8, page_size=16, **changes)
    return await AsyncEngine.start(config)


async def committed(handle: GroupHandle) -> dict[int, list[PathTokens]]:
    """Everything that each path has committed; held paths are resumed as they come."""
    found: dict[int, list[PathTokens]] = {}
    async for event in handle.events():
        if isinstance(event, PathHeld):
            await handle.resume([event.index])
        elif isinstance(event, Committed):
            for path in event.paths:
                found.setdefault(path.index, []).append(path)
    return found


@dataclass
class Written:
    """The statistics that log-probabilities tell, of one path."""

    window: int
    chosen: list[float] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)

    def step(self, path: PathTokens) -> tuple[float, float, float]:
        """(lowest confidence, sum, confidence) after one token."""
        if not path.injected:
            (entry,) = path.logprobs
            self.chosen.append(entry.logprob)
            self.confidences.append(-float(np.mean([logprob for _, logprob in entry.top])))
        last = range(self.window, len(self.confidences) + 1)
        means = [np.mean(self.confidences[end - self.window : end]) for end in last]
        newest = self.confidences[-self.window :]
        return min(means, default=math.inf), sum(self.chosen), float(np.mean(newest))


async def test_statistics_are_those_of_the_log_probabilities_beside_them(tiny_model):
    engine = await start(tiny_model)
    measured = await engine.open(Group(PROMPT, 3, MEASURED))
    plain = await engine.open(Group(PROMPT, 3, replace(MEASURED, statistics=())))
    found, without = await asyncio.gather(committed(measured), committed(plain))
    for index, path in found.items():
        written = Written(MEASURED.window)
        assert [step.injected for step in path[8:12]] == [0, 1, 1, 0]
        for step in path:
            lowest, logprob_sum, entropy, confidence = step.statistics
            assert (lowest, logprob_sum, confidence) == pytest.approx(written.step(step), rel=1e-5)
            assert 0 < entropy < math.log(320)
        assert [step.ids for step in without[index]] == [step.ids for step in path]
        assert not any(step.statistics for step in without[index])
    await engine.close()


@pytest.mark.parametrize("changes", [{"queue_steps": 8}, {"overlap": 1, "queue_steps": 8}])
async def test_queued_steps_and_a_hold_leave_the_statistics_of_single_steps(tiny_model, changes):
    engine = await start(tiny_model)
    single = await committed(await engine.open(Group(PROMPT, 3, MEASURED)))
    await engine.close()
    engine = await start(tiny_model, **changes)
    holding = replace(MEASURED, thinking=replace(THINKING, hold=True))
    queued = await committed(await engine.open(Group(PROMPT, 3, holding, watched=False)))
    for index, path in single.items():
        assert len(queued[index]) < len(path), "several tokens an event"
        expected = {step.generated: step.statistics for step in path}
        assert all(expected[step.generated] == step.statistics for step in queued[index])
        assert [token for step in queued[index] for token in step.ids] == [step.ids[0] for step in path]
    await engine.close()


async def test_a_bias_is_felt_by_its_own_group_and_leaves_the_log_probabilities_alone(tiny_model):
    engine = await start(tiny_model)
    sampling = SamplingParams(12, temperature=0.0, ignore_eos=True, logprobs=0)
    free = await committed(await engine.open(Group(PROMPT, 1, sampling)))
    biased = replace(sampling, logit_bias=((7, 100.0), (free[0][0].ids[0], -100.0)))
    found, beside = await asyncio.gather(
        committed(await engine.open(Group(PROMPT, 2, biased))),
        committed(await engine.open(Group(PROMPT, 1, sampling))),
    )
    assert {step.ids for path in found.values() for step in path} == {(7,)}
    assert [step.ids for step in beside[0]] == [step.ids for step in free[0]]
    assert found[0][0].logprobs[0].logprob < free[0][0].logprobs[0].logprob
    with pytest.raises(InvalidParameter, match="logit_bias"):
        await engine.open(Group(PROMPT, 1, replace(sampling, logit_bias=((320, 1.0),))))
    await engine.close()
