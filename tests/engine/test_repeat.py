"""Several steps as one plan: when, how many, and what becomes of rows that end on the way."""

from dataclasses import replace

import pytest

from engine.messages import CloseThinking, EndPaths, Open, Reply
from engine.types import Committed, FinishReason, PathFinished
from tests.engine.device_model import (
    LIMITS,
    THINKING,
    drain,
    events_of,
    group,
    length_of,
    new_loop,
    stream_of,
)

QUEUED = replace(LIMITS, queue_steps=8)


def repeats(device):
    return [plan.repeat for plan in device.plans]


def started(loop, device, *groups):
    """Opens the groups and goes on until all their paths decode."""
    for at, one in enumerate(groups):
        loop.handle(Open(at, at, one))
    while len(device.slots) < sum(one.n for one in groups):
        loop.turn()


def test_steps_of_groups_that_nobody_watches_are_launched_eight_at_once():
    loop, device = new_loop(limits=QUEUED)
    started(loop, device, group(n=2, watched=False), group(n=2, watched=False, seed=1))
    loop.turn()
    assert device.plans[-1].repeat == 8


def test_one_watched_row_keeps_every_step_single_until_it_has_ended():
    loop, device = new_loop(limits=QUEUED)
    started(loop, device, group(n=2, watched=False, seed=8), group(n=1, max_tokens=3, seed=1))
    drain(loop)
    watched = [plan for plan in device.plans if 2 in plan.slots]
    assert watched
    assert all(plan.repeat == 1 for plan in watched)
    assert 8 in repeats(device)


def test_steps_are_single_while_a_prompt_arrives():
    loop, device = new_loop(limits=QUEUED)
    started(loop, device, group(n=2, max_tokens=40, watched=False, seed=8))
    loop.handle(Open(9, 9, group(prompt=100, n=1, max_tokens=8, watched=False)))
    loop.turn()
    assert device.plans[-1].chunks
    assert device.plans[-1].slots
    assert device.plans[-1].repeat == 1


def test_a_close_request_is_launched_alone_so_that_it_acts_at_the_next_token():
    loop, device = new_loop(limits=QUEUED)
    started(loop, device, group(n=2, watched=False, seed=8, thinking=THINKING))
    loop.handle(CloseThinking(5, 0, (0,)))
    loop.turn()
    assert (device.plans[-1].closes, device.plans[-1].repeat) == ((0,), 1)
    loop.turn()
    assert device.plans[-1].repeat == 8


@pytest.mark.parametrize(("budget", "expected"), [(1, [1]), (2, [2]), (7, [4, 2, 1]), (13, [8, 4, 1])])
def test_a_plan_repeats_a_power_of_two_that_the_largest_budget_has_room_for(budget, expected):
    loop, device = new_loop(limits=QUEUED)
    loop.handle(Open(0, 0, group(prompt=1, n=1, max_tokens=budget, watched=False, seed=8)))
    assert length_of(8, 0) > budget
    drain(loop)
    assert repeats(device) == expected


def test_a_row_with_less_budget_than_the_plan_repeats_takes_part_and_stands_still_at_its_end():
    loop, device = new_loop(limits=QUEUED)
    short, long = (
        group(n=1, max_tokens=3, watched=False, seed=8),
        group(n=1, max_tokens=30, watched=False, seed=1),
    )
    started(loop, device, replace(short, prompt_ids=(1,)), replace(long, prompt_ids=(1,)))
    assert device.plans[0].repeat == 8
    assert device.plans[0].slots == (0, 1)
    ended = [e for e in events_of(drain(loop), 0) if isinstance(e, PathFinished)]
    assert [(e.reason, e.usage.generated) for e in ended] == [(FinishReason.LENGTH, 3)]
    pages = [edit for plan in device.plans for edit in plan.edits if edit.table == 0]
    assert len(pages) == 1, "pages for its own three tokens, not for eight"


def test_one_event_brings_all_tokens_of_a_plan():
    loop, _device = new_loop(limits=QUEUED)
    loop.handle(Open(0, 0, group(n=1, max_tokens=30, watched=False, seed=8)))
    events = events_of(drain(loop), 0)
    assert [len(e.paths[0].ids) for e in events if isinstance(e, Committed)][:3] == [8, 8, 8]
    assert [e.paths[0].generated for e in events if isinstance(e, Committed)][:3] == [8, 16, 24]


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("queue_steps", [2, 6, 8])
def test_the_tokens_are_the_same_one_by_one_and_queued(overlap, queue_steps):
    streams = []
    for limits in (LIMITS, replace(LIMITS, queue_steps=queue_steps)):
        loop, _ = new_loop(overlap, limits)
        for g in range(4):
            loop.handle(Open(g, g, group(5 + 7 * g, n=3, seed=g, watched=g == 2)))
        messages = drain(loop)
        streams.append({(g, i): stream_of(events_of(messages, g), i) for g in range(4) for i in range(3)})
    assert streams[0] == streams[1]


def test_pages_of_a_cancelled_path_wait_for_all_repetitions_that_are_in_flight():
    loop, device = new_loop(overlap=1, limits=QUEUED)
    started(loop, device, group(n=2, watched=False, seed=8))
    loop.turn()
    loop.handle(EndPaths(5, 0, (0,), FinishReason.CANCELLED))
    assert device.flight
    assert Reply(5, tokens=0) not in loop.take()
    assert all(loop.scheduler.pages.refs(page) for page in device.fenced)
    drain(loop)
    assert loop.scheduler.pages.used == 0
