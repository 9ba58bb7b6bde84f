"""The demo, on scripted paths: every part of its output, in order."""

from __future__ import annotations

import pytest

from reasoner.backends.scripted import ScriptedPath
from reasoner.cli.show import Settings, run
from tests.cli.conftest import Scripted

Capture = pytest.CaptureFixture[str]
SMALL = Settings(problems=2, n=4, path_budget=600, recorded_budget=300)


def answer(expression: str, think: int) -> ScriptedPath:
    return ScriptedPath(answer=f"\\boxed{{{expression}}}", think_tokens=think)


def test_the_demo_shows_rows_then_scaling_then_memory(scripted: Scripted, capsys: Capture) -> None:
    # The first problem of the set is 32, 84, 7, 21 to 24; nothing here solves the second.
    scripted([answer("84-32", 30), answer("84-32-21-7", 40), answer("84-32", 20)])
    assert run(SMALL) == 0
    out = capsys.readouterr().out
    assert "2 problems that the model has never seen, 4 paths each" in out
    assert "first verified answer" in out
    assert "1 of 2 verified" in out
    assert out.count("not solved") == 1
    counts = [line.split()[:2] for line in out.splitlines() if line.strip()[:2] in ("1 ", "2 ", "4 ")]
    # One of four paths solves one of two problems.
    assert ["1", "12%"] in counts
    assert ["4", "50%"] in counts
    assert "Peak memory" in out


def test_a_demo_that_solves_nothing_says_so_and_fails(scripted: Scripted, capsys: Capture) -> None:
    scripted([answer("84-32", 30)])
    assert run(SMALL) == 1
    assert "0 of 2 verified" in capsys.readouterr().out
