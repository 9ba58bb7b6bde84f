"""What the demo does: solves problems, records paths that all end, and says what the recording tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from reasoner import Reasoner
from reasoner.cli import text
from reasoner.cli.codes import NOT_SOLVED, OK
from reasoner.cli.live import PROGRESS_TOKENS, Watcher, draw
from reasoner.cli.machine import peak_memory
from reasoner.demo import Estimate, RecordedPath, Recording, scaling
from reasoner.evaluate import tasks
from reasoner.problem import Problem

if TYPE_CHECKING:
    from reasoner.result import Result


# More than any prompt of the set takes: how pages divide it between paths is the engine's own business.
PROMPT_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Settings:
    """path_budget: tokens of a path while solving, one problem after the other.

    recorded_budget: tokens of a path while recording, where all paths end; together: problems recorded at a
    time, because a step over more paths reads the weights no more often.
    """

    task_set: str = "countdown4_128"
    problems: int = 8
    n: int = 16
    path_budget: int = 2048
    recorded_budget: int = 1024
    together: int = 4
    seed: int = 0

    @property
    def kv_tokens(self) -> int:
        """Room for all paths at once, and no more: the demo stays small on machines that have more to give."""
        solving = self.n * (self.path_budget + PROMPT_TOKENS)
        recording = self.together * self.n * (self.recorded_budget + PROMPT_TOKENS)
        return max(solving, recording)


def run(settings: Settings) -> int:
    """0 where at least one problem was solved."""
    return asyncio.run(_demo(settings, Console()))


async def _demo(settings: Settings, console: Console) -> int:
    begun = time.monotonic()
    chosen = tasks.get(settings.task_set)
    problems = list(chosen.problems(settings.problems))
    say(
        console,
        f"Reasoner demo: {len(problems)} problems that the model has never seen, {settings.n} paths each.",
    )
    async with Reasoner.load(kv_tokens=settings.kv_tokens) as reasoner:
        model = reasoner.model
        say(
            console,
            f"Model {model.name}: {(model.parameters or 0) / 1e6:.1f} million parameters, {model.dtype}, "
            f"loaded in {text.seconds(time.monotonic() - begun)}.\n",
        )
        solved = await solve_all(reasoner, problems, chosen.verifier, settings, console, begun)
        say(
            console,
            f"\nNow the same problems with paths that all end, {settings.recorded_budget:,} tokens each:",
        )
        recordings = await record_all(reasoner, problems, chosen.verifier, settings, console)
    console.print(scaling_table(scaling(recordings)))
    say(
        console,
        f"{settings.n} recorded paths a problem; the rows are exact averages over all choices of so many of them.",
    )
    say(console, f"Peak memory {text.size(peak_memory())}, {text.seconds(time.monotonic() - begun)} in all.")
    return OK if solved else NOT_SOLVED


async def solve_all(
    reasoner: Reasoner,
    problems: Sequence[Problem],
    verifier: str,
    settings: Settings,
    console: Console,
    begun: float,
) -> int:
    """Solves one problem after the other and prints a row for each. The number of solved ones."""
    solved = spent = 0
    started = time.monotonic()
    say(console, ROW.format("numbers", "target", "answer", "path", "tokens", "seconds"), style="bold")
    for problem in problems:
        run = reasoner.start(
            problem,
            policy="first_verified",
            n=settings.n,
            verifier=verifier,
            seed=settings.seed,
            path_budget=settings.path_budget,
            progress_every=PROGRESS_TOKENS,
        )
        if console.is_terminal:
            result = await draw(Watcher(run, reasoner, problem.prompt), console, keep=False)
        else:
            result = await run.result()
        solved += result.verified
        spent += result.usage.completion_tokens
        say(console, row(problem, result))
        if solved == 1 and result.verified:
            say(
                console,
                f"  first verified answer {text.seconds(time.monotonic() - begun)} after the start",
                style="dim",
            )
    rate = spent / (time.monotonic() - started)
    say(console, f"{solved} of {len(problems)} verified, {spent:,} tokens, {rate:,.0f} tok/s.", style="bold")
    return solved


ROW = "{:<14} {:>6}  {:<26} {:>4} {:>8} {:>8}"


def row(problem: Problem, result: Result) -> str:
    """One solved problem. tokens: of all its paths."""
    numbers = " ".join(str(number) for number in problem.data["numbers"])
    answer = (result.answer or "?") if result.verified else "not solved"
    path = f"{result.selected_path}" if result.verified else ""
    return ROW.format(
        numbers,
        problem.data["target"],
        answer,
        path,
        f"{result.usage.completion_tokens:,}",
        f"{result.timing.total_s:.1f}",
    )


async def record_all(
    reasoner: Reasoner, problems: Sequence[Problem], verifier: str, settings: Settings, console: Console
) -> list[Recording]:
    """One recording a problem, a few problems at a time. Another seed than the solving's: a fresh sample."""
    recordings: list[Recording] = []
    with console.status("") as status:  # shows on a terminal only
        for first in range(0, len(problems), settings.together):
            some = problems[first : first + settings.together]
            status.update(f"{len(some) * settings.n} paths on problems {first + 1} to {first + len(some)}")
            results = await reasoner.batch(
                some,
                concurrency=settings.together,
                policy="best_of_n",
                n=settings.n,
                verifier=verifier,
                path_budget=settings.recorded_budget,
                seed=settings.seed + 1,
            )
            recordings += map(recording_of, results)
    return recordings


def recording_of(result: Result) -> Recording:
    return tuple(
        RecordedPath(path.tokens.generated, path.verdict is not None and path.verdict.passed)
        for path in result.paths
    )


def scaling_table(estimates: Sequence[Estimate]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("paths", "solved", "tokens, first verified", "tokens, all end", "saved"):
        table.add_column(column, justify="right")
    for e in estimates:
        table.add_row(
            str(e.n),
            f"{e.pass_rate:.0%}",
            f"{e.tokens_first_verified:,.0f}",
            f"{e.tokens_all_end:,.0f}",
            f"{e.saved:.0%}",
        )
    return table


def say(console: Console, line: str, style: str | None = None) -> None:
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
