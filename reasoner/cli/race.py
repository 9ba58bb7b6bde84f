"""Runs one order: loads the model, starts the paths, shows them while they run, says what came out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.console import Console

from reasoner import Reasoner
from reasoner.cli import report
from reasoner.cli.codes import ABORTED
from reasoner.cli.live import PROGRESS_TOKENS, Watcher, draw, heading
from reasoner.cli.solve import Order
from reasoner.cli.stopper import Stopper

if TYPE_CHECKING:
    from reasoner.result import Result
    from reasoner.run import Run


def run(order: Order) -> int:
    """The exit code."""
    return asyncio.run(_solve(order, Console(stderr=True)))


async def _solve(order: Order, console: Console) -> int:
    shown = order.table and console.is_terminal
    if shown:
        console.print("loading the model ...", style="dim")
    async with Reasoner.load(order.model, **order.load) as reasoner:
        options = dict(order.solve)
        if shown and "events" not in options:
            options["progress_every"] = PROGRESS_TOKENS
        run = reasoner.start(order.text, **options)
        result, aborted = await _follow(run, reasoner, console, shown)
    if not aborted:
        _answer(result, order.json)
    for line in [f"aborted: {report.cost(result)}"] if aborted else report.summary(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return ABORTED if aborted else report.exit_code(result)


async def _follow(run: Run, reasoner: Reasoner, console: Console, shown: bool) -> tuple[Result, bool]:
    """The result, and whether the user has aborted the run."""
    notes: list[str] = []
    stopper = Stopper(run, notes.append if shown else console.print)
    with stopper.listening():
        if shown:
            result = await draw(Watcher(run, reasoner, heading(run, reasoner), notes), console)
        else:
            result = await run.result()
    return result, stopper.aborted


def _answer(result: Result, json: bool) -> None:
    if json:
        print(result.to_line())
    elif result.answer is not None:
        print(result.answer)
