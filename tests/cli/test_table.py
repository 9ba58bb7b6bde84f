"""The live table: what a board looks like, without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from reasoner.cli.board import Board, PathRow
from reasoner.cli.table import STATES, render, visible, votes


def picture(board: Board, *, width: int = 100, height: int = 40, unicode: bool = True) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(render(board, height=height, unicode=unicode))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_row_shows_state_budget_answer_verdict_and_speed() -> None:
    board = Board(
        (
            PathRow(0, "thinking", think=256, think_budget=1024, generated=260, rate=93.6),
            PathRow(
                1, "passed", think=812, think_budget=1024, answer="7*11-(25-3)", verdict="pass", selected=True
            ),
        )
    )
    running, done = picture(board).splitlines()[2:4]
    assert "thinking" in running
    assert "256/1,024" in running
    assert "94" in running
    assert "passed" in done
    assert "7*11-(25-3)" in done
    assert done.rstrip().endswith("pass")


def test_the_footer_has_votes_tokens_spent_and_saved_and_pages() -> None:
    board = Board(
        (PathRow(0, "ended"),),
        votes=(("41", 2), ("42", 5)),
        spent=12345,
        budget=20000,
        saved=6789,
        pages_used=12,
        pages_total=400,
        elapsed=3.21,
        rate=1512.4,
    )
    last = picture(board, width=160).splitlines()[-1]
    assert "12,345 of 20,000 tokens spent" in last
    assert "up to 6,789 saved" in last
    assert "votes 42 x 5, 41 x 2" in last
    assert "pages 12 of 400" in last
    assert "1,512 tok/s" in last
    assert "3.2 s" in last


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_drawn_in_ascii(state: str) -> None:
    board = Board((PathRow(0, state, think=3, think_budget=10, answer="1+2", verdict="pass"),))
    picture(board, unicode=False).encode("ascii")


def test_a_picture_never_exceeds_the_height_of_the_terminal() -> None:
    board = Board(tuple(PathRow(k, "thinking") for k in range(64)), title="t", notes=("oracle run",))
    lines = picture(board, height=20).splitlines()
    assert len(lines) <= 20
    assert "tokens spent" in lines[-2]
    assert any("more paths" in line for line in lines)


def test_when_not_all_fit_the_winner_and_the_running_paths_stay() -> None:
    rows = [PathRow(k, "cancelled") for k in range(10)]
    rows[7] = PathRow(7, "passed", selected=True)
    rows[9] = PathRow(9, "thinking")
    assert [row.index for row in visible(rows, 3)] == [0, 7, 9]


def test_an_answer_with_markup_or_newlines_is_shown_as_it_is() -> None:
    shown = picture(Board((PathRow(0, "ended", answer="[bold]x[/]\ny"),)))
    assert "[bold]x[/] y" in shown


def test_a_thinking_budget_of_zero_is_a_full_bar() -> None:
    assert "0/0" in picture(Board((PathRow(0, "answering", think_budget=0),)))


def test_votes_name_the_frequent_answers_and_count_the_rest() -> None:
    counted = [("a", 1), ("b", 4), ("c", 2), ("d", 1), ("e", 1)]
    assert votes(counted) == "b x 4, c x 2, a x 1, +2 others"
