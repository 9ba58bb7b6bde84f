"""How paths and groups end, come late and are asked to close. No model, no thread, no clock."""

import pickle

import pytest
import torch

from engine.errors import InvalidParameter
from engine.messages import (
    AddPaths,
    CloseGroup,
    CloseThinking,
    EndPaths,
    Open,
    Refusal,
    Reply,
    Resume,
    Shutdown,
)
from engine.scheduler.limits import Limits
from engine.types import FinishReason, Group, GroupFinished, PathFinished, SamplingParams
from tests.engine.device_model import drain, events_of, group, new_loop, stream_of


@pytest.mark.parametrize("overlap", [0, 1])
def test_after_a_cancel_no_token_of_the_path_comes_out_and_its_pages_are_free_at_the_reply(overlap):
    loop, device = new_loop(overlap)
    loop.handle(Open(0, 0, group(n=3, seed=5)))
    for _ in range(4):
        loop.turn()
    before = loop.take()
    launched = len(device.plans)
    loop.handle(EndPaths(7, 0, None, FinishReason.CANCELLED))
    messages = []
    while not any(isinstance(m, Reply) and m.ticket == 7 for m in messages):
        loop.turn()
        messages += loop.take()
    events = events_of(before, 0) + events_of(messages, 0)
    reply = next(m for m in messages if isinstance(m, Reply) and m.ticket == 7)
    ended = [e for e in events if isinstance(e, PathFinished)]
    assert reply.tokens == sum(e.usage.generated for e in ended if e.reason is FinishReason.CANCELLED)
    assert loop.scheduler.pages.used == 0
    assert len(device.plans) == launched, "no step is launched for a cancelled group"
    for e in ended:
        assert len(stream_of(events, e.index)) == e.usage.generated


def test_paths_cannot_be_added_to_a_group_that_is_closing():
    loop, _ = new_loop()
    loop.handle(Open(0, 0, group(n=2, stays_open=True)))
    loop.turn()
    loop.handle(CloseGroup(1, 0))
    loop.handle(AddPaths(2, 0, 1))
    messages = drain(loop)
    assert any(isinstance(m, Refusal) and m.ticket == 2 for m in messages)
    assert Reply(1) in messages


def test_a_close_request_goes_with_a_path_that_has_not_started():
    loop, device = new_loop(limits=Limits(64, 4, 1, 32, 8, 200))
    loop.handle(Open(0, 0, group(n=2)))
    for _ in range(3):
        loop.turn()
    loop.handle(CloseThinking(1, 0, None))
    drain(loop)
    assert [len(p.closes) for p in device.plans if p.closes] == [1, 1]
    second = next(p for p in device.plans if any(a.index == 1 for a in p.admits))
    assert second.closes == (second.admits[0].slot,)


def test_everything_that_crosses_the_boundary_survives_serialisation():
    loop, device = new_loop()
    commands = [
        Open(0, 0, group()),
        AddPaths(1, 0, 2),
        CloseThinking(2, 0, (1,)),
        Resume(5, 0, (0,)),
        CloseGroup(3, 0),
        Shutdown(4),
    ]
    messages = []
    for command in commands:
        loop.handle(pickle.loads(pickle.dumps(command)))
        loop.turn()
        messages += loop.take()
    for thing in [*commands, *messages, *device.plans]:
        assert pickle.loads(pickle.dumps(thing)) == thing


def test_paths_can_be_added_to_a_group_that_stays_open_after_all_others_ended():
    loop, _ = new_loop()
    loop.handle(Open(0, 0, group(n=1, stays_open=True)))
    first = events_of(drain(loop), 0)
    assert not any(isinstance(e, GroupFinished) for e in first)
    loop.handle(AddPaths(1, 0, 2))
    second = drain(loop)
    assert Reply(1, indices=(1, 2)) in second
    assert sorted(e.index for e in events_of(second, 0) if isinstance(e, PathFinished)) == [1, 2]
    loop.handle(CloseGroup(2, 0))
    assert isinstance(events_of(drain(loop), 0)[-1], GroupFinished)
    assert loop.scheduler.pages.used == 0


