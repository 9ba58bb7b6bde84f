"""Random histories of one step loop, and what must hold on every one of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from engine.messages import (
    AddPaths,
    CloseGroup,
    CloseThinking,
    Command,
    Emitted,
    EndPaths,
    Open,
    Reply,
    Resume,
)
from engine.scheduler.limits import Limits
from engine.scheduler.plan import StepPlan
from engine.types import Committed, FinishReason, GroupFinished, PathFinished, PathHeld
from tests.engine.device_model import HOLDING, THINKING, drain, group, new_loop, stream_of, token_of


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


@dataclass
class Life:
    """A loop under random commands; overlap, sizes and queued steps are drawn as well. turns: commands and rounds."""

    seed: int
    turns: int
    messages: list[object] = field(default_factory=list)
    asked: dict[int, Command] = field(default_factory=dict)
    opened: dict[int, Open] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    passes: int = 0

    def run(self) -> None:
        self.draw = draw = random.Random(self.seed)
        page_size = draw.choice([1, 2, 4])
        limits = Limits(
            pages=draw.randint(100, 400) // page_size,
            page_size=page_size,
            max_paths=draw.randint(1, 8),
            step_tokens=32,
            block=8,
            context_length=400,
            queue_steps=draw.choice([1, 2, 6, 8]),
        )
        self.loop, self.device = new_loop(draw.randint(0, 2), limits)
        for ticket in range(self.turns):
            if draw.random() < 0.25:
                self.ask(self.command(ticket))
            self.turn()
        self.finish()

    def ask(self, command: Command) -> None:
        self.asked[command.ticket] = command
        self.loop.handle(command)

    def command(self, ticket: int) -> Command:
        draw = self.draw
        live = [group_id for group_id in self.opened if group_id not in self.ended]
        if len(live) < draw.randint(1, 8):
            budget = draw.choice([1, 2, 7, 20, 40, 60])
            asked = group(
                prompt=draw.randint(1, draw.choice([40, 40, 100])),
                n=draw.randint(1, 6),
                max_tokens=budget,
                seed=ticket,
                stays_open=draw.random() < 0.3,
                watched=draw.random() < 0.3,
                thinking=draw.choice([None, THINKING, HOLDING, HOLDING]) if budget > 1 else None,
            )
            self.opened[ticket] = Open(ticket, ticket, asked)
            return self.opened[ticket]
        target = draw.choice(live)
        chosen = draw.choice([None, (0,), (draw.randint(0, 5),), (1, 0, 1)])
        kinds = [
            EndPaths(ticket, target, chosen, FinishReason.CANCELLED),
            EndPaths(ticket, target, chosen or (2,), FinishReason.STOP_STRING),
            AddPaths(ticket, target, draw.randint(1, 3)),
            CloseThinking(ticket, target, chosen),
            Resume(ticket, target, chosen),
            Resume(ticket, target, None),
            CloseGroup(ticket, target),
        ]
        return draw.choices(kinds, weights=[1, 2, 3, 2, 6, 6, 1])[0]

    def turn(self) -> None:
        loop, device = self.loop, self.device
        launched = len(device.plans)
        loop.turn()
        taken = loop.take()
        self.messages += taken
        self.ended |= {
            m.group_id for m in taken if isinstance(m, Emitted) and isinstance(m.event, GroupFinished)
        }
        for plan in device.plans[launched:]:
            self.passes += plan.repeat
            self.check_repeat(plan)
        pages = loop.scheduler.pages
        assert all(pages.refs(page) for page in device.fenced), (
            "a page is free before a launched step is over"
        )
        if self.draw.random() < 0.1:
            pages.check(loop.scheduler.tables())

    def check_repeat(self, plan: StepPlan) -> None:
        assert plan.repeat in (1, 2, 4, 8)
        assert plan.repeat <= self.loop.scheduler.limits.queue_steps
        if plan.repeat > 1:
            assert not any((plan.closes, plan.resumes, plan.chunks))
            owners = [self.device.slots[slot].admit.seed for slot in plan.slots]
            assert not any(self.opened[seed].group.watched for seed in owners)

    def finish(self) -> None:
        """What is resumed goes on to its end; what is closed gives every page back."""
        for ticket in range(10**6, 10**6 + 100):
            self.messages += drain(self.loop)
            if not self.loop.stats.paths_running:
                break
            self.resume_all(ticket * len(self.opened))
        assert not self.loop.stats.paths_running, "a path that nobody holds does not end"
        for group_id in self.opened:
            self.ask(CloseGroup(10**9 + group_id, group_id))
        self.messages += drain(self.loop)
        assert self.loop.scheduler.idle
        assert self.loop.scheduler.pages.used == 0
        self.loop.scheduler.pages.check([])
        self.check_streams()
        self.check_holds()

    def resume_all(self, ticket: int) -> None:
        for at, group_id in enumerate(self.opened):
            self.ask(Resume(ticket + at, group_id, None))

    def check_streams(self) -> None:
        added = Counter()
        by_group: dict[int, list[object]] = {group_id: [] for group_id in self.opened}
        for message in self.messages:
            if isinstance(message, Emitted):
                by_group[message.group_id].append(message.event)
            if isinstance(message, Reply) and message.indices:
                added[self.asked[message.ticket].group_id] += len(message.indices)
        for group_id, events in by_group.items():
            if not events:
                continue  # refused: it can never fit
            ended = {event.index: event for event in events if isinstance(event, PathFinished)}
            finished = sum(isinstance(event, PathFinished) for event in events)
            assert finished == len(ended) == self.opened[group_id].group.n + added[group_id]
            assert sum(isinstance(event, GroupFinished) for event in events) == 1
            assert isinstance(events[-1], GroupFinished)
            assert events[-1].usage.generated == sum(event.usage.generated for event in ended.values())
            steps = [event.step for event in events if isinstance(event, Committed)]
            assert steps == sorted(set(steps)), "one event a step"
            injected = Counter()
            for event in events:
                if isinstance(event, Committed):
                    injected.update({path.index: path.injected for path in event.paths})
            for index, event in ended.items():
                assert event.usage.injected == injected[index]
                want = [token_of(group_id, index, nth + 1) for nth in range(event.usage.generated)]
                assert stream_of(events, index) == want

    def check_holds(self) -> None:
        """A held path gets no token until somebody has asked to resume it."""
        held: set[tuple[int, int]] = set()
        for message in self.messages:
            match message:
                case Reply(ticket) if isinstance(asked := self.asked.get(ticket), Resume):
                    held -= {
                        (group_id, index)
                        for group_id, index in held
                        if group_id == asked.group_id and (asked.indices is None or index in asked.indices)
                    }
                case Emitted(group_id, PathHeld(index)):
                    held.add((group_id, index))
                case Emitted(group_id, Committed(_, paths)):
                    assert not held & {(group_id, path.index) for path in paths}
