"""The whole engine on a GPU with the embedded model: parity, graphs, overlap, invariance, endings, errors."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from engine.async_engine import AsyncEngine, GroupHandle
from engine.config import EngineConfig
from engine.errors import DoesNotFit, EngineError
from engine.types import (
    Committed,
    FinishReason,
    Group,
    PathFinished,
    PathHeld,
    SamplingParams,
    Statistic,
    Thinking,
    TokenLogprobs,
)

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


@dataclass
class Seen:
    ids: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    logprobs: dict[int, list[TokenLogprobs]] = field(default_factory=lambda: defaultdict(list))
    statistics: dict[int, tuple[float, ...]] = field(default_factory=dict)
    injected: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    finished: dict[int, PathFinished] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)


async def watch(handle: GroupHandle) -> Seen:
    seen = Seen()
    async for event in handle.events():
        match event:
            case Committed():
                for path in event.paths:
                    seen.ids[path.index] += path.ids
                    seen.logprobs[path.index] += path.logprobs
                    seen.statistics[path.index] = path.statistics
                    seen.injected[path.index] += path.injected
            case PathHeld():
                seen.held.append(event.index)
                await handle.resume([event.index])
            case PathFinished():
                assert event.index not in seen.finished
                seen.finished[event.index] = event
    return seen


async def start(model: Path, **changes: object) -> AsyncEngine:
    settings = {"device": "cuda", "kv_tokens": 400_000, "max_paths": 64, "capture_sizes": (1, 8, 16, 64)}
    settings |= changes
    settings = {name: value for name, value in settings.items() if value is not None}
    return await AsyncEngine.start(EngineConfig(model, **settings))  # type: ignore[arg-type]


def group(
    prompt: tuple[int, ...], n: int = 4, max_tokens: int = 64, seed: int = 7, **params: object
) -> Group:
    watched = bool(params.pop("watched", True))
    sampling = SamplingParams(max_tokens, **({"ignore_eos": True} | params))  # type: ignore[arg-type]
    return Group(prompt, n, sampling, seed, watched=watched)


async def run(engine: AsyncEngine, *asked: Group) -> list[Seen]:
    handles = [await engine.open(one) for one in asked]
    return list(await asyncio.gather(*[watch(handle) for handle in handles]))


async def once(model: Path, asked: list[Group], **changes: object) -> list[Seen]:
    engine = await start(model, **changes)
    seen = await run(engine, *asked)
    assert engine.stats().pages_used == 0
    await engine.close()
    return seen


def same(a: list[Seen], b: list[Seen]) -> bool:
    return all(x.ids == y.ids and x.logprobs == y.logprobs for x, y in zip(a, b, strict=True))


async def test_logprobs_agree_with_float32_transformers_on_100_prompts(folder, prompts):
    """Teacher-forced on what the engine sampled. Prints how far greedy paths go together."""
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval().cuda()
    asked = [group(p, 1, 120, temperature=1.0, logprobs=2, ignore_eos=False) for p in prompts]
    seen = await once(folder, asked)
    differences, wrong, compared = [], 0, 0
    for one, got in zip(asked, seen, strict=True):
        ids = torch.tensor([one.prompt_ids + tuple(got.ids[0])], device="cuda")
        with torch.no_grad():
            logits = reference(ids).logits[0].float().log_softmax(-1)
        rows = logits[len(one.prompt_ids) - 1 : -1]
        want = rows.gather(1, ids[0, len(one.prompt_ids) :, None])[:, 0]
        differences.append((torch.tensor([e.logprob for e in got.logprobs[0]]).cuda() - want).abs())
        best = rows.topk(2, dim=1)
        clear = (best.values[:, 0] - best.values[:, 1]) > 0.1
        ours = torch.tensor([e.top[0][0] for e in got.logprobs[0]]).cuda()
        wrong += int((clear & (ours != best.indices[:, 0])).sum())
        compared += len(ours)
    mean = float(torch.cat(differences).mean())
    print(
        f"\n{compared} tokens: mean absolute log-probability difference {mean:.4f}, clear argmax missed {wrong}"
    )
    assert mean <= 0.02
    assert wrong == 0
    await report_divergence(folder, prompts[:20], reference)


async def report_divergence(folder, prompts, reference) -> None:
    asked = [group(p, 1, 200, temperature=0.0, ignore_eos=False) for p in prompts]
    firsts = []
    for one, got in zip(asked, await once(folder, asked), strict=True):
        ids = torch.tensor([one.prompt_ids], device="cuda")
        with torch.no_grad():
            theirs = reference.generate(ids, max_new_tokens=200, do_sample=False)[0, ids.shape[1] :].tolist()
        ours = got.ids[0]
        apart = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b]
        firsts.append(apart[0] if apart else None)
    print(f"greedy, first token that differs in 200 (None: none): {firsts}")


async def test_overlap_and_queued_steps_change_no_token(folder, prompts):
    asked = [
        group(p, n, m, temperature=0.8, frequency_penalty=0.3, watched=False, logprobs=0)
        for p, n, m in zip(prompts, (1, 5, 2, 8), (3, 90, 33, 64), strict=False)
    ]
    base = await once(folder, asked, overlap=0, queue_steps=1, batch_invariant=True, capture_sizes=None)
    for overlap, queue in ((1, 1), (0, 8), (1, 8)):
        changed = await once(
            folder, asked, overlap=overlap, queue_steps=queue, batch_invariant=True, capture_sizes=None
        )
        assert same(base, changed), (overlap, queue)


async def test_batch_invariant_paths_have_the_same_bits_alone_and_in_any_crowd(folder, prompts):
    engine = await start(folder, batch_invariant=True, capture_sizes=None, max_paths=128)
    asked = group(prompts[0], 1, 150, temperature=1.0, logprobs=0)
    alone = (await run(engine, asked))[0]
    for crowd in (1, 7, 8, 9, 44, 64):
        others = [group(p * 2, 1, 20 + 7 * i % 200, seed=i) for i, p in enumerate(prompts[1 : crowd + 1])]
        together = (await run(engine, *others[: crowd // 2], asked, *others[crowd // 2 :]))[crowd // 2]
        assert together.logprobs == alone.logprobs, crowd
        assert together.ids == alone.ids, crowd
    await engine.close()


async def test_paths_of_a_group_are_distinct_and_come_again_with_the_seed(folder, prompts):
    engine = await start(folder, batch_invariant=True, capture_sizes=None)
    asked = group(prompts[0], 8, 50, seed=1)
    first, again = (await run(engine, asked))[0], (await run(engine, group(prompts[1], 3), asked))[1]
    assert len({tuple(ids) for ids in first.ids.values()}) == 8
    assert first.ids == again.ids
    await engine.close()


async def test_a_cancelled_path_stops_and_its_pages_come_back(folder, prompts):
    engine = await start(folder)
    handle = await engine.open(group(prompts[0], 16, 3000))
    running = asyncio.create_task(watch(handle))
    await asyncio.sleep(0.3)
    spent = await handle.cancel([0, 3])
    assert spent > 0
    assert (await handle.cancel()) > 0
    seen = await running
    assert {event.reason for event in seen.finished.values()} == {FinishReason.CANCELLED}
    for index, event in seen.finished.items():
        assert len(seen.ids[index]) == event.usage.generated
    assert engine.stats().pages_used == 0
    await engine.close()


@pytest.mark.parametrize("watched", [True, False])
async def test_the_thinking_budget_closes_on_the_device_and_a_held_path_goes_on_when_resumed(
    folder, prompts, watched
):
    markers = markers_of(folder)
    free = Thinking(*markers, max_tokens=30, answer_reserve=10)
    asked = [
        group(prompts[0], 6, 80, thinking=thinking, ignore_eos=False, watched=watched)
        for thinking in (free, replace(free, hold=True), replace(free, max_tokens=0))
    ]
    plain, held, closed = await once(folder, asked)
    for seen, budget in ((plain, 30), (held, 30), (closed, 0)):
        for ids in seen.ids.values():
            opened = ids.index(markers[0]) if markers[0] in ids else -1
            assert markers[1] in ids[: opened + budget + 2]
    assert sorted(held.held) == list(range(6))
    assert plain.held == []
    # The same group twice: the hold changes no token.
    assert held.ids == plain.ids


def markers_of(folder: Path) -> tuple[int, int, tuple[int, ...]]:
    from engine.text.tokenizer import load_tokenizer

    markers = load_tokenizer(folder).markers
    assert markers is not None
    return markers.open_id, markers.close_id, tuple(markers.close_ids)


async def test_statistics_are_those_of_the_logprobs(folder, prompts):
    asked = group(prompts[0], 4, 60, logprobs=20, statistics=tuple(Statistic), window=16)
    (seen,) = await once(folder, [asked])
    for index, entries in seen.logprobs.items():
        total, entropy, confidence, lowest = seen.statistics[index]
        assert total == pytest.approx(sum(e.logprob for e in entries), abs=2e-2)
        each = [-sum(p for _, p in e.top) / len(e.top) for e in entries]
        assert confidence == pytest.approx(sum(each[-16:]) / 16, rel=1e-3)
        windows = [sum(each[i - 16 : i]) / 16 for i in range(16, len(each) + 1)]
        assert lowest == pytest.approx(min(windows), rel=1e-3)
        assert entropy >= 0


async def test_long_prompts_beside_decoding_paths_change_nothing_in_invariant_mode(folder, prompts):
    engine = await start(folder, batch_invariant=True, capture_sizes=None, step_tokens=256)
    asked = group(prompts[0] * 8, 3, 60, logprobs=0)
    alone = (await run(engine, asked))[0]
    long = [group(tuple(p) * 60, 2, 30, seed=i) for i, p in enumerate(prompts[1:4])]
    together = (await run(engine, long[0], asked, *long[1:]))[1]
    assert together.ids == alone.ids
    assert together.logprobs == alone.logprobs
    await engine.close()


async def test_a_pool_that_cannot_fit_is_refused_with_the_numbers(folder):
    with pytest.raises(DoesNotFit, match="MiB"):
        await start(folder, kv_tokens=10**9)


async def test_an_unsupported_head_size_names_the_remedy(folder, tmp_path):
    config = json.loads((folder / "config.json").read_text()) | {"head_dim": 80}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineError, match=r"head_dim 80.*device='cpu'"):
        await start(tmp_path, weights="random")