def test_a_step_that_raises_ends_every_path_with_an_error_and_refuses_what_follows():
    loop, device = new_loop()
    device.fail_at = 5
    loop.handle(Open(0, 0, group(n=3, max_tokens=60, seed=5)))
    loop.handle(Open(1, 1, group(n=30)))
    messages = drain(loop)
    for g, n in ((0, 3), (1, 30)):
        ended = [e for e in events_of(messages, g) if isinstance(e, PathFinished)]
        assert sorted(e.index for e in ended) == list(range(n))
        assert any(e.reason is FinishReason.ERROR and "device is gone" in e.message for e in ended)
        assert isinstance(events_of(messages, g)[-1], GroupFinished)
    loop.handle(Open(2, 2, group()))
    assert any(isinstance(m, Refusal) and m.kind == "EngineClosed" for m in loop.take())
    loop.handle(Shutdown(3))
    assert Reply(3) in drain(loop)


def test_a_close_request_reaches_the_slot_of_its_path_and_never_that_of_the_next_owner():
    loop, device = new_loop()
    loop.handle(Open(0, 0, group(n=2, max_tokens=60, seed=5)))
    loop.turn(), loop.turn()
    loop.handle(CloseThinking(1, 0, (1,)))
    loop.turn()
    assert [device.slots[s].admit.index for s in device.plans[-1].closes] == [1]
    loop.handle(CloseThinking(2, 0, (0,)))
    loop.handle(EndPaths(3, 0, (0,), FinishReason.CANCELLED))
    loop.handle(Open(4, 1, group(prompt=1, n=1)))
    loop.turn()
    assert device.plans[-1].closes == ()


def test_the_pages_of_a_prompt_outlive_its_group_until_the_chunk_in_flight_is_over():
    loop, device = new_loop(overlap=2)
    loop.handle(Open(0, 0, group(n=2, max_tokens=40, seed=5)))
    for _ in range(4):
        loop.turn()
    loop.handle(Open(1, 1, group(prompt=120, max_tokens=8)))
    loop.turn()
    assert device.plans[-1].chunks
    loop.handle(CloseGroup(2, 1))
    loop.turn()
    assert device.fenced & set(device.tables[device.plans[-2].chunks[0].table])
    assert all(loop.scheduler.pages.refs(page) for page in device.fenced)
    drain(loop)
    assert loop.scheduler.pages.used == 0


def test_the_first_failure_stays_the_cause_and_nothing_is_launched_behind_it(monkeypatch):
    loop, device = new_loop()
    loop.handle(Open(0, 0, group(n=3)))
    loop.turn(), loop.turn()
    launched = []

    def broken(plan):
        launched.append(plan)
        raise RuntimeError(f"failure {len(launched)}")

    monkeypatch.setattr(type(device), "launch", lambda _, plan: broken(plan))
    drain(loop)
    loop.fail("a later one")
    loop.handle(Open(1, 1, group()))
    refusal = next(m for m in drain(loop) if isinstance(m, Refusal))
    assert (refusal.message, len(launched)) == ("RuntimeError: failure 1", 1)


def test_a_device_that_runs_out_of_memory_ends_paths_with_the_settings_that_help(monkeypatch):
    loop, device = new_loop()
    text = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total\ncapacity of 139 GiB"

    def full(_, plan):
        raise torch.OutOfMemoryError(text)

    monkeypatch.setattr(type(device), "launch", full)
    loop.handle(Open(0, 0, group(n=1)))
    message = next(e.message for e in events_of(drain(loop), 0) if isinstance(e, PathFinished))
    assert all(name in message for name in ("kv_tokens", "memory_share", "max_paths", "step_tokens"))
    assert message.endswith("(CUDA out of memory. Tried to allocate 2.00 GiB)")


def test_indices_that_do_not_fit_the_device_are_refused_before_any_path_is_made():
    with pytest.raises(InvalidParameter, match="below"):
        Group((1,), 1, SamplingParams(4), first_index=2**63)
    loop, _ = new_loop()
    loop.handle(Open(0, 0, Group((1,), 2, SamplingParams(4), first_index=2**31 - 5, stays_open=True)))
    loop.handle(AddPaths(1, 0, 3))
    loop.handle(AddPaths(2, 0, 2))
    messages = drain(loop)
    assert next(m for m in messages if isinstance(m, Refusal)).ticket == 1
    assert Reply(2, indices=(2**31 - 3, 2**31 - 2)) in messages
