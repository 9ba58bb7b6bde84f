"""Budgets: defaults, the close in time for answers, the hard end, and what cannot hold an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from engine.types import FinishReason
from reasoner import Reasoner
from reasoner.actions import Action, Spawn
from reasoner.backends.scripted import ScriptedBackend
from reasoner.budget import Asked, Guard, Live, Room, guard, resolve
from reasoner.errors import InvalidRequest
from reasoner.events import BudgetExhausted, Cause, Closing, Event, Progress, ThinkingClosed
from reasoner.policies.majority import Majority
from reasoner.view import View
from tests.reasoner.support import RIGHT, WRONG, Judge, check_bill, path, solve


@dataclass
class Greedy(Majority):
    """Wants ten more paths once it runs."""

    name: ClassVar[str] = "greedy"

    def on(self, event: Event, view: View) -> Sequence[Action]:
        first = isinstance(event, Progress) and len(view.paths) == self.n
        return [Spawn(10)] if first else super().on(event, view)


@dataclass
class OnceMore(Majority):
    """Wants one more path when the first ones have answered."""

    name: ClassVar[str] = "once_more"

    def on(self, event: Event, view: View) -> Sequence[Action]:
        return [Spawn(1)] if view.quiet and len(view.paths) == self.n else super().on(event, view)


ROOM = Room(context_left=8000, path_default=4096, thinks=True, close=2, margin=1)


def test_defaults_follow_the_model_and_the_context() -> None:
    budget = resolve(Asked(), ROOM, 16)
    assert (budget.total, budget.path, budget.think, budget.answer_reserve) == (None, 4096, None, 512)
    assert resolve(Asked(), Room(1000, 4096, True, 2, 1), 16).path == 1000
    assert resolve(Asked(), Room(90_000, None, True, 2, 1), 16).path == 32_768


def test_the_answer_reserve_is_an_eighth_of_what_a_path_can_have() -> None:
    assert resolve(Asked(path_budget=512), ROOM, 16).answer_reserve == 64
    assert resolve(Asked(path_budget=100), ROOM, 16).answer_reserve == 32
    assert resolve(Asked(budget=8000), ROOM, 16).answer_reserve == 62
    assert resolve(Asked(), Room(40_000, None, True, 2, 1), 1).answer_reserve == 1024


def test_without_thinking_nothing_is_reserved_and_each_path_gets_an_even_share() -> None:
    budget = resolve(Asked(budget=1600), Room(8000, None, False, 0, 1), 16)
    assert (budget.path, budget.answer_reserve, budget.close) == (99, 0, 0)


@pytest.mark.parametrize(("asked", "n", "message"), [
    (Asked(budget=-5), 4, "budget must be a whole number of tokens >= 1, got -5"),
    (Asked(path_budget=0), 4, "path_budget must be a whole number of tokens >= 1, got 0"),
    (Asked(think_budget=-1), 4, "think_budget must be a whole number of tokens >= 0, got -1"),
    (Asked(path_budget=2.5), 4, "got 2.5"),  # type: ignore[arg-type]
    (Asked(path_budget=20), 4, "a path budget of 20 tokens cannot hold an answer: closing the thinking takes 2 and "
                               "the answer reserve is 32, so at least 35 are needed"),
    (Asked(path_budget=9000), 4, "path_budget 9000 exceeds the 8000 tokens that the prompt leaves"),
    (Asked(budget=100), 16, "a budget of 100 tokens cannot hold 16 answers: each path needs at least 36, 576 in all; "
                            "lower n to 2, or raise the budget"),
    (Asked(budget=10), 16, "raise the budget"),
    (Asked(think_budget=5, min_think=9), 4, "min_think 9 exceeds think_budget 5"),
])
def test_what_cannot_hold_an_answer_is_refused_with_the_numbers(asked: Asked, n: int, message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        resolve(asked, ROOM, n)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_thinking_budgets_of_a_model_that_does_not_think_are_refused() -> None:
    for asked in (Asked(think_budget=5), Asked(min_think=1), Asked(answer_reserve=9)):
        with pytest.raises(InvalidRequest, match="the model does not think here"):
            resolve(asked, Room(8000, None, False, 0, 1), 4)


def test_the_guard_closes_while_every_live_path_still_finds_its_reserve() -> None:
    budget = resolve(Asked(budget=1000, answer_reserve=50), ROOM, 4)
    thinking, answering = Live(True, 0), Live(False, 20)
    assert budget.floor == 54
    assert guard(budget, 1000 - 2 * 54 - 1, [thinking] * 2) is Guard.NOTHING
    assert guard(budget, 1000 - 2 * 54, [thinking] * 2) is Guard.CLOSE
    assert guard(budget, 1000 - 54 - 31 - 1, [thinking, answering]) is Guard.NOTHING
    assert guard(budget, 999, [answering]) is Guard.CUT
    assert guard(resolve(Asked(), ROOM, 4), 10**9, [thinking]) is Guard.NOTHING


async def test_when_the_budget_runs_out_every_path_still_answers() -> None:
    result = await solve([path(RIGHT, 4000)], n=8, budget=1500, policy="best_of_n", verifier=Judge())
    assert all(p.forced and p.answer == RIGHT for p in result.paths)
    assert result.verified
    assert 1000 < result.usage.completion_tokens <= 1500


async def test_what_short_paths_leave_of_the_budget_goes_to_the_long_ones() -> None:
    result = await solve([path(WRONG, 10), path(WRONG, 10), path(WRONG, 10), path(RIGHT, 900)], n=4, budget=1000,
                         verifier=Judge())
    assert result.verified
    assert not result.paths[3].forced


async def test_a_budget_spent_in_the_middle_of_endless_answers_ends_everything() -> None:
    result = await solve([path(WRONG, 10), path(RIGHT, 50, answer_tokens=4000)], n=4, budget=900, verifier=Judge())
    assert result.answer == WRONG
    assert [p.finish_reason for p in result.paths[1:]] == [FinishReason.CANCELLED] * 3
    assert result.usage.completion_tokens <= 900


async def test_a_late_path_is_closed_as_soon_as_it_thinks() -> None:
    paths = [path(WRONG, 4000), path(RIGHT, 4000, delay=230)]
    result = await solve(paths, n=2, budget=300, verifier=Judge())
    assert result.paths[1].forced
    assert result.verified
    assert result.usage.completion_tokens <= 300


async def test_a_think_budget_holds_for_each_path() -> None:
    result = await solve([path(RIGHT, 4000)], n=3, think_budget=25, policy="majority", verifier=Judge())
    assert [p.tokens.think for p in result.paths] == [25, 25, 25]
    assert [p.tokens.injected for p in result.paths] == [2, 2, 2]


async def test_the_close_is_announced_before_the_thinking_ends() -> None:
    events: list[Event] = []
    async with Reasoner(ScriptedBackend([path(RIGHT, 4000)])) as reasoner:
        async for event in reasoner.stream("Which one?", n=2, budget=400, verifier=Judge()):
            events.append(event)  # noqa: PERF401
    closing = next(e for e in events if isinstance(e, Closing))
    assert closing.cause is Cause.BUDGET
    assert all(e.seq > closing.seq and e.forced for e in events if isinstance(e, ThinkingClosed))
    assert not any(isinstance(e, BudgetExhausted) for e in events)


async def test_no_more_paths_start_than_can_still_answer() -> None:
    spawned = await solve([path(WRONG, 60)], n=2, budget=300, policy=Greedy, verifier=Judge(), progress_every=4)
    assert 3 <= len(spawned.paths) < 12
    assert all(p.key is not None for p in spawned.paths)
    assert any("the budget holds no answer for them" in warning for warning in spawned.warnings)


async def test_no_path_starts_once_a_problem_closes_even_where_tokens_are_left() -> None:
    result = await solve([path(WRONG, 900)], n=2, budget=300, policy=OnceMore, verifier=Judge())
    assert result.usage.completion_tokens < 300 - result.budget.floor
    assert len(result.paths) == 2
    assert result.warnings == ("1 of 1 paths were not started: the problem is closing",)


async def test_finishing_early_takes_the_answers_that_can_still_come() -> None:
    backend = ScriptedBackend([path(WRONG, 4000, forced_answer=RIGHT)], context_length=9000)
    run = Reasoner(backend).start("Which one?", n=4, policy="majority", verifier=Judge(), answer_reserve=40)
    for _ in range(100):
        await asyncio.sleep(0)
    run.finish_early()
    run.finish_early()
    spent = run.view.tokens
    result = await run.result()
    check_bill(result)
    assert (result.answer, result.verified) == (RIGHT, True)
    assert result.usage.completion_tokens < spent + 4 * 60
    assert backend.stats().pages_used == 0


async def test_cancelling_a_run_gives_its_bill_and_the_best_known() -> None:
    backend = ScriptedBackend([path(WRONG, 30), path(RIGHT, 4000)], context_length=9000)
    run = Reasoner(backend).start("Which one?", n=3, verifier=Judge(), progress_every=1)
    while not run.view.candidates:
        await asyncio.sleep(0)
    result = await run.cancel()
    check_bill(result)
    assert (result.stop, result.answer) == ("cancelled", WRONG)
    assert result.usage.cancelled_tokens > 60
    assert backend.stats().pages_used == 0
