"""Every misuse is one typed error of one line, raised before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reasoner import Problem, Reasoner, ReasonerError
from reasoner.backends.scripted import ScriptedBackend
from reasoner.errors import BadPolicy, InvalidRequest, MissingCapability, ModelError, UnknownName
from tests.reasoner.support import Judge, path


@pytest.mark.parametrize(("options", "kind", "message"), [
    ({"policy": "bestest"}, UnknownName, "unknown policy 'bestest'; known: best_of_n, first_verified, majority"),
    ({"verifier": "oracle"}, UnknownName, "unknown verifier 'oracle'; known: countdown"),
    ({"policy": "nowhere.py:Mine"}, UnknownName, "nowhere.py"),
    ({"policy": int}, BadPolicy, "is no policy"),
    ({"policy": "first_verified"}, MissingCapability, "policy 'first_verified' needs verifier, which this run does "
                                                      "not have; policies that would work: majority"),
    ({"policy": "best_of_n"}, MissingCapability, "policies that would work: majority"),
    ({"policy_params": {"depth": 3}}, InvalidRequest, "policy 'majority' has no parameter 'depth'; it has: n"),
    ({"n": 0}, InvalidRequest, "n must be a whole number in [1, 4096], got 0"),
    ({"n": -3}, InvalidRequest, "got -3"),
    ({"n": 2.0}, InvalidRequest, "got 2.0"),
    ({"budget": -1}, InvalidRequest, "budget must be a whole number of tokens >= 1, got -1"),
    ({"budget": 10, "n": 4}, InvalidRequest, "cannot hold 4 answers"),
    ({"path_budget": 3}, InvalidRequest, "a path budget of 3 tokens cannot hold an answer"),
    ({"temperature": -0.1}, InvalidRequest, "temperature must be >= 0, got -0.1"),
    ({"temperature": float("nan")}, InvalidRequest, "temperature must be a finite number, got nan"),
    ({"top_p": 0.0}, InvalidRequest, "top_p must lie in (0, 1], got 0.0"),
    ({"top_k": -1}, InvalidRequest, "top_k must be a whole number >= 0"),
    ({"min_p": 1.0}, InvalidRequest, "min_p must lie in [0, 1), got 1.0"),
    ({"presence_penalty": 3.0}, InvalidRequest, "presence_penalty must lie in [-2, 2], got 3.0"),
    ({"repetition_penalty": 0.0}, InvalidRequest, "repetition_penalty must be > 0, got 0.0"),
    ({"seed": -1}, InvalidRequest, "seed must be a whole number in [0, 2**63), got -1"),
    ({"stop": [""]}, InvalidRequest, "a stop string must be a text that is not empty"),
    ({"verifier_timeout": 0}, InvalidRequest, "verifier_timeout must be a number of seconds > 0"),
    ({"progress_every": 0}, InvalidRequest, "progress_every must be >= 1"),
    ({"verifier": "math"}, InvalidRequest, "verifier 'math' compares with the known answer"),
])
async def test_options_out_of_range(options: dict[str, Any], kind: type[ReasonerError], message: str) -> None:
    backend = ScriptedBackend([path()])
    with pytest.raises(kind) as error:
        await Reasoner(backend).solve("Which one?", **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert backend.sessions == []


@pytest.mark.parametrize("problem", ["", "   \n", [], [{"role": "user", "content": " "}], [{"role": "user"}], 7])
async def test_an_empty_or_shapeless_problem(problem: Any) -> None:
    with pytest.raises(InvalidRequest):
        await Reasoner(ScriptedBackend([path()])).solve(problem)


async def test_a_prompt_longer_than_the_context() -> None:
    backend = ScriptedBackend([path()], context_length=100)
    with pytest.raises(InvalidRequest, match="the prompt has 200 tokens; the model's context holds 100"):
        await Reasoner(backend).solve("word " * 200)


async def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="there is no option 'tempratur'"):
        await Reasoner(ScriptedBackend([path()])).solve("Which one?", tempratur=1.0)  # type: ignore[call-arg]


async def test_an_unknown_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        await Reasoner.load(tmp_path / "nothing")
    with pytest.raises(UnknownName, match=r"unknown model 'not a/valid name'; known: .*embedded"):
        await Reasoner.load("not a/valid name")


async def test_a_batch_with_one_bad_problem_runs_none() -> None:
    backend = ScriptedBackend([path()])
    with pytest.raises(InvalidRequest):
        await Reasoner(backend).batch(["Which one?", ""], verifier=Judge())
    with pytest.raises(InvalidRequest, match="concurrency must be >= 1"):
        await Reasoner(backend).batch(["Which one?"], concurrency=0)
    assert backend.sessions == []


async def test_a_policy_file_without_the_named_class_lists_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from reasoner.policies.majority import Majority\nclass Mine(Majority):\n    name = 'mine'\n")
    with pytest.raises(UnknownName, match=r"known: .*Mine"):
        await Reasoner(ScriptedBackend([path()])).solve("Which one?", policy=f"{file}:Yours")
    file.write_text("this is no Python")
    with pytest.raises(BadPolicy, match="cannot be imported"):
        await Reasoner(ScriptedBackend([path()])).solve("Which one?", policy=f"{file}:Mine")


def test_a_problem_keeps_its_gold_answer_out_of_the_task() -> None:
    from reasoner.problem import Message, Task

    task = Task.of(Problem((Message("user", "Which one?"),), answer="gold", data={"tests": ["gold"]}))
    assert "gold" not in repr(task)
