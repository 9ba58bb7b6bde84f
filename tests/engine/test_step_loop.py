"""The step loop and the scheduler, driven by a scripted runner: no model, no thread, no clock."""

import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DoesNotFit
from engine.executor import Done
from engine.loop import StepLoop
from engine.messages import (
    AddPaths,
    CloseGroup,
    CloseThinking,
    Emitted,
    EndPaths,
    Open,
    Refusal,
    Reply,
    Shutdown,
)
from engine.sampling.stops import FinishCode
from engine.scheduler.plan import Pending, StepPlan, StepResult
from engine.scheduler.scheduler import Limits, Scheduler
from engine.types import Committed, FinishReason, Group, GroupFinished, PathFinished, Phase, SamplingParams

LIMITS = Limits(pages=64, page_size=4, max_paths=6, step_tokens=32, block=8, context_length=200)


class ScriptedRunner:
    """Samples token 100 * index + count; a path ends at the length that its (seed, index) draw says.
    Keeps its own view of tables and checks each plan against it."""

    def __init__(self) -> None:
        self.owners: dict[int, tuple[int, int]] = {}
        self.generated: dict[int, int] = {}
        self.limit: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self.pages: dict[int, list[int]] = {}
        self.plans: list[StepPlan] = []
        self.fail_at = -1

    def check(self, sampling: SamplingParams) -> None:
        """Everything is honoured."""

    def launch(self, plan: StepPlan) -> Pending:
        if plan.step == self.fail_at:
            raise RuntimeError("the device is gone")
        if not plan.empty:
            self.plans.append(plan)
        for table in plan.releases:
            self.pages.pop(table, None)
            self.owners.pop(table, None)
        for admit in plan.admits:
            assert admit.slot not in self.owners, "a slot has one owner"
            self.owners[admit.slot] = (admit.seed, admit.index)
            self.generated[admit.slot] = 0
            drawn = random.Random(admit.seed * 1000 + admit.index).randint(1, 40)
            self.limit[admit.slot] = min(drawn, admit.sampling.max_tokens)
            self.written[admit.slot] = admit.position
            self.pages[admit.slot] = []
        for edit in plan.edits:
            self.pages.setdefault(edit.table, [])
            assert edit.at == len(self.pages[edit.table])
            self.pages[edit.table].append(edit.page)
        for slot, position in zip(plan.slots, plan.positions, strict=True):
            assert position == self.written[slot], "each step writes the next position"
            assert position // LIMITS.page_size < len(self.pages[slot]), (
                "a page is there before it is written"
            )
            self.written[slot] += 1
            self.generated[slot] += 1
        result = StepResult.blank(plan.step, plan.repeat, len(plan.slots))
        for row, slot in enumerate(plan.slots):
            result.count[row], result.phase[row] = 1, Phase.THINKING
            result.tokens[0, row] = 100 * self.owners[slot][1] + self.generated[slot]
            result.generated[row] = self.generated[slot]
            result.finish[row] = FinishCode.EOS if self.generated[slot] >= self.limit[slot] else 0
        return Done(result)


def new_loop(overlap: int = 0, limits: Limits = LIMITS) -> tuple[StepLoop, ScriptedRunner]:
    runner = ScriptedRunner()
    return StepLoop(Scheduler(limits), runner, overlap=overlap, kv_bytes_per_page=1), runner


def group(
    prompt: int = 9, n: int = 3, max_tokens: int = 50, seed: int = 0, stays_open: bool = False
) -> Group:
    return Group(tuple(range(prompt)), n, SamplingParams(max_tokens), seed, stays_open=stays_open)


def drain(loop: StepLoop, most: int = 2000) -> list[object]:
    messages: list[object] = []
    for _ in range(most):
        if loop.idle:
            return messages + loop.take()
        loop.turn()
        messages += loop.take()
    raise AssertionError("the loop does not come to rest")


def events_of(messages: list[object], group_id: int) -> list[object]:
    return [m.event for m in messages if isinstance(m, Emitted) and m.group_id == group_id]


def stream_of(events: list[object], index: int) -> list[int]:
    return [t for e in events if isinstance(e, Committed) for p in e.paths if p.index == index for t in p.ids]


@pytest.mark.parametrize("overlap", [0, 1])
def test_a_prompt_is_prefilled_once_for_all_its_paths(overlap):
    loop, runner = new_loop(overlap)
    loop.handle(Open(0, 0, group(prompt=30, n=5)))
    events = events_of(drain(loop), 0)
    assert sum(len(c.ids) for p in runner.plans for c in p.chunks) == 29
    assert isinstance(events[-1], GroupFinished)
    assert events[-1].prefilled_tokens == 29
    assert loop.scheduler.pages.used == 0


