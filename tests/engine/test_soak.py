"""Long runs that `make test` leaves out; `make soak` prints what they did."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from engine.types import FinishReason, Group, SamplingParams
from tests.engine.histories import Life, comes_to_rest
from tests.engine.test_engine import Seen, prompt, start, watch

SECONDS = 120.0


@pytest.mark.soak
def test_the_scheduler_comes_to_rest_on_twenty_thousand_random_histories():
    for seed in range(20_000):
        comes_to_rest(seed, seed % 2)
    print("\nscheduler: 20,000 random histories, no spin, no hang, every page counted")


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_two_hundred_thousand_passes_with_holds_resumes_cancels_and_queued_steps_break_no_fence():
    passes = seed = 0
    while passes < 200_000:
        life = Life(10_000 + seed, 2_000)
        life.run()
        passes, seed = passes + life.passes, seed + 1
    print(f"\nscheduler: {passes:,} passes in {seed:,} random histories, no fence broken, every token once")


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("overlap", [0, 1])
async def test_the_engine_under_random_load_gives_each_path_its_own_tokens_and_every_page_back(
    tiny_model, overlap
):
    """Random groups, cancellations and closes; whatever ran to its end is compared with the same group alone."""
    draw = random.Random(overlap)
    engine = await start(tiny_model, overlap=overlap, kv_tokens=6_000, page_size=4)
    alone: dict[Group, Seen] = {}
    begun, done, cancelled, tokens = time.monotonic(), 0, 0, 0
    while time.monotonic() - begun < SECONDS:
        asked = [
            Group(
                prompt(draw.randint(1, 90), draw.randint(0, 5)),
                draw.randint(1, 9),
                SamplingParams(draw.randint(1, 60)),
            )
            for _ in range(draw.randint(1, 6))
        ]
        handles = [await engine.open(one) for one in asked]
        running = [asyncio.create_task(watch(handle)) for handle in handles]
        for handle in handles:
            if draw.random() < 0.4:
                await asyncio.sleep(draw.random() * 0.05)
                await handle.cancel(draw.choice([None, [0], [1, 2]]))
        for one, seen in zip(asked, await asyncio.gather(*running), strict=True):
            assert len(seen.finished) == one.n
            for index, event in seen.finished.items():
                assert len(seen.ids[index]) == event.usage.generated
                cancelled += event.reason is FinishReason.CANCELLED
            if all(event.reason is not FinishReason.CANCELLED for event in seen.finished.values()):
                first = alone.setdefault(one, await watch(await engine.open(one)))
                assert seen.ids == first.ids
            done += one.n
            tokens += sum(map(len, seen.ids.values()))
        assert engine.stats().pages_used == 0
    print(
        f"\nengine, overlap {overlap}: {done:,} paths, {cancelled:,} cancelled, {tokens:,} tokens in {SECONDS:.0f} s, "
        "every page back after each round, tokens as alone"
    )
    await engine.close()
