"""Paths that stand still at the end of their thinking until somebody resumes, cancels or finishes them."""

from dataclasses import replace

import pytest

from engine.messages import CloseGroup, CloseThinking, EndPaths, Open, Refusal, Reply, Resume
from engine.types import Committed, FinishReason, GroupFinished, PathFinished, PathHeld
from tests.engine.device_model import (
    HOLDING,
    LIMITS,
    THINKING,
    drain,
    events_of,
    group,
    length_of,
    new_loop,
    stream_of,
    think_of,
    token_of,
)

SEED = 28  # of a group whose path 0 thinks for a while and ends much later
assert 12 < think_of(SEED, 0) < length_of(SEED, 0) - 10

WAYS = [(0, 1), (1, 1), (0, 8), (1, 8)]


def held_loop(overlap: int = 0, queue_steps: int = 1, **changes: object):
    """A loop at rest with one held path, and what it has told."""
    loop, device = new_loop(overlap, replace(LIMITS, queue_steps=queue_steps))
    asked = group(n=1, seed=SEED, watched=False, thinking=HOLDING, **changes)
    loop.handle(Open(0, 0, asked))
    return loop, device, drain(loop)


@pytest.mark.parametrize(("overlap", "queue_steps"), WAYS)
def test_a_held_path_keeps_its_pages_and_the_loop_sleeps(overlap, queue_steps):
    loop, _device, messages = held_loop(overlap, queue_steps)
    events = events_of(messages, 0)
    assert loop.idle
    assert isinstance(events[-1], PathHeld)
    assert sum(isinstance(e, PathHeld) for e in events) == 1
    assert len(stream_of(events, 0)) == think_of(SEED, 0)
    assert loop.scheduler.pages.used
    assert loop.stats.paths_running == 1


@pytest.mark.parametrize(("overlap", "queue_steps"), WAYS)
def test_a_resumed_path_goes_on_with_the_very_tokens_that_it_would_have_had(overlap, queue_steps):
    loop, _device, messages = held_loop(overlap, queue_steps)
    loop.handle(Resume(1, 0, (0,)))
    messages += drain(loop)
    events = events_of(messages, 0)
    assert Reply(1) in messages
    assert stream_of(events, 0) == [token_of(SEED, 0, nth + 1) for nth in range(length_of(SEED, 0))]
    assert isinstance(events[-1], GroupFinished)
    assert loop.scheduler.pages.used == 0


def test_the_event_of_a_hold_comes_behind_the_tokens_of_its_step():
    _, _, messages = held_loop()
    tokens, held = events_of(messages, 0)[-2:]
    assert isinstance(tokens, Committed)
    assert isinstance(held, PathHeld)
    assert (held.index, held.step) == (0, tokens.step)


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.STOP_STRING])
def test_a_held_path_can_be_ended(overlap, reason):
    loop, _, messages = held_loop(overlap)
    loop.handle(EndPaths(1, 0, (0,), reason))
    messages += drain(loop)
    (ended,) = [e for e in events_of(messages, 0) if isinstance(e, PathFinished)]
    assert (ended.reason, ended.usage.generated) == (reason, think_of(SEED, 0))
    assert Reply(1, tokens=think_of(SEED, 0)) in messages
    assert loop.scheduler.pages.used == 0


def test_a_group_with_a_held_path_can_be_closed():
    loop, _, _ = held_loop()
    loop.handle(CloseGroup(1, 0))
    messages = drain(loop)
    assert Reply(1, tokens=think_of(SEED, 0)) in messages
    assert loop.scheduler.idle


def test_a_close_request_for_a_held_path_wakes_nobody():
    loop, _, _ = held_loop()
    loop.handle(CloseThinking(1, 0, None))
    assert loop.take() == [Reply(1)]
    assert loop.idle
    loop.handle(Resume(2, 0, None))
    assert isinstance(events_of(drain(loop), 0)[-1], GroupFinished)


def test_a_forced_close_holds_too():
    loop, _device = new_loop()
    loop.handle(Open(0, 0, group(n=1, seed=SEED, thinking=HOLDING)))
    for _ in range(3):
        loop.turn()
    loop.handle(CloseThinking(1, 0, None))
    events = events_of(drain(loop), 0)
    assert isinstance(events[-1], PathHeld)
    assert len(stream_of(events, 0)) < think_of(SEED, 0)


def test_siblings_go_on_beside_a_held_path():
    loop, _ = new_loop()
    loop.handle(Open(0, 0, group(n=4, seed=SEED, thinking=HOLDING)))
    loop.handle(Open(1, 1, group(n=1, seed=SEED, thinking=THINKING)))
    messages = drain(loop)
    assert any(isinstance(e, PathHeld) for e in events_of(messages, 0))
    assert isinstance(events_of(messages, 1)[-1], GroupFinished)
    assert len(stream_of(events_of(messages, 1), 0)) == length_of(SEED, 0)


def test_resuming_a_path_that_is_not_held_has_no_effect():
    loop, device = new_loop()
    loop.handle(Open(0, 0, group(n=2, seed=SEED)))
    for _ in range(3):
        loop.turn()
    loop.handle(Resume(1, 0, (0, 1)))
    loop.handle(Resume(2, 0, None))
    messages = drain(loop)
    assert Reply(1) in messages
    assert Reply(2) in messages
    assert not any(plan.resumes for plan in device.plans)


def test_resuming_an_index_that_is_no_paths_is_refused_and_resumes_nobody():
    loop, _device, _ = held_loop()
    loop.handle(Resume(1, 0, (0, 7)))
    (refusal,) = loop.take()
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "InvalidParameter"
    assert "7" in refusal.message
    assert loop.idle


def test_a_path_that_is_resumed_and_cancelled_at_once_is_not_resumed_on_the_device():
    loop, device, _ = held_loop(stays_open=True)
    loop.handle(Resume(1, 0, None))
    loop.handle(EndPaths(2, 0, None, FinishReason.CANCELLED))
    drain(loop)
    assert not any(plan.resumes for plan in device.plans)


def test_a_waiting_path_takes_the_slot_of_a_held_one_only_when_that_is_over():
    loop, _device = new_loop(limits=replace(LIMITS, max_paths=1))
    loop.handle(Open(0, 0, group(n=1, seed=SEED, thinking=HOLDING)))
    loop.handle(Open(1, 1, group(n=1, seed=SEED)))
    assert not [e for e in events_of(drain(loop), 1) if isinstance(e, Committed)]
    loop.handle(Resume(2, 0, None))
    messages = drain(loop)
    assert isinstance(events_of(messages, 0)[-1], GroupFinished)
    assert isinstance(events_of(messages, 1)[-1], GroupFinished)
