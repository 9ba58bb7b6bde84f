"""A device without a model: it runs step plans as the contract says and checks each of them on the way.

Every token is a function of its path and place, so a stream that lost, doubled or moved one is seen. Every page that
a launched step may touch is fenced until that step's result has been taken.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from engine.loop import StepLoop
from engine.messages import Emitted
from engine.sampling.stops import FinishCode
from engine.scheduler.limits import Limits
from engine.scheduler.plan import Admit, Pending, StepPlan, StepResult
from engine.scheduler.scheduler import Scheduler
from engine.types import Committed, Group, Phase, SamplingParams, Thinking

LIMITS = Limits(pages=64, page_size=4, max_paths=6, step_tokens=32, block=8, context_length=200)
THINKING = Thinking(1, 2, (2,))
HOLDING = Thinking(1, 2, (2,), hold=True)


class Violation(BaseException):
    """A plan that breaks the contract. Not an Exception: the loop must not take it for a device that fails."""


def require(holds: bool, rule: str) -> None:
    if not holds:
        raise Violation(rule)


def token_of(seed: int, index: int, nth: int) -> int:
    """The nth token of a path, from 1."""
    return hash((seed, index, nth)) % 100_000


def length_of(seed: int, index: int) -> int:
    """Tokens after which the model ends this path, if its budget allows."""
    return random.Random(seed * 1000 + index).randint(1, 40)


def think_of(seed: int, index: int) -> int:
    """The token with which its thinking ends by itself."""
    return random.Random(f"{seed} thinks {index}").randint(1, 40)


@dataclass(slots=True)
class Slot:
    """What the device knows of one path. position: of its next input token."""

    admit: Admit
    position: int
    generated: int = 0
    finish: int = FinishCode.RUNNING
    thinking: bool = True
    closing: bool = False

    def advance(self) -> tuple[int, bool]:
        """(token, whether it was forced) of one pass."""
        admit, sampling = self.admit, self.admit.sampling
        self.generated += 1
        self.position += 1
        if self.generated >= sampling.max_tokens:
            self.finish = FinishCode.LENGTH
        if self.generated >= length_of(admit.seed, admit.index):
            self.finish = FinishCode.EOS
        forced = self.closing and self.thinking
        if sampling.thinking is not None and self.thinking:
            self.thinking = not (forced or self.generated >= think_of(admit.seed, admit.index))
            if not self.thinking and sampling.thinking.hold and self.finish == FinishCode.RUNNING:
                self.finish = FinishCode.HELD
        return token_of(admit.seed, admit.index, self.generated), forced


@dataclass(slots=True)
class Launched:
    device: DeviceModel
    outcome: StepResult
    pages: set[int]

    def result(self) -> StepResult:
        require(self.device.flight.popleft() is self, "results are taken in the order of the launches")
        return self.outcome


@dataclass(slots=True)
class DeviceModel:
    """fail_at: the step that raises. plans: all that launched something. closed: for good."""

    page_size: int = LIMITS.page_size
    fail_at: int = -1
    closed: bool = False
    slots: dict[int, Slot] = field(default_factory=dict)
    tables: dict[int, list[int]] = field(default_factory=dict)
    plans: list[StepPlan] = field(default_factory=list)
    flight: deque[Launched] = field(default_factory=deque)

    def check(self, sampling: SamplingParams) -> None:
        """Everything is honoured."""

    def launch(self, plan: StepPlan) -> Pending:
        if plan.step == self.fail_at:
            raise RuntimeError("the device is gone")
        require(plan.repeat == 1 or not plan.chunks, "prompts are prefilled one step at a time")
        self._apply(plan)
        result = StepResult.blank(plan.step, plan.repeat, len(plan.slots))
        pages = {page for copy in plan.copies for page in (copy.source, copy.target)}
        pages.update(*(self.tables[chunk.table] for chunk in plan.chunks))
        pages.update(*(self.tables[slot] for slot in plan.slots))
        for row, (slot, position) in enumerate(zip(plan.slots, plan.positions, strict=True)):
            self._run_row(result, row, slot, position)
        launched = Launched(self, result, pages)
        if not plan.empty:
            self.plans.append(plan)
            self.flight.append(launched)
        return launched

    def close(self) -> None:
        self.closed = True

    @property
    def fenced(self) -> set[int]:
        return {page for step in self.flight for page in step.pages}

    def _apply(self, plan: StepPlan) -> None:
        for table in plan.releases:
            self.tables.pop(table, None)
            self.slots.pop(table, None)
        for admit in plan.admits:
            require(admit.slot not in self.slots, "a slot has one owner")
            self.slots[admit.slot] = Slot(admit, admit.position)
            self.tables[admit.slot] = self.tables.get(admit.prompt_table, [])[: admit.shared_pages]
            require(
                len(self.tables[admit.slot]) == admit.shared_pages, "a prompt's pages are in its table first"
            )
        fenced = self.fenced
        for edit in plan.edits:
            table = self.tables.setdefault(edit.table, [])
            require(edit.at == len(table), "a table grows at its end")
            require(edit.page not in fenced, "a page changes its owner before a launched step is over")
            table.append(edit.page)
        for slot in plan.closes:
            self.slots[slot].closing = True
        for slot in plan.resumes:
            require(self.slots[slot].finish == FinishCode.HELD, "only a held path is resumed")
            self.slots[slot].finish = FinishCode.RUNNING

    def _run_row(self, result: StepResult, row: int, slot: int, position: int) -> None:
        path = self.slots[slot]
        if path.finish == FinishCode.RUNNING:
            require(position == path.position, "each step writes the next position")
        for repetition in range(len(result.tokens)):
            if path.finish != FinishCode.RUNNING:
                break
            pages = len(self.tables[slot])
            require(path.position // self.page_size < pages, "a page is there before it is written")
            result.tokens[repetition, row], forced = path.advance()
            result.count[row] += 1
            result.injected[row] += forced
        result.generated[row], result.finish[row] = path.generated, path.finish
        result.phase[row] = Phase.THINKING if path.thinking else Phase.ANSWER


def new_loop(overlap: int = 0, limits: Limits = LIMITS) -> tuple[StepLoop, DeviceModel]:
    device = DeviceModel(limits.page_size)
    return StepLoop(Scheduler(limits), device, overlap=overlap, kv_bytes_per_page=1), device


def group(
    prompt: int = 9,
    n: int = 3,
    max_tokens: int = 50,
    seed: int = 0,
    stays_open: bool = False,
    watched: bool = True,
    thinking: Thinking | None = None,
) -> Group:
    sampling = SamplingParams(max_tokens, thinking=thinking)
    return Group(tuple(range(prompt)), n, sampling, seed, stays_open=stays_open, watched=watched)


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
