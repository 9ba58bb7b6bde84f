"""Draws a run on a terminal while it lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

from reasoner.cli import table, text
from reasoner.cli.watch import Glance, Meter, board

if TYPE_CHECKING:
    from reasoner.api import Reasoner
    from reasoner.result import Result
    from reasoner.run import Run

REFRESH_S = 0.2
# Finer than an event log needs, so that the table of a slow model moves.
PROGRESS_TOKENS = 8


@dataclass
class Watcher:
    """Looks at a run, frame by frame. notes: lines under the table; they may grow while it runs."""

    run: Run
    reasoner: Reasoner
    title: str
    notes: Sequence[str] = ()
    clock: Callable[[], float] = time.monotonic
    _meter: Meter = field(default_factory=Meter, repr=False)
    _begun: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock()

    def look(self) -> Glance:
        now, view, stats = self.clock(), self.run.view, self.reasoner.stats()
        return Glance(
            view=view,
            budget=self.run.plan.capabilities.budget,
            judged=self.run.plan.checker.verifier is not None,
            elapsed=now - self._begun,
            rates=self._meter.read(now, {path.index: path.generated for path in view.paths}),
            title=self.title,
            pages=(stats.pages_used, stats.pages_total) if stats.pages_total else None,
            notes=tuple(self.notes),
        )


async def draw(watcher: Watcher, console: Console, *, keep: bool = True) -> Result:
    """The result of the run, with its table on the console while it lasts, and after that where `keep` is set."""
    unicode = console.encoding.startswith("utf")
    ended = asyncio.ensure_future(watcher.run.result())

    def show(glance: Glance) -> None:
        live.update(table.render(board(glance), height=console.height - 1, unicode=unicode), refresh=True)

    with Live(console=console, auto_refresh=False, transient=not keep, vertical_overflow="crop") as live:
        while not (await asyncio.wait({ended}, timeout=REFRESH_S))[0]:
            show(watcher.look())
        result = await ended
        show(replace(watcher.look(), selected=result.selected_path, notes=()))
    return result


def heading(run: Run, reasoner: Reasoner) -> str:
    """What is being run: enough to run it again."""
    plan = run.plan
    judge = f", verifier {plan.checker.verifier.name}" if plan.checker.verifier is not None else ""
    oracle = " (oracle run)" if plan.checker.oracle else ""
    paths = text.plural(plan.policy.n, "path")
    return f"{plan.policy.name}, {paths}{judge}{oracle}, model {reasoner.model.name}, seed {plan.seed}"
