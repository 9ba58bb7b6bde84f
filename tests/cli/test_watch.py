"""From a run's view to a board: states, savings, speed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from engine.types import FinishReason, Phase
from reasoner import Reasoner
from reasoner.backends.scripted import ScriptedBackend
from reasoner.budget import Budget
from reasoner.cli.live import Watcher, draw, heading
from reasoner.cli.watch import Glance, Meter, board, saved, state, think_limit
from reasoner.view import PathState, PathView, View
from tests.cli.conftest import RIGHT, TEXT, WRONG
from verifiers.base import failed, passed, unknown

BUDGET = Budget(total=None, path=1000, think=None, min_think=0, answer_reserve=100, close=2, margin=4)


def path(index: int = 0, **changes: object) -> PathView:
    return PathView(index, 7, **changes)  # type: ignore[arg-type]


def glance(*paths: PathView, tokens: int = 0, selected: int | None = None) -> Glance:
    return Glance(View(None, tuple(paths), tokens), BUDGET, True, 2.0, {0: 50.0}, selected=selected)


@pytest.mark.parametrize(
    ("view", "judged", "word"),
    [
        (path(), True, "waiting"),
        (path(phase=Phase.THINKING), True, "thinking"),
        (path(phase=Phase.ANSWER), True, "answering"),
        (path(state=PathState.ENDED), True, "checking"),
        (path(state=PathState.ANSWERED, answer="1", key="1"), True, "checking"),
        (path(state=PathState.ANSWERED, answer="1", key="1"), False, "ended"),
        (path(state=PathState.ANSWERED, answer="1", key="1", verdict=passed("yes")), True, "passed"),
        (path(state=PathState.ANSWERED, answer="1", key="1", verdict=failed("no")), True, "failed"),
        (path(state=PathState.ANSWERED, answer="1", key="1", verdict=unknown("?")), True, "unknown"),
        (path(state=PathState.ANSWERED, finish_reason=FinishReason.EOS), True, "ended"),
        (path(state=PathState.ANSWERED, finish_reason=FinishReason.LENGTH), True, "cut"),
        (path(state=PathState.ANSWERED, finish_reason=FinishReason.ERROR), True, "error"),
        (path(state=PathState.CANCELLED, finish_reason=FinishReason.CANCELLED), True, "cancelled"),
    ],
)
def test_every_path_has_one_word_for_its_state(view: PathView, judged: bool, word: str) -> None:
    assert state(view, judged) == word


def test_savings_are_what_cancelled_paths_were_still_allowed() -> None:
    cancelled = path(1, state=PathState.CANCELLED, generated=300)
    assert saved(View(None, (path(0, generated=400), cancelled), 700), BUDGET) == 700


@pytest.mark.parametrize(("think", "limit"), [(None, 898), (500, 500), (5000, 898), (0, 0)])
def test_the_bar_ends_where_thinking_is_closed_by_force(think: int | None, limit: int) -> None:
    budget = Budget(total=None, path=1000, think=think, min_think=0, answer_reserve=100, close=2, margin=4)
    assert think_limit(budget) == limit


def test_a_board_counts_votes_and_marks_the_selected_path() -> None:
    ended = [path(k, state=PathState.ANSWERED, answer="1+2", key="3") for k in range(3)]
    shown = board(glance(*ended, tokens=90, selected=1))
    assert shown.votes == (("1+2", 3),)
    assert [row.selected for row in shown.rows] == [False, True, False]
    assert (shown.spent, shown.rate) == (90, 45.0)


def test_speed_is_that_of_the_last_seconds() -> None:
    meter = Meter(window_s=2.0)
    assert meter.read(0.0, {0: 0}) == {0: 0.0}
    assert meter.read(1.0, {0: 100}) == {0: 100.0}
    assert meter.read(2.0, {0: 200}) == {0: 100.0}
    for second in range(3, 8):
        rate = meter.read(float(second), {0: 200})
    assert rate == {0: 0.0}


async def test_a_run_is_drawn_to_its_last_frame() -> None:
    async with Reasoner(ScriptedBackend([WRONG, RIGHT, WRONG], path_default=512)) as reasoner:
        run = reasoner.start(TEXT, n=3, verifier="countdown", seed=5)
        console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=110, height=30)
        title = heading(run, reasoner)
        result = await draw(Watcher(run, reasoner, title, ["a note"]), console)
    assert result.verified
    file = console.file
    assert isinstance(file, io.StringIO)
    text = file.getvalue()
    assert "first_verified, 3 paths, verifier countdown, model scripted, seed 5" in text
    assert "7*(11-3)" in text
    assert "✔ passed" in text
