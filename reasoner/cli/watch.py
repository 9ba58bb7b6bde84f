"""Turns what a run knows into a board: pure, except for the meter that remembers the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from engine.types import FinishReason, Phase
from reasoner.budget import Budget
from reasoner.cli.board import Board, PathRow
from reasoner.view import PathState, PathView, View
from reasoner.votes import tally

WINDOW_S = 3.0

_RUNNING = {Phase.UNDECIDED: "waiting", Phase.THINKING: "thinking", Phase.ANSWER: "answering"}
_CUT = (FinishReason.LENGTH,)
_JUDGED = {"pass": "passed", "fail": "failed", "unknown": "unknown"}


class Meter:
    """Tokens per second of every path over the last seconds, from counts that only grow."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window = window_s
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def read(self, now: float, counts: Mapping[int, int]) -> dict[int, float]:
        """Takes the counts at `now` (seconds, any origin) and gives the rate of each path."""
        return {path: self._rate(now, path, tokens) for path, tokens in counts.items()}

    def _rate(self, now: float, path: int, tokens: int) -> float:
        seen = self._seen.setdefault(path, deque())
        seen.append((now, tokens))
        while len(seen) > 2 and now - seen[1][0] >= self._window:
            seen.popleft()
        begin, before = seen[0]
        return (tokens - before) / (now - begin) if now > begin else 0.0


@dataclass(frozen=True, slots=True)
class Glance:
    """All that a board is made of. selected: known once the result is. pages: (used, total)."""

    view: View
    budget: Budget
    judged: bool
    elapsed: float
    rates: Mapping[int, float]
    title: str = ""
    selected: int | None = None
    pages: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()


def board(glance: Glance) -> Board:
    view, pages = glance.view, glance.pages
    rows = tuple(_row(path, glance) for path in view.paths)
    return Board(
        rows=rows,
        title=glance.title,
        votes=tuple((vote.answer, vote.count) for vote in tally(view)),
        spent=view.tokens,
        budget=glance.budget.total,
        saved=saved(view, glance.budget),
        pages_used=pages[0] if pages else None,
        pages_total=pages[1] if pages else None,
        elapsed=glance.elapsed,
        rate=view.tokens / glance.elapsed if glance.elapsed > 0 else 0.0,
        notes=glance.notes,
    )


def saved(view: View, budget: Budget) -> int:
    """Tokens that cancelled paths were still allowed to generate: the most that cancelling can have saved."""
    cancelled = (path for path in view.paths if path.state is PathState.CANCELLED)
    return sum(max(0, budget.path - path.generated) for path in cancelled)


def think_limit(budget: Budget) -> int:
    """Thinking tokens of a path before its thinking is closed by force."""
    room = max(0, budget.path - budget.close - budget.answer_reserve)
    return room if budget.think is None else min(budget.think, room)


def _row(path: PathView, glance: Glance) -> PathRow:
    return PathRow(
        index=path.index,
        state=state(path, glance.judged),
        think=path.think,
        think_budget=think_limit(glance.budget),
        generated=path.generated,
        rate=glance.rates.get(path.index, 0.0),
        answer=path.answer,
        verdict="" if path.verdict is None else path.verdict.outcome.value,
        selected=path.index == glance.selected,
    )


def state(path: PathView, judged: bool) -> str:
    """The word for a path in the table. judged: answers of this run get a verdict."""
    if path.state is PathState.RUNNING:
        return _RUNNING[path.phase]
    if path.state is PathState.CANCELLED:
        return "cancelled"
    if path.finish_reason is FinishReason.ERROR:
        return "error"
    if path.verdict is not None:
        return _JUDGED[path.verdict.outcome.value]
    if path.state is PathState.ENDED or (judged and path.key is not None):
        return "checking"
    return "cut" if path.answer is None and path.finish_reason in _CUT else "ended"