def test_siblings_share_the_full_pages_of_the_prompt_and_copy_the_rest():
    loop, runner = new_loop()
    loop.handle(Open(0, 0, group(prompt=11, n=3)))
    while not runner.plans or not runner.plans[-1].admits:
        loop.turn()
    plan = runner.plans[-1]
    assert [a.shared_pages for a in plan.admits] == [2, 2, 2]
    assert len({c.source for c in plan.copies}) == 1
    assert [c.tokens for c in plan.copies] == [2, 2, 2]
    assert [loop.scheduler.pages.refs(p) for p in loop.scheduler.groups[0].prompt_pages] == [4, 4, 1]


def test_decoding_goes_on_while_a_long_prompt_arrives_and_never_waits_for_more_than_one_chunk():
    loop, runner = new_loop()
    loop.handle(Open(0, 0, group(n=4, max_tokens=40)))
    for _ in range(3):
        loop.turn()
    loop.handle(Open(1, 1, group(prompt=120, n=1)))
    drain(loop)
    mixed = [p for p in runner.plans if p.chunks and p.slots]
    assert mixed, "prefill and decode share steps"
    for plan in mixed:
        assert len(plan.slots) + sum(len(c.ids) for c in plan.chunks) <= LIMITS.step_tokens
        assert all(len(c.ids) % LIMITS.block == 0 or c.start + len(c.ids) == 119 for c in plan.chunks)


@pytest.mark.parametrize("overlap", [0, 1])
def test_after_a_cancel_no_token_of_the_path_comes_out_and_its_pages_are_free_at_the_reply(overlap):
    loop, runner = new_loop(overlap)
    loop.handle(Open(0, 0, group(n=3, seed=5)))
    for _ in range(4):
        loop.turn()
    before = loop.take()
    launched = len(runner.plans)
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
    assert len(runner.plans) == launched, "no step is launched for a cancelled group"
    for e in ended:
        assert len(stream_of(events, e.index)) == e.usage.generated


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
    loop, runner = new_loop()
    loop.handle(Open(0, 0, group(n=20, max_tokens=12)))
    events = events_of(drain(loop), 0)
    assert sorted(e.index for e in events if isinstance(e, PathFinished)) == list(range(20))
    assert max(len(p.slots) for p in runner.plans) <= LIMITS.max_paths


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


@pytest.mark.parametrize(("seed", "overlap"), [(855, 1), (1954, 0), (7935, 1)])
def test_a_group_that_comes_back_with_new_paths_does_not_stop_those_that_hold_its_room(seed, overlap):
    """Histories that a soak found."""
    comes_to_rest(seed, overlap)


def test_paths_cannot_be_added_to_a_group_that_is_closing():
    loop, _ = new_loop()
    loop.handle(Open(0, 0, group(n=2, stays_open=True)))
    loop.turn()
    loop.handle(CloseGroup(1, 0))
    loop.handle(AddPaths(2, 0, 1))
    messages = drain(loop)
    assert any(isinstance(m, Refusal) and m.ticket == 2 for m in messages)
    assert Reply(1) in messages


def test_a_group_without_a_live_path_holds_up_nobody_and_prefills_nothing():
    loop, runner = new_loop(limits=Limits(20, 4, 6, 32, 8, 200))
    loop.handle(Open(0, 0, group(prompt=30, n=1, max_tokens=40)))
    loop.handle(Open(1, 1, group(prompt=40, n=1, max_tokens=30, stays_open=True)))
    loop.handle(Open(2, 2, group(prompt=3, n=1, max_tokens=3)))
    loop.turn()
    loop.handle(EndPaths(3, 1, None, FinishReason.CANCELLED))
    messages = drain(loop)
    assert isinstance(events_of(messages, 2)[-1], GroupFinished)
    assert not any(len(c.ids) == 39 for p in runner.plans for c in p.chunks)
    loop.handle(CloseGroup(4, 1))
    drain(loop)
    assert loop.scheduler.idle


def test_a_close_request_goes_with_a_path_that_has_not_started():
    loop, runner = new_loop(limits=Limits(64, 4, 1, 32, 8, 200))
    loop.handle(Open(0, 0, group(n=2)))
    for _ in range(3):
        loop.turn()
    loop.handle(CloseThinking(1, 0, None))
    drain(loop)
    assert [len(p.closes) for p in runner.plans if p.closes] == [1, 1]
    second = next(p for p in runner.plans if any(a.index == 1 for a in p.admits))
    assert second.closes == (second.admits[0].slot,)


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


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**6), st.integers(0, 1))
def test_whatever_is_asked_the_loop_comes_to_rest_and_nobody_waits_beside_free_room(seed, overlap):
    comes_to_rest(seed, overlap)


