"""Who runs when: admission, prefill beside decoding, pages, determinism. No model, no thread, no clock."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DoesNotFit
from engine.messages import CloseGroup, EndPaths, Open, Refusal
from engine.scheduler.limits import Limits
from engine.scheduler.scheduler import Scheduler
from engine.types import FinishReason, GroupFinished, PathFinished
from tests.engine.device_model import LIMITS, drain, events_of, group, new_loop, stream_of


@pytest.mark.parametrize("overlap", [0, 1])
def test_a_prompt_is_prefilled_once_for_all_its_paths(overlap):
    loop, device = new_loop(overlap)
    loop.handle(Open(0, 0, group(prompt=30, n=5)))
    events = events_of(drain(loop), 0)
    assert sum(len(c.ids) for p in device.plans for c in p.chunks) == 29
    assert isinstance(events[-1], GroupFinished)
    assert events[-1].prefilled_tokens == 29
    assert loop.scheduler.pages.used == 0


def test_siblings_share_the_full_pages_of_the_prompt_and_copy_the_rest():
    loop, device = new_loop()
    loop.handle(Open(0, 0, group(prompt=11, n=3)))
    while not device.plans or not device.plans[-1].admits:
        loop.turn()
    plan = device.plans[-1]
    assert [a.shared_pages for a in plan.admits] == [2, 2, 2]
    assert len({c.source for c in plan.copies}) == 1
    assert [c.tokens for c in plan.copies] == [2, 2, 2]
    assert [loop.scheduler.pages.refs(p) for p in loop.scheduler.groups[0].prompt_pages] == [4, 4, 1]


def test_decoding_goes_on_while_a_long_prompt_arrives_and_never_waits_for_more_than_one_chunk():
    loop, device = new_loop()
    loop.handle(Open(0, 0, group(n=4, max_tokens=40)))
    for _ in range(3):
        loop.turn()
    loop.handle(Open(1, 1, group(prompt=120, n=1)))
    drain(loop)
    mixed = [p for p in device.plans if p.chunks and p.slots]
    assert mixed, "prefill and decode share steps"
    for plan in mixed:
        assert len(plan.slots) + sum(len(c.ids) for c in plan.chunks) <= LIMITS.step_tokens
        assert all(len(c.ids) % LIMITS.block == 0 or c.start + len(c.ids) == 119 for c in plan.chunks)


def test_the_tokens_are_the_same_with_and_without_overlap():
    streams = []
    for overlap in (0, 1):
        loop, _ = new_loop(overlap)
        for g in range(3):
            loop.handle(Open(g, g, group(prompt=5 + 7 * g, n=4, seed=g)))
        messages = drain(loop)
        streams.append({(g, i): stream_of(events_of(messages, g), i) for g in range(3) for i in range(4)})
    assert streams[0] == streams[1]


def test_more_paths_than_slots_wait_their_turn_and_all_end():
    loop, device = new_loop()
    loop.handle(Open(0, 0, group(n=20, max_tokens=12)))
    events = events_of(drain(loop), 0)
    assert sorted(e.index for e in events if isinstance(e, PathFinished)) == list(range(20))
    assert max(len(p.slots) for p in device.plans) <= LIMITS.max_paths


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize(("n", "max_tokens"), [(7, 2), (13, 1), (20, 3)])
def test_paths_that_end_by_their_budget_make_room_for_those_that_wait(overlap, n, max_tokens):
    loop, _ = new_loop(overlap)
    loop.handle(Open(0, 0, group(n=n, max_tokens=max_tokens, seed=3)))
    events = events_of(drain(loop), 0)
    assert sum(isinstance(e, PathFinished) for e in events) == n


def test_two_prompts_are_never_opened_where_no_path_of_either_could_start():
    loop, _ = new_loop(limits=Limits(12, 4, 6, 32, 8, 200))
    loop.handle(Open(0, 0, group(prompt=5, n=1, max_tokens=32)))
    loop.handle(Open(1, 1, group(prompt=21, n=1, max_tokens=8)))
    messages = drain(loop)
    assert all(isinstance(events_of(messages, g)[-1], GroupFinished) for g in (0, 1))


def test_a_group_that_waits_for_the_room_of_an_idle_one_starts_when_that_is_closed():
    loop, _ = new_loop(limits=Limits(12, 4, 6, 32, 8, 200))
    loop.handle(Open(0, 0, group(prompt=21, n=1, max_tokens=8, stays_open=True)))
    drain(loop)
    loop.handle(Open(1, 1, group(prompt=21, n=1, max_tokens=20)))
    drain(loop)
    loop.handle(CloseGroup(2, 0))
    assert isinstance(events_of(drain(loop), 1)[-1], GroupFinished)


def test_a_group_that_waited_behind_one_that_is_cancelled_starts():
    loop, _ = new_loop(limits=Limits(12, 4, 6, 32, 8, 200))
    loop.handle(Open(0, 0, group(prompt=21, n=1, max_tokens=8, stays_open=True)))
    drain(loop)
    loop.handle(Open(1, 1, group(prompt=21, n=1, max_tokens=20, stays_open=True)))
    loop.handle(Open(2, 2, group(prompt=3, n=1, max_tokens=3)))
    assert not any(isinstance(event, GroupFinished) for event in events_of(drain(loop), 2))
    loop.handle(EndPaths(3, 1, None, FinishReason.CANCELLED))
    assert isinstance(events_of(drain(loop), 2)[-1], GroupFinished)


def test_a_group_without_a_live_path_holds_up_nobody_and_prefills_nothing():
    loop, device = new_loop(limits=Limits(20, 4, 6, 32, 8, 200))
    loop.handle(Open(0, 0, group(prompt=30, n=1, max_tokens=40)))
    loop.handle(Open(1, 1, group(prompt=40, n=1, max_tokens=30, stays_open=True)))
    loop.handle(Open(2, 2, group(prompt=3, n=1, max_tokens=3)))
    loop.turn()
    loop.handle(EndPaths(3, 1, None, FinishReason.CANCELLED))
    messages = drain(loop)
    assert isinstance(events_of(messages, 2)[-1], GroupFinished)
    assert not any(len(c.ids) == 39 for p in device.plans for c in p.chunks)
    loop.handle(CloseGroup(4, 1))
    drain(loop)
    assert loop.scheduler.idle


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(4, 40))
def test_the_budget_that_a_refusal_names_is_the_largest_that_fits(prompt, pages):
    scheduler = Scheduler(Limits(pages, 4, 2, 32, 8, 10_000))
    with pytest.raises(DoesNotFit) as refused:
        scheduler.submit(0, group(prompt=prompt, max_tokens=5000))
    largest = int(str(refused.value).rsplit(" ", 1)[1])
    if largest > 0:
        scheduler.submit(1, group(prompt=prompt, max_tokens=largest))
    with pytest.raises(DoesNotFit):
        scheduler.submit(2, group(prompt=prompt, max_tokens=largest + 1))


def test_the_same_events_give_the_same_plans():
    plans = []
    for _ in range(2):
        loop, device = new_loop(1)
        for g in range(4):
            loop.handle(Open(g, g, group(prompt=3 + 8 * g, n=5, seed=g)))
            loop.turn()
        drain(loop)
        plans.append(device.plans)
    assert plans[0] == plans[1]


def test_a_group_that_can_never_fit_is_refused_with_the_numbers():
    loop, _ = new_loop(limits=Limits(8, 4, 6, 32, 8, 1000))
    loop.handle(Open(3, 0, group(prompt=20, max_tokens=100)))
    (refusal,) = loop.take()
    assert isinstance(refusal, Refusal)
    assert refusal.kind == DoesNotFit.__name__
    assert "needs 31 pages of 4, the pool has 8" in refusal.message
    assert loop.scheduler.groups == {}


def test_a_budget_beyond_the_context_is_refused_with_the_largest_that_fits():
    with pytest.raises(DoesNotFit, match="largest budget here is 180"):
        Scheduler(LIMITS).submit(0, group(prompt=20, max_tokens=181))
