"""The embedded model through the whole engine: one problem, and very many paths at once.

Its weights are read in microseconds, so that a step is launches and host time: what the engine costs by itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from engine.async_engine import AsyncEngine
from engine.types import SamplingParams
from scripts.decode.grid import Bench, mode_of, traced
from scripts.decode.points import K, Point
from scripts.decode.record import Row
from scripts.decode.streams import FIRST, Streams, random_prompts
from scripts.decode.subject import Subject, kv_tokens, started

PROMPT = 40  # tokens, about those of a countdown problem
AT_1K = (896, 1152)


@dataclass(frozen=True, slots=True)
class Load:
    """groups problems of `paths` paths each, which all run to `budget` tokens."""

    groups: int
    paths: int
    budget: int = 4 * K
    watched: bool = False

    @property
    def point(self) -> Point:
        return Point(self.groups * self.paths, PROMPT)


LOADS = (Load(1, 16), Load(1, 16, watched=True), Load(128, 16))


async def embedded(bench: Bench, subject: Subject, loads: tuple[Load, ...], engine_mode: str) -> None:
    """A row a load, all on one engine."""
    tokens = max(kv_tokens([load.point], load.budget) for load in loads)
    config = bench.machine.config(subject, [load.point.batch for load in loads], tokens)
    async with started(config) as engine:
        for load in loads:
            await _run(bench, subject, engine, load, engine_mode)


async def _run(bench: Bench, subject: Subject, engine: AsyncEngine, load: Load, engine_mode: str) -> None:
    sampling = SamplingParams(load.budget, temperature=1.0, ignore_eos=True)
    prompts = random_prompts(load.groups, PROMPT, engine.model.vocab_size)
    streams = await Streams.open(engine, prompts, sampling, watched=load.watched)
    rounds = [await _round(streams, bench.method.last, load) for _ in range(bench.method.rounds)]
    device = await traced(streams, bench.method, load.paths)
    await streams.close()
    best = {name: min(each[name] for each in rounds) for name in rounds[0]}
    point, early = load.point, best.pop("early")
    more: Row = {
        "groups": load.groups,
        "budget": load.budget,
        "ms_rounds": [each["early"] for each in rounds],
    }
    for name, ms in best.items():
        more |= {f"ms_{name}": ms, f"tokens_per_s_{name}": 1000 * point.batch / ms}
    mode = mode_of(engine_mode, watched=load.watched)
    bench.record.add("rows", bench.row(subject, engine, point, mode, early, **more, **device))


async def _round(streams: Streams, early: int, load: Load) -> dict[str, float]:
    """ms of a step: of the first tokens, around 1k tokens, and of everything from the order to the last token."""
    spans = {"early": (FIRST, early)} | ({"at_1k": AT_1K} if load.budget >= AT_1K[1] else {})
    begun = time.perf_counter()
    meter = await streams.add({mark for span in spans.values() for mark in span}, load.paths)
    ms = {
        name: 1000 * (await meter.at(last) - await meter.at(first)) / (last - first)
        for name, (first, last) in spans.items()
    }
    return ms | {"whole": 1000 * (await meter.over() - begun) / load.budget}
