"""What a long prompt does to those who are reading: the time between two tokens while it is prefilled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.async_engine import AsyncEngine
from engine.config import BLOCK
from engine.types import Group
from scripts.decode.grid import Bench
from scripts.decode.points import K, Point
from scripts.decode.streams import FIRST, Meter, Stream, Streams, opened, random_prompts, sampling_for
from scripts.decode.subject import Subject, kv_tokens, started

SETTLED = 64  # tokens of each stream before the prompt arrives


@dataclass(frozen=True, slots=True)
class Arrival:
    """streams paths stream behind `context` tokens each. arriving: tokens of the prompt. chunk: of them in a step."""

    streams: int = 50
    context: int = K
    arriving: int = 32 * K
    chunk: int = 2 * K

    @property
    def point(self) -> Point:
        return Point(self.streams, self.context)

    @property
    def budget(self) -> int:
        """Of a stream: no step of the prefill may find it at its end."""
        return 2 * SETTLED + 4 * -(-self.arriving // self.chunk) + 64


async def gaps(bench: Bench, subject: Subject, arrival: Arrival) -> None:
    most = -(-(arrival.streams + 1) // BLOCK) * BLOCK
    tokens = kv_tokens([arrival.point], arrival.budget) + kv_tokens([Point(1, arrival.arriving)], FIRST)
    config = bench.machine.config(subject, [most], tokens, step_tokens=most + arrival.chunk)
    async with (
        started(config) as engine,
        opened(engine, arrival.point, sampling_for(arrival.budget), watched=True) as readers,
    ):
        before, during, first_token = await _watch(engine, readers, arrival)
    bench.record.add(
        "gaps",
        {
            "model": subject.name,
            "streams": arrival.streams,
            "context": arrival.context,
            "arriving": arrival.arriving,
            "chunk": arrival.chunk,
            "longest_ms": max(during),
            "p99_ms": float(np.percentile(during, 99)),
            "p50_ms": float(np.percentile(during, 50)),
            "before_p50_ms": float(np.percentile(before, 50)),
            "first_token_s": first_token,
        },
    )


async def _watch(
    engine: AsyncEngine, readers: Streams, arrival: Arrival
) -> tuple[list[float], list[float], float]:
    """Milliseconds between two tokens of a stream, before the arrival and from it to the new path's first token;
    seconds to that token."""
    meter = await readers.add((FIRST, SETTLED))
    await meter.at(FIRST)
    times: list[list[float]] = [[] for _ in readers.streams]
    for stream, noted in zip(readers.streams, times, strict=True):
        stream.times = noted
    begun = await meter.at(SETTLED)
    prompt = random_prompts(1, arrival.arriving, engine.model.vocab_size, seed=1)[0]
    new = Meter(1, (1,))
    arrived = Stream(await engine.open(Group(prompt, 1, sampling_for(FIRST))), new)
    over = await new.at(1)
    before, during = (between(times, span) for span in ((0.0, begun), (begun, over)))
    await arrived.close()
    await readers.cancel()
    return before, during, over - begun


def between(times: list[list[float]], span: tuple[float, float]) -> list[float]:
    """Milliseconds from one time to the next of the same list, where the next lies in the span."""
    first, last = span
    return [1000 * (b - a) for noted in times for a, b in pairwise(noted) if first < b <= last]