def comes_to_rest(seed: int, overlap: int) -> None:
    """No spin, no hang: a path that waits at rest waits only for the room of groups that their callers keep open."""
    draw = random.Random(seed)
    limits = Limits(draw.randint(6, 30), draw.choice([1, 2, 4]), draw.randint(1, 4), 32, 8, 400)
    loop, _ = new_loop(overlap, limits)
    opened: list[int] = []
    for ticket in range(draw.randint(1, 12)):
        if not opened or draw.random() < 0.45:
            asked = group(
                draw.randint(1, 40), draw.randint(1, 4), draw.randint(1, 30), seed, draw.random() < 0.5
            )
            loop.handle(Open(ticket, ticket, asked))
            opened.append(ticket)
        else:
            target = draw.choice(opened)
            everything = EndPaths(ticket, target, None, FinishReason.CANCELLED)
            one = EndPaths(ticket, target, (0,), FinishReason.CANCELLED)
            loop.handle(
                draw.choice([AddPaths(ticket, target, 1), everything, one, CloseGroup(ticket, target)])
            )
        for _ in range(draw.randint(0, 3)):
            loop.turn()
    drain(loop)
    while any(entry.unfinished for entry in loop.scheduler.groups.values()):
        kept = [entry.id for entry in loop.scheduler.groups.values() if not entry.unfinished]
        assert kept, "nobody keeps room, and yet somebody waits"
        loop.handle(CloseGroup(1000 + kept[0], kept[0]))
        drain(loop)


def test_the_same_events_give_the_same_plans():
    plans = []
    for _ in range(2):
        loop, runner = new_loop(1)
        for g in range(4):
            loop.handle(Open(g, g, group(prompt=3 + 8 * g, n=5, seed=g)))
            loop.turn()
        drain(loop)
        plans.append(runner.plans)
    assert plans[0] == plans[1]


def test_everything_that_crosses_the_boundary_survives_serialisation():
    loop, runner = new_loop()
    commands = [
        Open(0, 0, group()),
        AddPaths(1, 0, 2),
        CloseThinking(2, 0, (1,)),
        CloseGroup(3, 0),
        Shutdown(4),
    ]
    messages = []
    for command in commands:
        loop.handle(pickle.loads(pickle.dumps(command)))
        loop.turn()
        messages += loop.take()
    for thing in [*commands, *messages, *runner.plans]:
        assert pickle.loads(pickle.dumps(thing)) == thing


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
    loop, runner = new_loop()
    runner.fail_at = 5
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
    loop, runner = new_loop()
    loop.handle(Open(0, 0, group(n=2, max_tokens=60, seed=5)))
    loop.turn(), loop.turn()
    loop.handle(CloseThinking(1, 0, (1,)))
    loop.turn()
    assert [runner.owners[s][1] for s in runner.plans[-1].closes] == [1]
    loop.handle(CloseThinking(2, 0, (0,)))
    loop.handle(EndPaths(3, 0, (0,), FinishReason.CANCELLED))
    loop.handle(Open(4, 1, group(prompt=1, n=1)))
    loop.turn()
    assert runner.plans[-1].closes == ()


COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["open", "cancel", "cancel_one", "add", "close", "turn", "turn", "turn"]),
        st.integers(0, 5),
        st.integers(1, 40),
        st.integers(1, 9),
    ),
    max_size=50,
)


@settings(deadline=None, max_examples=150)
@given(COMMANDS, st.integers(0, 1))
def test_any_sequence_of_commands_leaves_every_page_counted_and_every_stream_ended_once(commands, overlap):
    loop, _ = new_loop(overlap)
    messages: list[object] = []
    opened: dict[int, int] = {}
    adds: dict[int, int] = {}
    for ticket, (kind, which, size, n) in enumerate(commands):
        if kind == "open":
            opened[ticket] = n
            loop.handle(
                Open(
                    ticket,
                    ticket,
                    group(prompt=size, n=n, max_tokens=1 + size, seed=which, stays_open=size % 2 == 0),
                )
            )
        elif kind == "turn":
            loop.turn()
        elif opened:
            target = list(opened)[which % len(opened)]
            if kind == "add":
                adds[ticket] = target
            command = {
                "cancel": EndPaths(ticket, target, None, FinishReason.CANCELLED),
                "cancel_one": EndPaths(ticket, target, (n,), FinishReason.CANCELLED),
                "add": AddPaths(ticket, target, n),
                "close": CloseGroup(ticket, target),
            }[kind]
            loop.handle(command)
            loop.turn()
        messages += loop.take()
        loop.scheduler.pages.check(loop.scheduler.tables())
    for target in opened:
        loop.handle(CloseGroup(10_000 + target, target))
    messages += drain(loop)
    assert loop.scheduler.pages.used == 0
    assert loop.scheduler.idle
    for target, n in opened.items():
        events = events_of(messages, target)
        added = sum(len(m.indices) for m in messages if isinstance(m, Reply) and adds.get(m.ticket) == target)
        ended = [e.index for e in events if isinstance(e, PathFinished)]
        assert sorted(ended) == list(range(n + added)), "each path ends exactly once"
        assert isinstance(events[-1], GroupFinished)
        assert sum(isinstance(e, GroupFinished) for e in events) == 1
        for e in events:
            if isinstance(e, PathFinished):
                assert len(stream_of(events, e.index)) == e.usage.generated
