"""The pages say what the code does: examples run, and every option and field is named."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from engine.types import FinishReason
from reasoner import actions, events
from reasoner.backends.protocol import ModelCard
from reasoner.budget import Budget
from reasoner.options import Options
from reasoner.policies import registry
from reasoner.result import PathResult, PolicyRecord, Result, Timing, Tokens, Usage, Vote
from reasoner.sampling import Sampling
from verifiers.base import Verdict

DOCS = Path(__file__).parents[2] / "docs"


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def named(page: str) -> set[str]:
    """Every word that the page sets in code."""
    spans = re.findall(r"`([^`\n]+)`", (DOCS / page).read_text(encoding="utf-8"))
    return {word for span in spans for word in re.findall(r"\w+", span)}


def test_the_example_of_a_policy_runs_and_says_what_it_saved() -> None:
    (code,) = examples("policies.md")
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    answer, stop, saved, _, total = shown.stdout.split()
    assert (answer, stop) == ("7", "agreed")
    assert 0 < int(saved) < int(total) < 400


def test_the_examples_of_the_api_are_valid_python() -> None:
    for code in examples("api.md"):
        compile(code, "docs/api.md", "exec")


def test_every_option_is_explained() -> None:
    assert set(Options.__annotations__) - named("api.md") == set()


def test_every_field_of_the_result_is_explained() -> None:
    shapes = (Result, PathResult, Tokens, Vote, Usage, Timing, PolicyRecord, Budget, Sampling, ModelCard, Verdict)
    wanted = {f.name for shape in shapes for f in fields(shape)} | set(map(str, FinishReason))
    assert wanted - named("api.md") == set()


def test_every_policy_event_and_action_is_named() -> None:
    wanted = {*registry.BUILT_IN, *(cls.__name__ for cls in actions.ACTIONS.values()),
              *(cls.__name__ for cls in events.EVENTS.values())} - {"ProblemFinished"}
    assert wanted - named("policies.md") == set()
