"""Host time of the step loop without a model: what it takes up to a launch, and from a result to its events.

    python -m scripts.bench_loop

A runner that answers at once stands in for the device. Medians in milliseconds, and the worst round: the one in which
siblings of equal length all need a new page, or that of another program on this machine.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass, replace

import numpy as np

from engine.loop import StepLoop
from engine.messages import Open
from engine.scheduler.limits import Limits
from engine.scheduler.plan import Pending, StepPlan, StepResult
from engine.scheduler.scheduler import Scheduler
from engine.types import Group, Phase, SamplingParams, Statistic

PAGE, PROMPT, WARM_UP, ROUNDS = 64, 100, 20, 200


@dataclass(frozen=True, slots=True)
class Case:
    rows: int
    groups: int
    repeat: int
    statistics: tuple[Statistic, ...] = ()

    @property
    def name(self) -> str:
        asked = ", statistics" if self.statistics else ""
        return f"{self.rows:5} rows, {self.groups:3} groups, repeat {self.repeat}{asked}"


CASES = (
    Case(16, 1, 1),
    Case(16, 1, 8),
    Case(256, 16, 1),
    Case(256, 16, 8),
    Case(2048, 128, 1),
    Case(2048, 128, 8),
    Case(2048, 1, 8),
    Case(2048, 128, 8, tuple(Statistic)),
)


class Instant:
    """Commits one token a row and pass. Notes when a plan came and when its result was taken."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.planned = self.taken = 0.0
        self._last = StepResult.blank(-1, 1, 0)

    def check(self, sampling: SamplingParams) -> None:
        """Everything is honoured."""

    def launch(self, plan: StepPlan) -> Pending:
        self.planned = time.perf_counter()
        rows = len(plan.slots)
        result = StepResult.blank(plan.step, plan.repeat, rows)
        result.count[:] = plan.repeat
        result.phase[:] = Phase.THINKING
        result.tokens[:] = np.arange(rows)
        result.generated[:] = result.think[:] = np.array(plan.positions) + (plan.repeat + 1 - PROMPT)
        if self._case.statistics:
            result = replace(result, statistics=np.ones((rows, len(Statistic)), dtype=np.float32))
        self._last = result
        return self

    def result(self) -> StepResult:
        self.taken = time.perf_counter()
        return self._last


def measure(case: Case) -> tuple[list[float], list[float]]:
    """Seconds before each launch, and behind each result."""
    tokens = case.repeat * (WARM_UP + ROUNDS + 4)
    pages = case.rows * (PROMPT + tokens + 2 * PAGE) // PAGE
    runner = Instant(case)
    limits = Limits(pages, PAGE, case.rows, 4096, 16, 1 << 20, case.repeat)
    loop = StepLoop(Scheduler(limits), runner, overlap=0, kv_bytes_per_page=1)
    sampling = SamplingParams(tokens, statistics=case.statistics)
    for group in range(case.groups):
        asked = Group(tuple(range(PROMPT)), case.rows // case.groups, sampling, watched=case.repeat == 1)
        loop.handle(Open(group, group, asked))
    while not loop.take() or loop.stats.paths_running < case.rows:
        loop.turn()
    before, behind = [], []
    for _ in range(WARM_UP + ROUNDS):
        begun = time.perf_counter()
        loop.turn()
        behind.append(time.perf_counter() - runner.taken)
        before.append(runner.planned - begun)
        loop.take()
    assert loop.stats.paths_running == case.rows
    return before[WARM_UP:], behind[WARM_UP:]


def main() -> None:
    gc.freeze()
    print(f"{'':48} to the launch      from the result    both")
    print(f"{'':48} median   worst    median   worst    median")
    for case in CASES:
        before, behind = measure(case)
        both = [a + b for a, b in zip(before, behind, strict=True)]
        numbers = [statistics.median(before), max(before), statistics.median(behind), max(behind)]
        row = " ".join(f"{1000 * number:8.3f}" for number in [*numbers, statistics.median(both)])
        print(f"{case.name:44} {row}")


if __name__ == "__main__":
    main()
