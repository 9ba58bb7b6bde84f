"""The whole engine on tiny random models: parity with transformers, independence, cancellation, budgets."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from engine.async_engine import AsyncEngine, GroupHandle
from engine.config import EngineConfig
from engine.errors import DoesNotFit, EngineClosed, InvalidParameter
from engine.types import (
    Committed,
    FinishReason,
    Group,
    GroupFinished,
    PathFinished,
    PathHeld,
    Phase,
    SamplingParams,
    Thinking,
)


@dataclass
class Seen:
    """What one group's events told."""

    ids: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    phases: dict[int, list[Phase]] = field(default_factory=lambda: defaultdict(list))
    logprobs: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    finished: dict[int, PathFinished] = field(default_factory=dict)
    end: GroupFinished | None = None


async def watch(handle: GroupHandle, seen: Seen | None = None, held: set[int] | None = None) -> Seen:
    seen = seen or Seen()
    async for event in handle.events():
        match event:
            case Committed():
                for path in event.paths:
                    seen.ids[path.index] += path.ids
                    seen.phases[path.index].append(path.phase)
                    seen.steps[path.index].append(event.step)
                    seen.logprobs[path.index] += [entry.logprob for entry in path.logprobs]
            case PathHeld():
                assert held is not None, "nobody resumes it"
                held.add(event.index)
            case PathFinished():
                assert event.index not in seen.finished, "one finish reason a path"
                seen.finished[event.index] = event
            case GroupFinished():
                seen.end = event
    return seen


async def start(model: Path, **changes: object) -> AsyncEngine:
    settings = {"threads": 2, "kv_tokens": 16_384, "max_paths": 32, "page_size": 16} | changes
    return await AsyncEngine.start(EngineConfig(model, **settings))  # type: ignore[arg-type]


def prompt(length: int, salt: int = 0) -> tuple[int, ...]:
    return tuple((31 * i + 17 * salt + 5) % 300 + 10 for i in range(length))


def group(
    length: int = 21, n: int = 4, max_tokens: int = 24, seed: int = 7, salt: int = 0, **params: object
) -> Group:
    sampling = SamplingParams(max_tokens, **({"ignore_eos": True} | params))  # type: ignore[arg-type]
    return Group(prompt(length, salt), n, sampling, seed)


async def tokens_of(engine: AsyncEngine, wanted: Group) -> dict[int, list[int]]:
    return dict((await watch(await engine.open(wanted))).ids)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
async def test_greedy_tokens_and_logprobs_agree_with_transformers_for_ragged_groups(tiny_models, family):
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(tiny_models[family], dtype=torch.float32).eval()
    engine = await start(tiny_models[family])
    warm = await engine.open(group(60, n=8, max_tokens=200, salt=9))
    running = asyncio.create_task(watch(warm))
    await asyncio.sleep(0.05)
    await warm.cancel([0, 2, 5])  # their pages are used again by what follows
    lengths = [1, 2, 16, 17, 33, 100]
    asked = [group(n, n=2, max_tokens=20, salt=n, temperature=0.0, logprobs=0) for n in lengths]
    seen = await asyncio.gather(*[watch(await engine.open(one)) for one in asked])
    await warm.close()
    await running
    for one, got in zip(asked, seen, strict=True):
        ids = torch.tensor([one.prompt_ids + tuple(got.ids[0])])
        with torch.no_grad():
            logits = reference(ids).logits[0].float().log_softmax(-1)
        steps = range(len(one.prompt_ids) - 1, ids.shape[1] - 1)
        assert got.ids[0] == got.ids[1] == [int(logits[i].argmax()) for i in steps]
        want = torch.stack([logits[i, ids[0, i + 1]] for i in steps])
        assert torch.allclose(torch.tensor(got.logprobs[0]), want, atol=1e-4)
    assert engine.stats().pages_used == 0
    await engine.close()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_a_path_has_the_same_tokens_alone_and_beside_anything(tiny_model, dtype):
    """Bitwise: the same log-probabilities, not only the same tokens."""
    asked = group(37, n=5, max_tokens=40, logprobs=0)
    runs = []
    for changes in ({}, {"overlap": 1}, {"step_tokens": 48}, {"max_paths": 2}):
        engine = await start(tiny_model, dtype=dtype, **changes)
        others = [
            await engine.open(group(50 + 9 * i, n=3, max_tokens=30, salt=i)) for i in range(len(changes) * 3)
        ]
        crowd = [asyncio.create_task(watch(other)) for other in others]
        seen = await watch(await engine.open(asked))
        for other in others:
            await other.close()
        await asyncio.gather(*crowd)
        runs.append((changes, dict(seen.ids), dict(seen.logprobs)))
        await engine.close()
    for changes, ids, logprobs in runs[1:]:
        assert ids == runs[0][1], changes
        assert logprobs == runs[0][2], changes


