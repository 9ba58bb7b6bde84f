"""The embedded model behind the API: real tokens, real pages, real cancellation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
import pytest_asyncio

from engine.async_engine import GroupHandle
from engine.types import FinishReason, Group
from reasoner import Reasoner
from reasoner.actions import Action, Spawn, Stop
from reasoner.backends.locate import locate, recommended
from reasoner.backends.native import NativeBackend
from reasoner.backends.protocol import SessionRequest
from reasoner.errors import InvalidRequest, ModelError
from reasoner.events import Event
from reasoner.models import embedded_path
from reasoner.policies.base import Capabilities, Policy
from reasoner.problem import Message, Task
from reasoner.view import View
from tests.reasoner.support import check_bill

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Rounds(Policy):
    """One path after the other, three in all."""

    name: ClassVar[str] = "rounds"

    def start(self, task: Task, capabilities: Capabilities, rng: random.Random) -> Sequence[Action]:
        return [Spawn(1)]

    def on(self, event: Event, view: View) -> Sequence[Action]:
        if not view.quiet:
            return []
        return [Spawn(1)] if len(view.paths) < 3 else [Stop("enough")]


EASY = "Use 3, 7, 11 and 25 to make 56."
HARD = "Use 13, 17, 19 and 23 to make 977."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reasoner() -> AsyncIterator[Reasoner]:
    async with Reasoner.load(threads=1, kv_tokens=16_384, context_length=2048) as loaded:
        yield loaded


async def test_a_verified_answer_ends_the_problem_and_nothing_stays_behind(reasoner: Reasoner) -> None:
    result = await reasoner.solve(EASY, n=12, verifier="countdown", seed=1, path_budget=400)
    check_bill(result)
    assert result.verified, result.to_line()
    assert r"\boxed{" in result.text
    assert "<think>" not in result.text + (result.paths[0].thinking or "")
    assert result.usage.prefilled_tokens <= result.usage.prompt_tokens
    # One step was under way when the verdict came, one more may begin before the engine hears of it.
    assert result.usage.after_stop_tokens <= 2 * sum(path.cancelled for path in result.paths)
    assert reasoner.stats().pages_used == 0


async def test_a_path_depends_on_its_seed_and_index_alone(reasoner: Reasoner) -> None:
    few = await reasoner.solve(HARD, n=2, policy="majority", seed=3, path_budget=48, answer_reserve=4)
    many = await reasoner.solve(HARD, n=4, policy="majority", seed=3, path_budget=48, answer_reserve=4)
    assert [(p.text, p.thinking) for p in few.paths] == [(p.text, p.thinking) for p in many.paths[:2]]
    assert len({p.thinking for p in many.paths}) == 4


async def test_cancelling_the_await_frees_every_page_before_it_returns(reasoner: Reasoner) -> None:
    for wait in (0.0, 0.05):
        task = asyncio.create_task(reasoner.solve(HARD, n=8, policy="majority", seed=0, path_budget=1000))
        await asyncio.sleep(wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stats = reasoner.stats()
        assert (stats.pages_used, stats.paths_running, stats.groups_running) == (0, 0, 0)


async def test_finishing_early_brings_the_answers_that_can_still_come(reasoner: Reasoner) -> None:
    run = reasoner.start(HARD, n=3, policy="majority", verifier="countdown", seed=0, path_budget=1500,
                         answer_reserve=40, progress_every=4)
    while run.view.tokens < 60:
        await asyncio.sleep(0.01)
    run.finish_early()
    result = await run.result()
    check_bill(result)
    assert all(path.forced for path in result.paths)
    assert result.answer is not None
    assert reasoner.stats().pages_used == 0


async def test_paths_can_be_added_when_all_others_have_ended(reasoner: Reasoner) -> None:
    result = await reasoner.solve(HARD, n=1, policy=Rounds, verifier="countdown", seed=0, path_budget=40,
                                  answer_reserve=4)
    assert [path.index for path in result.paths] == [0, 1, 2]
    assert len({path.thinking for path in result.paths}) > 1
    assert result.usage.prefilled_tokens < 2 * result.usage.prompt_tokens


async def test_a_thinking_budget_is_kept_and_an_answer_follows(reasoner: Reasoner) -> None:
    result = await reasoner.solve(HARD, n=4, policy="majority", verifier="countdown", seed=0, think_budget=12)
    assert all(path.forced and path.tokens.think == 12 for path in result.paths)
    assert all(path.tokens.injected > 0 and path.text for path in result.paths)


async def test_the_budget_of_the_problem_is_kept_and_answers_are_taken(reasoner: Reasoner) -> None:
    result = await reasoner.solve(HARD, n=4, policy="majority", verifier="countdown", seed=0, budget=300)
    check_bill(result)
    assert result.usage.completion_tokens <= 300
    assert sum(path.answer is not None for path in result.paths) >= 3
    assert reasoner.stats().pages_used == 0


async def test_a_stop_string_ends_an_answer_before_it(reasoner: Reasoner) -> None:
    result = await reasoner.solve(HARD, n=2, policy="majority", seed=0, think_budget=12, stop=r"\boxed")
    assert [path.finish_reason for path in result.paths] == [FinishReason.STOP_STRING] * 2
    assert all(path.text and r"\boxed" not in path.text for path in result.paths)


async def test_thinking_can_be_turned_off(reasoner: Reasoner) -> None:
    result = await reasoner.solve(HARD, n=2, policy="majority", seed=0, path_budget=30, enable_thinking=False)
    assert result.usage.think_tokens == 0
    assert result.budget.answer_reserve == 0
    with pytest.raises(InvalidRequest, match="does not think"):
        await reasoner.solve(HARD, n=2, enable_thinking=False, think_budget=12)


@pytest.mark.parametrize(("watched", "stop", "told"), [(True, (), True), (False, ("x",), True), (False, (), False)])
async def test_the_engine_may_queue_steps_only_where_neither_the_driver_nor_a_stop_string_can_act(
    reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch, watched: bool, stop: tuple[str, ...], told: bool
) -> None:
    backend = reasoner._backend
    assert isinstance(backend, NativeBackend)
    opened: list[Group] = []
    really_open = backend._engine.open

    async def noted(group: Group) -> GroupHandle:
        opened.append(group)
        return await really_open(group)

    monkeypatch.setattr(backend._engine, "open", noted)
    prompt = backend.prepare((Message("user", EASY),), None)
    request = SessionRequest(prompt, 1, 0, backend.facts.sampling, 8, stop=stop, watched=watched)
    session = await backend.open(request)
    await session.close()
    assert [group.watched for group in opened] == [told]


async def test_problems_run_beside_each_other_with_the_results_they_have_alone(reasoner: Reasoner) -> None:
    together = await reasoner.batch([EASY, HARD], n=2, policy="majority", seed=5, path_budget=44, answer_reserve=4)
    alone = await reasoner.solve(HARD, n=2, policy="majority", seed=6, path_budget=44, answer_reserve=4)
    assert [p.thinking for p in together[1].paths] == [p.thinking for p in alone.paths]


async def test_what_cannot_run_here_is_refused_with_the_numbers(reasoner: Reasoner) -> None:
    with pytest.raises(InvalidRequest, match=r"the prompt has \d+ tokens; the model's context holds 2048"):
        await reasoner.solve("word " * 3000)
    with pytest.raises(InvalidRequest, match="exceeds the"):
        await reasoner.solve(EASY, path_budget=5000)


async def test_a_dead_engine_says_so() -> None:
    loaded = await Reasoner.load(threads=1, kv_tokens=4096)
    await loaded.close()
    with pytest.raises(Exception, match="closed"):
        await loaded.solve(EASY, n=1)
    await loaded.close()


async def test_names_of_models() -> None:
    assert locate(None) == locate("embedded") == locate(embedded_path()) == embedded_path()
    sampling, tokens = recommended(embedded_path())
    assert (sampling.temperature, tokens) == (1.0, 4096)
    with pytest.raises(ModelError, match="does not exist"):
        locate("./no/such/folder")


async def test_an_engine_in_a_process_of_its_own_solves_what_one_beside_the_caller_does(reasoner: Reasoner) -> None:
    options = {"threads": 1, "kv_tokens": 16_384, "context_length": 2048}
    async with Reasoner.load(**options, own_process=True) as apart:
        assert apart.stats().pages_total == reasoner.stats().pages_total
        results = [await one.solve(HARD, n=2, policy="majority", seed=3, path_budget=48, answer_reserve=4)
                   for one in (apart, reasoner)]
    assert [p.thinking for p in results[0].paths] == [p.thinking for p in results[1].paths]
    assert results[0].paths[0].thinking
