"""Draws a board: one row per path, one footer. Pure: the same board and size give the same picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from reasoner.cli import text
from reasoner.cli.board import Board, PathRow

BAR_CELLS = 14
FRAME_LINES = 6  # title, header, rule, "and more", footer, cursor


@dataclass(frozen=True, slots=True)
class State:
    """How a state looks: glyph, its ASCII stand-in, style, and whether the path still runs."""

    glyph: str
    ascii: str
    style: str
    alive: bool


STATES = {
    "waiting": State("·", ".", "dim", True),
    "thinking": State("◐", "~", "cyan", True),
    "answering": State("◑", ">", "blue", True),
    "checking": State("◌", "?", "yellow", True),
    "ended": State("○", "o", "", False),
    "passed": State("✔", "+", "green", False),
    "failed": State("✘", "x", "red", False),
    "unknown": State("?", "?", "yellow", False),
    "cut": State("✂", "/", "magenta", False),
    "cancelled": State("–", "-", "dim", False),
    "error": State("!", "!", "bold red", False),
}


def render(board: Board, *, height: int = 40, unicode: bool = True) -> RenderableType:
    """The table and its footer in at most `height` lines, as long as two rows fit."""
    rows = visible(board.rows, max(2, height - FRAME_LINES - len(board.notes)))
    hidden = len(board.rows) - len(rows)
    parts: list[RenderableType] = []
    if board.title:
        parts.append(Text(board.title, style="bold", no_wrap=True, overflow="ellipsis"))
    parts.append(_table(rows, unicode))
    if hidden:
        parts.append(Text(f"  and {text.plural(hidden, 'more path')}", style="dim"))
    parts.append(footer(board))
    parts.extend(Text(note, style="yellow") for note in board.notes)
    return Group(*parts)


def visible(rows: Sequence[PathRow], limit: int) -> list[PathRow]:
    """The rows worth showing when not all fit: selected, verdicts, running paths, the rest; in path order."""
    if len(rows) <= limit:
        return list(rows)
    return sorted(sorted(rows, key=_rank)[:limit], key=lambda row: row.index)


def _rank(row: PathRow) -> tuple[int, int]:
    if row.selected or row.state == "passed":
        return 0, row.index
    if STATES[row.state].alive and row.state != "waiting":
        return 1, row.index
    return (2 if row.answer is not None else 3), row.index


def _table(rows: Sequence[PathRow], unicode: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if unicode else box.ASCII, pad_edge=False, show_edge=False)
    table.add_column("path", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True, min_width=len("✔ cancelled"))
    table.add_column("thinking tokens", no_wrap=True)
    table.add_column("tok/s", justify="right", no_wrap=True, min_width=5)
    table.add_column("answer", no_wrap=True, overflow="ellipsis", min_width=12, ratio=1)
    table.add_column("verdict", no_wrap=True, min_width=7)
    for row in rows:
        state = STATES[row.state]
        table.add_row(
            str(row.index),
            f"{state.glyph if unicode else state.ascii} {row.state}",
            _thinking(row, unicode),
            f"{row.rate:.0f}" if state.alive and row.rate else "",
            Text(" ".join(row.answer.split()) if row.answer else ""),
            Text(row.verdict, style=_verdict_style(row.verdict)),
            style=Style.parse(state.style) + Style(bold=row.selected or None),
        )
    return table


def _thinking(row: PathRow, unicode: bool) -> Text:
    full, empty = ("━", "╌") if unicode else ("#", ".")
    if row.think_budget is None:
        return Text(text.count(row.think))
    filled = round(BAR_CELLS * min(1.0, row.think / row.think_budget)) if row.think_budget else BAR_CELLS
    numbers = f"{text.count(row.think):>6}/{text.count(row.think_budget)}"
    return Text.assemble(full * filled, (empty * (BAR_CELLS - filled), "dim"), " ", numbers)


def _verdict_style(verdict: str) -> str:
    return {"pass": "bold green", "fail": "red", "unknown": "yellow"}.get(verdict, "")


def footer(board: Board) -> Text:
    """Tokens spent and saved, pages, time, votes: one line."""
    spent = f"{text.count(board.spent)} tokens spent"
    if board.budget is not None:
        spent = f"{text.count(board.spent)} of {text.count(board.budget)} tokens spent"
    parts = [spent]
    if board.saved:
        parts.append(f"up to {text.count(board.saved)} saved")
    if board.pages_used is not None:
        total = "" if board.pages_total is None else f" of {text.count(board.pages_total)}"
        parts.append(f"pages {text.count(board.pages_used)}{total}")
    parts += [f"{board.rate:,.0f} tok/s", text.seconds(board.elapsed)]
    if board.votes:
        parts.append("votes " + votes(board.votes))  # last, because answers can be long
    return Text("  ".join(parts), style="bold", overflow="ellipsis", no_wrap=True)


def votes(counted: Sequence[tuple[str, int]], most: int = 3) -> str:
    """The most frequent answers with their number of paths: `42 x 5, 41 x 2, +3 others`."""
    best = sorted(counted, key=lambda pair: -pair[1])
    shown = ", ".join(f"{answer} x {n}" for answer, n in best[:most])
    return shown if len(best) <= most else f"{shown}, +{len(best) - most} others"