async def test_queued_steps_give_the_tokens_and_log_probabilities_of_single_ones(tiny_model):
    short, long = (group(37, n=3, max_tokens=tokens, salt=tokens, logprobs=0) for tokens in (13, 40))
    runs = []
    for changes in ({}, {"queue_steps": 8}, {"queue_steps": 8, "overlap": 1, "max_paths": 4}):
        engine = await start(tiny_model, **changes)
        asked = [replace(one, watched=not changes) for one in (short, long)]
        handles = [await engine.open(one) for one in asked]
        seen = await asyncio.gather(*map(watch, handles))
        assert max(len(ids) for one in seen for ids in one.ids.values()) == 40
        assert bool(changes) == (len(seen[1].steps[0]) < 20), "several tokens an event"
        runs.append([(dict(one.ids), dict(one.logprobs), one.end) for one in seen])
        assert engine.stats().pages_used == 0
        await engine.close()
    assert runs[0] == runs[1] == runs[2]


async def test_a_path_of_a_group_of_one_equals_the_same_index_in_a_larger_group(tiny_model):
    engine = await start(tiny_model)
    many = await tokens_of(engine, group(n=20))
    for index in (0, 7, 19):
        sampling = SamplingParams(24, ignore_eos=True)
        alone = await tokens_of(engine, Group(prompt(21), 1, sampling, 7, first_index=index))
        assert alone[index] == many[index]
    assert len({tuple(ids) for ids in many.values()}) == 20, "siblings differ"
    other = await tokens_of(engine, group(n=2, seed=8))
    assert other[0] != many[0]
    await engine.close()


async def test_eight_paths_go_on_decoding_while_a_4k_prompt_arrives(tiny_model):
    engine = await start(tiny_model)
    seen = Seen()
    handle = await engine.open(group(n=8, max_tokens=300))
    running = asyncio.create_task(watch(handle, seen))
    while not seen.ids[7]:
        await asyncio.sleep(0.01)
    await watch(await engine.open(group(4096, n=1, max_tokens=2)))
    await handle.close()
    await running
    for index in range(8):
        steps = seen.steps[index]
        assert steps == list(range(steps[0], steps[0] + len(steps))), "a token in every step, prefill or not"
    assert len(seen.steps[0]) > 4096 // 256
    await engine.close()


async def test_cancel_frees_the_pages_and_reports_the_tokens_and_nothing_follows(tiny_model):
    engine = await start(tiny_model)
    seen = Seen()
    handle = await engine.open(group(n=6, max_tokens=2000))
    running = asyncio.create_task(watch(handle, seen))
    while not seen.ids[5]:
        await asyncio.sleep(0.01)
    used = engine.stats().pages_used
    spent = await handle.cancel([1, 2])
    assert engine.stats().pages_used < used
    assert (
        spent
        == sum(seen.finished[i].usage.generated for i in (1, 2))
        == sum(len(seen.ids[i]) for i in (1, 2))
    )
    assert await handle.cancel([1, 2, 99]) == 0
    await handle.close()
    await running
    assert {event.reason for event in seen.finished.values()} == {FinishReason.CANCELLED}
    assert [len(seen.ids[i]) for i in range(6)] == [seen.finished[i].usage.generated for i in range(6)]
    assert engine.stats().pages_used == 0
    await engine.close()


