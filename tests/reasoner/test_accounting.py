"""For any script, policy and interruption: a result comes, the bill adds up, and the log replays."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reasoner import Reasoner
from reasoner.backends.scripted import ScriptedBackend, ScriptedPath
from reasoner.errors import MissingCapability
from reasoner.policies import registry
from reasoner.replay import replay, replay_file
from reasoner.result import Result
from tests.reasoner.support import OTHER, RIGHT, WRONG, Dice, Judge, Raising, Scored, Undecided, check_bill

MODEST = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

scripts = st.builds(
    ScriptedPath,
    answer=st.sampled_from([RIGHT, WRONG, OTHER, ""]),
    think_tokens=st.integers(0, 120),
    answer_tokens=st.integers(0, 30),
    delay=st.integers(0, 40),
    fails_at=st.one_of(st.none(), st.none(), st.integers(1, 60)),
)
verifiers = st.one_of(st.builds(Judge, st.integers(0, 20)), st.builds(Raising), st.builds(Undecided), st.builds(Scored),
                      st.none())
policies = st.sampled_from([*registry.BUILT_IN.values(), Dice, Dice])
limits = st.fixed_dictionaries({}, optional={
    "budget": st.integers(400, 1200),
    "path_budget": st.integers(40, 150),
    "think_budget": st.integers(0, 60),
    "answer_reserve": st.integers(1, 20),
})
cases = st.fixed_dictionaries({
    "paths": st.lists(scripts, min_size=1, max_size=6),
    "n": st.integers(1, 6),
    "policy": policies,
    "verifier": verifiers,
    "seed": st.integers(0, 1000),
    "limits": limits,
    "dies_at": st.one_of(st.none(), st.none(), st.none(), st.integers(0, 100)),
    "thinks": st.booleans(),
    "interrupt": st.one_of(st.none(), st.tuples(st.sampled_from(["finish_early", "cancel"]), st.integers(0, 300))),
})


async def ended(case: dict[str, Any], log: Path) -> Result | None:
    """The result of a case, None where the policy rightly refuses to start."""
    backend = ScriptedBackend(case["paths"], thinks=case["thinks"], dies_at=case["dies_at"])
    limits = {k: v for k, v in case["limits"].items() if case["thinks"] or k in ("budget", "path_budget")}
    reasoner = Reasoner(backend)
    try:
        run = reasoner.start("Which one?", n=case["n"], policy=case["policy"], verifier=case["verifier"],
                             seed=case["seed"], events=log, progress_every=8, **limits)
    except MissingCapability:
        assert case["verifier"] is None
        return None
    if case["interrupt"] is not None:
        kind, wait = case["interrupt"]
        for _ in range(wait):
            await asyncio.sleep(0)
        if kind == "cancel":
            await run.cancel()
        else:
            run.finish_early()
    result = await asyncio.wait_for(run.result(), 20)
    if case["dies_at"] is None:
        assert backend.stats().pages_used == 0
        assert all(p.finish_reason is not None for p in result.paths)
    return result


@MODEST
@given(cases)
def test_a_result_always_comes_its_bill_adds_up_and_its_log_replays(case: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "events.jsonl"
        result = asyncio.run(ended(case, log))
        if result is None:
            return
        check_bill(result)
        assert replay_file(log, case["policy"]).difference() is None
    assert Result.from_json(result.to_json()) == result
    if result.budget.total is not None:
        assert result.usage.completion_tokens <= result.budget.total


@MODEST
@given(cases)
def test_a_log_cut_anywhere_replays_up_to_the_cut(case: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "events.jsonl"
        if asyncio.run(ended(case, log)) is None:
            return
        text = log.read_text()
    header = len(text.split("\n", 1)[0])
    cut = header + (len(text) - header) * 2 // 3
    again = replay(text[:cut].splitlines(), case["policy"])
    # The cut may fall between an event and its actions, which the replay then gives in full.
    assert again.reproduced[:len(again.recorded)] == again.recorded


@MODEST
@given(st.lists(scripts, min_size=1, max_size=5), st.integers(0, 200), verifiers)
def test_cancelling_the_await_at_any_moment_leaves_nothing_behind(paths: list[ScriptedPath], wait: int,
                                                                  verifier: Judge | None) -> None:
    async def scenario() -> None:
        backend = ScriptedBackend(paths)
        task = asyncio.create_task(Reasoner(backend).solve("Which one?", n=5, verifier=verifier, seed=0))
        for _ in range(wait):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            check_bill(await task)
        assert backend.stats().pages_used == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
