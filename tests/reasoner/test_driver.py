"""What a run does in known situations: answers, stops, cancellation, the bill."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from engine.types import FinishReason
from reasoner import Reasoner
from reasoner.actions import Action, Cancel, CloseThinking, Select, Spawn, Stop, Verify
from reasoner.backends.scripted import ScriptedBackend, ScriptedPath
from reasoner.errors import BackendFailed, InvalidRequest
from reasoner.events import (
    AnswerReady,
    Cancelled,
    Event,
    PathFinished,
    PathStarted,
    ProblemFinished,
    Progress,
)
from reasoner.policies.base import Policy
from reasoner.result import Outcome
from reasoner.view import View
from tests.reasoner.support import OTHER, RIGHT, WRONG, Hanging, Judge, Raising, Undecided, path, solve


@dataclass
class Script(Policy):
    """Starts n paths; then the table says what to do at which event, by its class and path."""

    name: ClassVar[str] = "script"
    table: Any = ()

    def start(self, task: Any, capabilities: Any, rng: Any) -> Sequence[Action]:
        return [Spawn(self.n)]

    def on(self, event: Event, view: View) -> Sequence[Action]:
        rows = [actions for kind, index, actions in self.table
                if type(event) is kind and getattr(event, "path", None) == index]
        return [action for row in rows for action in row]


async def test_the_first_pass_ends_the_problem_and_cancels_the_rest() -> None:
    result = await solve([path(WRONG, 10), path(RIGHT, 30), path(RIGHT, 500)], n=3, verifier=Judge())
    assert (result.answer, result.verified, result.selected_path, result.stop) == (RIGHT, True, 1, "verified")
    assert [p.finish_reason for p in result.paths] == [FinishReason.EOS, FinishReason.EOS, FinishReason.CANCELLED]
    assert result.usage.cancelled_tokens == result.paths[2].tokens.generated > 30


async def test_after_the_ending_verdict_no_path_decodes_more_than_the_steps_already_launched() -> None:
    for steps in (0, 1, 7):
        result = await solve([path(RIGHT, 30), path(WRONG, 4000)], n=8, verifier=Judge(steps))
        live = sum(p.cancelled for p in result.paths)
        assert live == 7
        # One step was under way when the verdict came, one more may begin before the session hears of it.
        assert result.usage.after_stop_tokens <= 2 * live


async def test_other_paths_decode_while_a_verifier_works() -> None:
    slow = await solve([path(WRONG, 10), path(RIGHT, 60)], n=2, verifier=Judge(steps=300))
    assert slow.verified
    assert slow.paths[1].tokens.generated == 64


async def test_where_nothing_passes_the_most_voted_answer_is_returned_unverified() -> None:
    paths = [path(OTHER, 10), path(WRONG, 20), path(WRONG, 30)]
    result = await solve(paths, n=3, verifier=Judge())
    assert (result.answer, result.outcome, result.stop) == (WRONG, Outcome.UNSOLVED, "none_passed")
    assert not result.verified


async def test_without_any_answer_the_result_says_so() -> None:
    result = await solve([path("", 10)], n=2)
    assert (result.answer, result.text, result.outcome, result.selected_path) == (None, "", Outcome.UNSOLVED, None)
    assert result.votes == ()


async def test_a_truncated_thought_never_votes() -> None:
    backend = {"thinks": True}
    result = await solve(lambda seed, index: path(r"\boxed{4}", 50, answer_tokens=60), n=2, path_budget=60,
                         backend=backend)
    assert all(p.finish_reason is FinishReason.LENGTH for p in result.paths)
    assert (result.votes, result.answer) == ((), None)


async def test_a_verifier_that_raises_gives_an_unknown_verdict_and_the_run_goes_on() -> None:
    result = await solve([path(WRONG, 10), path(WRONG, 20)], n=2, verifier=Raising())
    assert (result.answer, result.outcome) == (WRONG, Outcome.ANSWERED)
    assert result.paths[0].verdict is not None
    assert result.paths[0].verdict.reason == "the verifier raised RuntimeError: out of order"
    assert result.paths[0].verdict.score is None


@pytest.mark.parametrize("text", ["kind", "stubborn"])
async def test_a_verifier_that_hangs_gives_an_unknown_verdict(text: str) -> None:
    result = await solve([path(text, 10)], n=1, verifier=Hanging(), verifier_timeout=0.05)
    assert result.paths[0].verdict is not None
    assert result.paths[0].verdict.status == "timeout"
    assert result.outcome is Outcome.ANSWERED


async def test_a_hanging_verifier_does_not_hold_up_a_pass_elsewhere() -> None:
    class Half(Hanging):
        async def verify(self, problem: Any, candidate: Any) -> Any:
            if candidate.text == RIGHT:
                return await Judge.verify(self, problem, candidate)
            return await Hanging.verify(self, problem, candidate)

    result = await solve([path("stubborn", 10), path(RIGHT, 30)], n=2, verifier=Half(), verifier_timeout=30.0)
    assert result.verified
    assert result.timing.total_s < 5


async def test_an_unknown_verdict_is_no_failure() -> None:
    result = await solve([path(WRONG, 10)], n=2, verifier=Undecided(), policy="best_of_n")
    assert (result.outcome, result.answer) == (Outcome.ANSWERED, WRONG)


async def test_the_majority_is_judged_once_it_is_selected() -> None:
    judge = Judge()
    result = await solve([path(OTHER, 10), path(RIGHT, 20)], n=5, verifier=judge, policy="majority")
    assert (result.verified, result.oracle, len(judge.seen)) == (True, False, 1)


async def test_a_failing_path_ends_alone() -> None:
    result = await solve([path(WRONG, 50, fails_at=7), path(RIGHT, 30)], n=2, verifier=Judge())
    assert result.verified
    assert result.paths[0].finish_reason is FinishReason.ERROR
    assert result.paths[0].tokens.generated == 7
    assert any("path 0 failed" in w for w in result.warnings)


async def test_a_dying_backend_still_leaves_a_result() -> None:
    result = await solve([path(WRONG, 10), path(RIGHT, 500)], n=2, policy="majority", verifier=Judge(),
                         backend={"dies_at": 40})
    assert (result.stop, result.answer) == ("backend_failed", WRONG)
    assert result.paths[1].finish_reason is None
    assert result.paths[1].tokens.generated == 40


async def test_a_backend_that_refuses_commands_still_leaves_a_result() -> None:
    class Deaf(ScriptedBackend):
        async def open(self, request: Any) -> Any:
            session = await super().open(request)

            async def refuse(*_: Any) -> Any:
                raise BackendFailed("not any more")

            session.cancel = session.close_thinking = session.add_paths = refuse  # type: ignore[method-assign]
            return session

    table = [(AnswerReady, 0, [Cancel((1,), "enough"), CloseThinking((1,)), Spawn(1)])]
    result = await Reasoner(Deaf([path(WRONG, 10), path(WRONG, 50)])).solve(
        "Which one?", n=2, policy=Script, policy_params={"table": table}, verifier=Judge())
    assert (result.answer, result.warnings) == (WRONG, ("not any more",))
    assert [p.finish_reason for p in result.paths] == [FinishReason.EOS] * 2


async def test_a_backend_that_cannot_start_raises_at_once() -> None:
    class Closed(ScriptedBackend):
        async def open(self, request: Any) -> Any:
            raise BackendFailed("no engine here")

    with pytest.raises(BackendFailed, match="no engine here"):
        await Reasoner(Closed([path()])).solve("Which one?")


async def test_a_policy_that_raises_is_reported_and_the_best_answer_returned() -> None:
    @dataclass
    class Broken(Script):
        def on(self, event: Event, view: View) -> Sequence[Action]:
            return [] if not isinstance(event, AnswerReady) else [][1]

    result = await solve([path(WRONG, 10), path(RIGHT, 90)], n=2, policy=Broken)
    assert result.stop == "policy_error"
    assert any("IndexError" in warning for warning in result.warnings)
    assert all(p.finish_reason is not None for p in result.paths)


async def test_a_policy_that_never_stops_ends_when_nothing_more_can_happen() -> None:
    result = await solve([path(WRONG, 10)], n=2, policy=Script, verifier=Judge())
    assert (result.stop, result.answer) == ("stalled", WRONG)


async def test_a_policy_that_spawns_nothing_ends_at_once() -> None:
    @dataclass
    class Idle(Script):
        def start(self, task: Any, capabilities: Any, rng: Any) -> Sequence[Action]:
            return []

    result = await solve([path()], policy=Idle)
    assert (result.stop, result.paths, result.usage.completion_tokens) == ("stalled", (), 0)


async def test_actions_on_unknown_and_ended_paths_do_nothing_but_warn() -> None:
    table = [(AnswerReady, 0, [Cancel((0,), "late"), Cancel((9,), "nobody"), CloseThinking((0,)), Verify(9),
                               Select(path=9), Select(key="nobody")])]
    result = await solve([path(WRONG, 10)], n=1, policy=Script, policy_params={"table": table}, verifier=Judge())
    assert result.paths[0].finish_reason is FinishReason.EOS
    assert len(result.warnings) == 5


async def test_a_cancelled_path_neither_votes_nor_is_verified_nor_selected() -> None:
    table = [(AnswerReady, 0, [Cancel((1,), "enough"), Verify(1), Select(path=1)])]
    result = await solve([path(WRONG, 10), path(RIGHT, 500)], n=2, policy=Script,
                         policy_params={"table": table}, verifier=Judge())
    assert (result.answer, result.paths[1].cancelled, result.paths[1].verdict) == (WRONG, True, None)


async def test_a_path_that_was_cancelled_before_is_not_verified() -> None:
    table = [(AnswerReady, 0, [Cancel((1,), "enough")]), (Cancelled, 1, [Verify(1)])]
    judge = Judge()
    result = await solve([path(RIGHT, 10), path(RIGHT, 500)], n=2, policy=Script, policy_params={"table": table},
                         verifier=judge)
    assert result.warnings == ("path 1 was cancelled: it is not verified",)
    assert len(judge.seen) == 1


async def test_a_policy_is_not_asked_again_after_it_said_stop() -> None:
    asked: list[Event] = []

    @dataclass
    class Hasty(Script):
        def on(self, event: Event, view: View) -> Sequence[Action]:
            asked.append(event)
            return [Spawn(2), Stop("done"), Select(path=0)]

    result = await solve([path(WRONG, 10)], n=1, policy=Hasty)
    assert (result.stop, len(result.paths), len(asked)) == ("done", 3, 1)


async def test_paths_can_be_added_after_all_others_have_ended() -> None:
    @dataclass
    class Again(Script):
        def on(self, event: Event, view: View) -> Sequence[Action]:
            if isinstance(event, AnswerReady) and view.quiet:
                return [Spawn(2)] if len(view.paths) < 5 else [Select(path=4), Stop("done")]
            return []

    result = await solve([path(WRONG, 10)], n=1, policy=Again, verifier=Judge())
    assert (len(result.paths), result.selected_path, result.stop) == (5, 4, "done")
    assert result.usage.critical_path_tokens == 3 * 14


async def test_a_backend_that_cannot_add_paths_warns_and_goes_on() -> None:
    from reasoner.policies.base import Capability

    table = [(AnswerReady, 0, [Spawn(1)])]
    result = await solve([path(WRONG, 10)], n=1, policy=Script, policy_params={"table": table},
                         backend={"able": frozenset({Capability.CANCEL})})
    assert len(result.paths) == 1
    assert result.warnings == ("1 paths were not started: this backend cannot add paths to a run",)


async def test_thinking_closed_on_command_is_followed_by_an_answer() -> None:
    table = [(Progress, 1, [CloseThinking((1,))])]
    paths = [path(WRONG, 40), path(RIGHT, 4000, forced_answer=OTHER)]
    result = await solve(paths, n=2, policy=Script, policy_params={"table": table}, verifier=Judge())
    assert (result.paths[1].answer, result.paths[1].forced) == (OTHER, True)
    assert result.paths[1].tokens.injected == 2


async def test_every_path_has_its_events_in_order() -> None:
    async with Reasoner(ScriptedBackend([path(WRONG, 100), path(RIGHT, 150)])) as reasoner:
        events = [event async for event in reasoner.stream("Which one?", n=2, verifier=Judge(), policy="best_of_n")]
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[-1], ProblemFinished)
    kinds = [type(e).__name__ for e in events if getattr(e, "path", None) == 1 and not isinstance(e, Progress)]
    assert kinds == ["PathStarted", "ThinkingClosed", "PathFinished", "AnswerReady", "Verified"]
    assert [e.tokens for e in events] == sorted(e.tokens for e in events)


async def test_cancelling_the_awaiting_task_frees_everything_before_it_returns() -> None:
    backend = ScriptedBackend([path(WRONG, 4000)])
    reasoner = Reasoner(backend)
    for wait in range(0, 40, 3):
        task = asyncio.create_task(reasoner.solve("Which one?", n=4, verifier=Judge()))
        for _ in range(wait):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert backend.stats().pages_used == 0
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others


async def test_a_second_cancellation_during_the_clean_up_does_not_cut_it_short() -> None:
    class Slow(ScriptedBackend):
        async def open(self, request: Any) -> Any:
            session = await super().open(request)
            close = session.close

            async def slow_close() -> None:
                for _ in range(20):
                    await asyncio.sleep(0)
                await close()

            session.close = slow_close  # type: ignore[method-assign]
            return session

    backend = Slow([path(WRONG, 4000)])
    task = asyncio.create_task(Reasoner(backend).solve("Which one?", n=4))
    for _ in range(30):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.stats().pages_used == 0


async def test_a_cancellation_while_the_session_opens_leaves_nothing_open() -> None:
    class Slow(ScriptedBackend):
        async def open(self, request: Any) -> Any:
            for _ in range(10):
                await asyncio.sleep(0)
            return await super().open(request)

    backend = Slow([path(WRONG, 4000)])
    task = asyncio.create_task(Reasoner(backend).solve("Which one?", n=4))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(backend.sessions), backend.stats().pages_used) == (1, 0)


async def test_the_same_seed_gives_the_same_run() -> None:
    def script(seed: int, index: int) -> ScriptedPath:
        return path((WRONG, RIGHT, OTHER)[(seed + index) % 3], 10 + (seed * 7 + index * 13) % 50)

    runs = []
    for _ in range(2):
        async with Reasoner(ScriptedBackend(script)) as reasoner:
            events = [e async for e in reasoner.stream("Which one?", n=8, seed=5, verifier=Judge())]
        runs.append([(type(e).__name__, e.seq, e.tokens) for e in events])
    assert runs[0] == runs[1]


async def test_a_stop_string_ends_the_answer_before_it() -> None:
    result = await solve([ScriptedPath("yes END and more", 10, 16)], n=1, stop="END", policy="majority",
                         verifier=Judge())
    assert result.text == "yes "
    assert result.paths[0].finish_reason is FinishReason.STOP_STRING


async def test_a_bad_event_log_path_is_refused_before_anything_runs() -> None:
    backend = ScriptedBackend([path()])
    with pytest.raises(InvalidRequest, match="cannot be written"):
        await Reasoner(backend).solve("Which one?", events="/no/such/folder/log.jsonl")
    assert backend.sessions == []


async def test_path_started_comes_for_each_path_before_anything_else_of_it() -> None:
    async with Reasoner(ScriptedBackend([path()])) as reasoner:
        events = [event async for event in reasoner.stream("Which one?", n=3)]
    assert all(isinstance(event, PathStarted) for event in events[:3])
    assert sum(isinstance(event, PathFinished) for event in events) == 3