async def test_a_cancelled_opener_leaves_no_group_behind(tiny_model):
    engine = await start(tiny_model)
    for _ in range(20):
        task = asyncio.create_task(engine.open(group(n=4, max_tokens=2000)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await watch(await engine.open(group(n=1, max_tokens=2)))
    assert engine.stats().groups_running == engine.stats().pages_used == 0
    await engine.close()


ANY = SamplingParams(8)


async def test_stop_tokens_and_the_end_of_turn_end_a_path_with_their_own_reason(tiny_model):
    engine = await start(tiny_model)
    free = await watch(await engine.open(group(n=12, max_tokens=64)))
    stop = free.ids[0][5]
    seen = await watch(await engine.open(group(n=12, max_tokens=64, stop_ids=(stop,))))
    cut = free.ids[0].index(stop) + 1
    assert seen.ids[0] == free.ids[0][:cut]
    assert seen.finished[0].reason is FinishReason.STOP_TOKEN
    for index, ids in free.ids.items():
        reason = seen.finished[index].reason
        assert reason is (FinishReason.STOP_TOKEN if stop in ids else FinishReason.LENGTH)
    await engine.close()


async def test_bad_requests_are_refused_and_the_engine_goes_on(tiny_model):
    engine = await start(tiny_model, kv_tokens=2048)
    with pytest.raises(DoesNotFit, match="the largest budget"):
        await engine.open(group(10, max_tokens=5000))
    with pytest.raises(DoesNotFit, match="context of 8192"):
        await engine.open(group(9000, max_tokens=1))
    with pytest.raises(InvalidParameter, match="outside the vocabulary"):
        await engine.open(Group((5, 320), 1, SamplingParams(4)))
    with pytest.raises(InvalidParameter, match="stop_ids"):
        await engine.open(Group((5,), 1, SamplingParams(4, stop_ids=(999,))))
    assert len(await tokens_of(engine, group(n=2))) == 2
    await engine.close()
    with pytest.raises(EngineClosed):
        await engine.open(group())
    await engine.close()


@pytest.mark.parametrize("block_the_event_loop", [False, True])
async def test_a_group_that_ends_before_open_returns_is_still_delivered(tiny_model, block_the_event_loop):
    engine = await start(tiny_model)
    opening = asyncio.create_task(engine.open(Group((5,), 1, SamplingParams(1))))
    await asyncio.sleep(0)
    if block_the_event_loop:
        time.sleep(0.2)
    seen = await watch(await opening)
    assert seen.finished[0].reason in (FinishReason.LENGTH, FinishReason.EOS)
    await engine.close()


async def test_logprobs_come_as_each_path_asked_whatever_its_neighbours_want(tiny_model):
    engine = await start(tiny_model)
    wanted = [None, 0, 2, 5]
    handles = [await engine.open(group(n=1, max_tokens=40, salt=i, logprobs=k)) for i, k in enumerate(wanted)]

    async def widths(handle: GroupHandle) -> set[int | None]:
        found: set[int | None] = set()
        async for event in handle.events():
            if isinstance(event, Committed):
                found |= {len(path.logprobs[0].top) if path.logprobs else None for path in event.paths}
        return found

    assert await asyncio.gather(*map(widths, handles)) == [{k} for k in wanted]
    await engine.close()


async def test_close_is_idempotent_for_groups_and_engines_and_the_end_can_be_read_twice(tiny_model):
    engine = await start(tiny_model)
    handle = await engine.open(group(n=2, max_tokens=500))
    await asyncio.gather(handle.close(), handle.close(), handle.cancel())
    await watch(handle)
    again = await watch(handle)
    assert again.end is not None
    await asyncio.gather(engine.close(), engine.close())
    await handle.close()
    await engine.close()


async def test_values_of_a_wrong_type_are_refused_and_harm_nobody_else(tiny_model):
    engine = await start(tiny_model)
    running = asyncio.create_task(watch(await engine.open(group(n=2, max_tokens=200))))
    for wrong in (
        lambda: SamplingParams(8, stop_ids=[7]),
        lambda: SamplingParams(8.0),
        lambda: Group((5,), 1.5, ANY),
        lambda: Group([5], 1, ANY),
        lambda: Group((5,), 10**6, ANY),
        lambda: SamplingParams(8, top_p="1"),
    ):
        with pytest.raises(InvalidParameter):
            wrong()
    handle = await engine.open(Group((5,), 1, ANY, stays_open=True))
    with pytest.raises(InvalidParameter):
        await handle.add_paths("2")
    with pytest.raises(InvalidParameter, match="unhashable"):
        await handle.cancel([[1]])
    await handle.close()
    seen = await running
    assert {event.reason for event in seen.finished.values()} == {FinishReason.LENGTH}
    await engine.close()


async def test_a_failing_step_reaches_every_stream_and_the_engine_still_closes(tiny_model, monkeypatch):
    engine = await start(tiny_model)
    running = [asyncio.create_task(watch(await engine.open(group(n=2, max_tokens=2000)))) for _ in range(2)]
    await asyncio.sleep(0.05)

    def broken(plan: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine._host._loop._runner, "launch", broken)
    for seen in await asyncio.gather(*running):
        assert {event.reason for event in seen.finished.values()} == {FinishReason.ERROR}
        assert all("out of memory" in event.message for event in seen.finished.values())
    with pytest.raises(EngineClosed, match="out of memory"):
        await engine.open(group())
    await engine.close()


async def test_closing_the_engine_ends_every_stream(tiny_model):
    engine = await start(tiny_model)
    running = [asyncio.create_task(watch(await engine.open(group(n=3, max_tokens=2000)))) for _ in range(3)]
    await asyncio.sleep(0.05)
    await engine.close()
    for seen in await asyncio.gather(*running):
        assert seen.end is not None
        assert len(seen.finished) == 3


@pytest.mark.parametrize(
    "wrong",
    [{"max_tokens": 0}, {"max_tokens": 5, "temperature": -1.0}, {"max_tokens": 5, "temperature": float("nan")},
     {"max_tokens": 5, "top_p": 0.0}, {"max_tokens": 5, "top_k": -1}, {"max_tokens": 5, "min_p": 1.0},
     {"max_tokens": 5, "repetition_penalty": 0.0}, {"max_tokens": 5, "frequency_penalty": 3.0},
     {"max_tokens": 5, "logprobs": 21}, {"max_tokens": 3, "thinking": Thinking(1, 2, (2,), answer_reserve=2)}],
)  # fmt: skip
def test_sampling_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        SamplingParams(**wrong)
