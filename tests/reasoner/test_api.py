"""The API: solving, streaming, batches, the facade without a loop, gold answers, names and files."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from reasoner import Problem, Reasoner, Result
from reasoner.backends.scripted import ScriptedBackend, ScriptedPath
from reasoner.errors import BadRecord, InvalidRequest
from reasoner.events import EVENTS, ProblemFinished, Verified, event_from_json, event_to_json
from reasoner.policies import registry
from reasoner.problem import Message
from reasoner.replay import replay_file
from reasoner.sync import SyncReasoner
from tests.reasoner.support import OTHER, RIGHT, WRONG, Judge, check_bill, path, solve


class GoldJudge(Judge):
    def __init__(self) -> None:
        super().__init__(needs_gold=True)


async def test_a_gold_answer_that_selects_makes_an_oracle_run_and_its_words_reach_no_policy() -> None:
    async with Reasoner(ScriptedBackend([path(WRONG, 10), path(RIGHT, 30)])) as reasoner:
        events = [e async for e in reasoner.stream("Which one?", n=2, verifier=GoldJudge(), answer="hush")]
    last = events[-1]
    assert isinstance(last, ProblemFinished)
    assert (last.result.oracle, last.result.verified) == (True, True)
    assert "hush" not in repr([e for e in events if not isinstance(e, ProblemFinished)])
    assert sum(isinstance(e, Verified) for e in events) == 2
    # The caller, who gave the answer, gets the verifier's words in full.
    assert last.result.paths[0].verdict is not None
    assert last.result.paths[0].verdict.reason == "the answer is hush"


async def test_a_gold_answer_is_kept_from_a_verifier_that_does_not_need_it() -> None:
    judge = Judge()
    result = await solve([path(RIGHT)], n=1, verifier=judge, answer="hush")
    assert judge.seen[0].answer is None
    assert not result.oracle
    assert result.warnings == ("the known answer was not used: verifier 'judge' judges without one",)


async def test_a_gold_answer_that_only_grades_the_selected_one_is_no_oracle() -> None:
    result = await solve([path(RIGHT)], n=3, verifier=GoldJudge(), answer="hush", policy="majority")
    assert (result.oracle, result.verified) == (False, True)


async def test_without_a_verifier_boxed_answers_are_voted_on() -> None:
    paths = [path(r"so \boxed{70}"), path(r"\boxed{70.0}"), path(r"\boxed{7}")]
    result = await solve(paths, n=3)
    assert (result.answer, result.outcome, result.policy.name) == ("70", "answered", "majority")
    assert [(vote.count, vote.paths) for vote in result.votes] == [(2, (0, 1)), (1, (2,))]


async def test_equal_votes_go_to_the_lowest_path_and_the_tie_is_reported() -> None:
    result = await solve([path(OTHER), path(WRONG), path(WRONG), path(OTHER)], n=4, policy="majority",
                         verifier=Judge())
    assert (result.answer, result.tie, result.selected_path) == (OTHER, True, 0)


async def test_a_plain_function_is_a_verifier() -> None:
    result = await solve([path(r"\boxed{3}"), path(r"\boxed{4}", 40)], n=2, verifier=lambda answer: answer == "4")
    assert (result.answer, result.verified) == ("4", True)


async def test_an_undetermined_seed_is_drawn_and_reported() -> None:
    seeds = {(await solve([path()], n=1, seed=None)).seed for _ in range(3)}
    assert len(seeds) == 3


async def test_messages_and_problems_are_accepted() -> None:
    async with Reasoner(ScriptedBackend([path()])) as reasoner:
        chat = await reasoner.solve([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hm?"}])
        problem = await reasoner.solve(Problem((Message("user", "Hm?"),), id="p7"))
    assert (chat.usage.prompt_tokens, problem.usage.prompt_tokens, problem.problem_id) == (3, 1, "p7")


async def test_the_model_recommends_and_the_caller_overrides() -> None:
    from reasoner.sampling import Sampling

    backend = {"sampling": Sampling(temperature=0.6, top_k=20), "path_default": 300}
    result = await solve([path()], n=1, top_k=5, backend=backend)
    assert (result.sampling.temperature, result.sampling.top_k, result.budget.path) == (0.6, 5, 300)


async def test_a_batch_keeps_the_order_and_numbers_the_seeds(tmp_path: Path) -> None:
    def script(seed: int, index: int) -> ScriptedPath:
        return path(RIGHT, 200 - 20 * seed)

    async with Reasoner(ScriptedBackend(script)) as reasoner:
        results = await reasoner.batch([f"Problem {i}?" for i in range(6)], concurrency=3, n=2, seed=1,
                                       verifier=Judge(), events=tmp_path)
    assert [r.seed for r in results] == [1, 2, 3, 4, 5, 6]
    assert [r.paths[0].tokens.think for r in results] == [180, 160, 140, 120, 100, 80]
    logs = sorted(tmp_path.glob("*.jsonl"))
    assert len(logs) == 6
    assert all(replay_file(log).same for log in logs)
    for result in results:
        check_bill(result)


async def test_cancelling_a_batch_ends_all_its_problems() -> None:
    backend = ScriptedBackend([path(WRONG, 4000)])
    task = asyncio.create_task(Reasoner(backend).batch(["One?", "Two?", "Three?"], concurrency=2, n=3))
    for _ in range(30):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(backend.sessions), backend.stats().pages_used) == (2, 0)


async def test_leaving_a_stream_ends_the_run() -> None:
    backend = ScriptedBackend([path(WRONG, 4000)])
    stream = Reasoner(backend).stream("Which one?", n=3)
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    assert backend.stats().pages_used == 0


async def test_several_can_follow_a_run_from_its_first_event() -> None:
    run = Reasoner(ScriptedBackend([path(RIGHT, 300)])).start("Which one?", n=2, verifier=Judge())

    async def follow() -> list[int]:
        return [event.seq async for event in run]

    first, second = await asyncio.gather(follow(), follow())
    assert first == second == [event.seq async for event in run]
    assert run.view.paths[0].passed
    assert run.done


async def test_giving_up_the_wait_for_a_result_does_not_end_the_run() -> None:
    run = Reasoner(ScriptedBackend([path(RIGHT, 100)])).start("Which one?", n=1, verifier=Judge())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run.result(), 0)
    assert (await run.result()).verified


async def test_results_and_events_survive_json() -> None:
    async with Reasoner(ScriptedBackend([path(RIGHT, 100), path("", 10)])) as reasoner:
        events = [e async for e in reasoner.stream("Which one?", n=3, verifier=Judge(), budget=600)]
    for event in events:
        assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
    assert len(EVENTS) == 11
    last = events[-1]
    assert isinstance(last, ProblemFinished)
    raw = json.loads(last.result.to_line())
    assert Result.from_json(raw) == last.result
    with pytest.raises(BadRecord, match="schema version 99"):
        Result.from_json({**raw, "schema_version": 99})
    with pytest.raises(BadRecord, match="has no field extra"):
        Result.from_json({**raw, "extra": 1})


async def test_thoughts_can_be_left_out_of_the_result() -> None:
    result = await solve([path()], n=1, keep_thinking=False)
    assert result.paths[0].thinking is None
    assert (await solve([path()], n=1)).paths[0].thinking == "..."


async def test_a_policy_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from dataclasses import dataclass\nfrom reasoner.policies.majority import Majority\n"
                    "@dataclass\nclass Mine(Majority):\n    name = 'mine'\n    patience: int = 3\n")
    result = await solve([path(WRONG)], n=2, policy=f"{file}:Mine", policy_params={"patience": 5}, verifier=Judge())
    assert result.policy.name == "mine"
    assert result.policy.params == {"n": 2, "patience": 5}


def test_every_policy_says_what_it_needs_and_costs() -> None:
    for entry in registry.describe():
        assert all((entry["summary"], entry["cost"], entry["params"] == {"n": 16})), entry
    assert [entry["name"] for entry in registry.describe()] == ["best_of_n", "first_verified", "majority"]


# -- without a loop -------------------------------------------------------------------------------------------


def blocking(paths: Any, **backend: Any) -> tuple[SyncReasoner, ScriptedBackend]:
    scripted = ScriptedBackend(paths, **backend)

    async def load() -> Reasoner:
        return Reasoner(scripted)

    return SyncReasoner(load), scripted


def test_the_facade_solves_streams_and_batches_without_a_loop() -> None:
    reasoner, _ = blocking([path(WRONG), path(RIGHT, 40)])
    with reasoner:
        assert reasoner.solve("Which one?", n=2, verifier=Judge()).verified
        assert isinstance(list(reasoner.stream("Which one?", n=2, verifier=Judge()))[-1], ProblemFinished)
        assert [r.verified for r in reasoner.batch(["One?", "Two?"], n=2, verifier=Judge())] == [True, True]
        with pytest.raises(InvalidRequest):
            reasoner.solve("")
    reasoner.close()


async def test_the_facade_also_works_beside_a_running_loop() -> None:
    reasoner, _ = blocking([path(RIGHT)])
    with reasoner:
        assert reasoner.solve("Which one?", n=1, verifier=Judge()).verified


def test_leaving_a_blocking_stream_ends_the_run() -> None:
    reasoner, backend = blocking([path(WRONG, 4000)], step_seconds=0.001)
    with reasoner:
        for _ in reasoner.stream("Which one?", n=3):
            break
        assert backend.stats().pages_used == 0


def test_what_loading_raises_is_raised_here_and_leaves_no_thread() -> None:
    async def load() -> Reasoner:
        raise InvalidRequest("no such thing")

    before = threading.active_count()
    with pytest.raises(InvalidRequest, match="no such thing"):
        SyncReasoner(load)
    assert threading.active_count() == before


def test_importing_the_api_imports_nothing_heavy() -> None:
    code = ("import sys; from reasoner import Reasoner; import reasoner.backends.native; "
            "print([m for m in ('torch', 'transformers', 'numpy', 'sympy', 'aiohttp') if m in sys.modules])")
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
