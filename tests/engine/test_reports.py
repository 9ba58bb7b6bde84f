"""From a step's columns to the events of its groups."""

import numpy as np
import pytest

from engine.reports import committed
from engine.scheduler.limits import Limits
from engine.scheduler.plan import StepResult
from engine.scheduler.scheduler import Scheduler
from engine.types import Group, Phase, SamplingParams, Statistic, TokenLogprobs


def first_step(*asked: SamplingParams):
    """A scheduler after its first plan: one path a group, each with this sampling."""
    scheduler = Scheduler(Limits(64, 4, 8, 32, 8, 200, queue_steps=2))
    for group_id, sampling in enumerate(asked):
        scheduler.submit(group_id, Group((1,), 1, sampling, watched=False))
    return scheduler, scheduler.plan()


def result_of(counts: list[int], **extra: object) -> StepResult:
    counted = np.array(counts, dtype=np.int32)
    numbers = np.arange(len(counts), dtype=np.int32)
    return StepResult(
        step=0,
        count=counted,
        tokens=np.stack([10 + numbers, 20 + numbers]),
        injected=numbers * 0,
        phase=numbers * 0 + 2,
        think=numbers,
        generated=counted,
        finish=numbers * 0,
        **extra,
    )


def paths_of(scheduler, plan, result):
    return {group_id: event.paths[0] for group_id, event in committed(result, scheduler.commit(plan, result))}


def test_each_path_gets_as_many_tokens_as_count():
    scheduler, plan = first_step(*[SamplingParams(9)] * 3)
    paths = paths_of(scheduler, plan, result_of([2, 0, 1]))
    assert {group_id: path.ids for group_id, path in paths.items()} == {0: (10, 20), 2: (12,)}
    assert [paths[2].think_tokens, paths[2].generated, paths[2].phase] == [2, 1, Phase.ANSWER]


def test_log_probabilities_come_as_each_group_asked_for_them():
    scheduler, plan = first_step(
        SamplingParams(9, logprobs=1), SamplingParams(9), SamplingParams(9, logprobs=0)
    )
    top = np.arange(12, dtype=np.int32).reshape(2, 3, 2)
    chosen = -np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
    values = -top.astype(np.float32)
    paths = paths_of(scheduler, plan, result_of([2, 2, 1], logprobs=chosen, top_ids=top, top_logprobs=values))
    assert paths[0].logprobs == (TokenLogprobs(-1.0, ((0, 0.0),)), TokenLogprobs(-4.0, ((6, -6.0),)))
    assert paths[1].logprobs == ()
    assert paths[2].logprobs == (TokenLogprobs(-3.0),)


def test_statistics_come_in_the_order_they_were_asked_for():
    asked = (Statistic.LOWEST_CONFIDENCE, Statistic.LOGPROB_SUM)
    scheduler, plan = first_step(SamplingParams(9), SamplingParams(9, statistics=asked))
    values = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=np.float32)
    paths = paths_of(scheduler, plan, result_of([1, 1], statistics=values))
    assert paths[0].statistics == ()
    assert paths[1].statistics == (8.0, 5.0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_group_whose_paths_lie_apart_gets_one_event(order):
    scheduler = Scheduler(Limits(64, 4, 8, 32, 8, 200))
    for group_id in (0, 1):
        scheduler.submit(group_id, Group((1,), 1, SamplingParams(9), stays_open=True))
    for group_id in order:
        scheduler.add_paths(group_id, 1)
        scheduler.plan()
    plan = scheduler.plan()
    outcome = scheduler.commit(plan, result_of([1] * 4))
    events = dict(committed(result_of([1] * 4), outcome))
    assert [len(events[group_id].paths) for group_id in (0, 1)] == [2, 2]
    assert {path.index for path in events[0].paths} == {0, 1}
