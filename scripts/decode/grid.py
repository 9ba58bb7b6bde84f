"""Decode steps over a grid of batch x context, and what it costs to prefill the prompts.

ms per step = (time until every path has FIRST + steps tokens - time until every path has FIRST) / steps, on the clock
of the caller that receives them; best of two rounds behind the same prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.async_engine import AsyncEngine
from engine.types import Statistic
from scripts.decode import trace
from scripts.decode.cost import Cost
from scripts.decode.points import Point
from scripts.decode.record import Record, Row
from scripts.decode.streams import FIRST, Streams, opened, sampling_for
from scripts.decode.subject import LABELS, Machine, Subject, kv_tokens, started

TRACED = 64  # steps
SLACK = (
    24  # tokens that a path may still decode at the end, so that no row is empty while the last one is timed
)


@dataclass(frozen=True, slots=True)
class Method:
    """steps: that count. rounds: of which the best counts. traced: one more round under the profiler."""

    steps: int = 256
    rounds: int = 2
    traced: bool = False

    @property
    def last(self) -> int:
        """Tokens of a path at the end of the steps that count."""
        return FIRST + self.steps

    @property
    def budget(self) -> int:
        return self.last + SLACK


@dataclass(frozen=True, slots=True)
class Bench:
    """What a row needs to be told from others and to be judged by. read: bytes a second of this machine's memory."""

    machine: Machine
    method: Method
    record: Record
    read: float

    def row(
        self, subject: Subject, engine: AsyncEngine, point: Point, mode: str, ms: float, **more: object
    ) -> Row:
        """ms: of a step on the mean of those that count."""
        cost = subject.cost(engine)
        floor = cost.floor_ms(point, FIRST + self.method.steps / 2, self.read)
        dtype = LABELS[engine.model.dtype]
        return {
            "model": subject.name,
            "batch": point.batch,
            "context": point.context,
            "kv_dtype": dtype,
            "weight_dtype": dtype,
            "mode": mode,
            "ms_per_step": ms,
            "tokens_per_s": 1000 * point.batch / ms,
            "floor_share": floor / ms,
            "floor_ms": floor,
            "read_tb_s": self.read / 1e12,
            **more,
        }


async def timed(streams: Streams, method: Method) -> list[float]:
    """Milliseconds of a step, in rounds of one new path behind each prompt."""
    ms = []
    for _ in range(method.rounds):
        meter = await streams.add((FIRST, method.last))
        begun = await meter.at(FIRST)
        ms.append(1000 * (await meter.at(method.last) - begun) / method.steps)
        await meter.over()
    return ms


async def traced(streams: Streams, method: Method, paths: int = 1) -> Row:
    """What one more round of so many paths behind each prompt does on the device, in fields of a row."""
    if not method.traced:
        return {}
    first, last = 2 * FIRST, min(2 * FIRST + TRACED, method.last)
    meter = await streams.add((first, last), paths)
    await meter.at(first)
    with trace.recording() as recorded:
        await meter.at(last)
    await streams.cancel()
    found = trace.analyse(recorded.events)
    if found is None:
        print(f"  no trace: no {trace.LAST_KERNEL} kernel ran twice while it was recorded", flush=True)
        return {}
    return {
        "kernels_per_step": found.kernels,
        "launches_per_step": found.launches,
        "gap_us_p50": found.gap_us_p50,
        "gap_us_p99": found.gap_us_p99,
        "gpu_idle_share": found.idle_share,
    }


def mode_of(engine_mode: str, *, watched: bool = False, statistics: bool = False) -> str:
    extras = [name for name, on in (("watched", watched), ("statistics", statistics)) if on]
    return ", ".join([engine_mode, *extras])


async def decode(
    bench: Bench,
    subject: Subject,
    points: Sequence[Point],
    engine_mode: str,
    *,
    watched: Sequence[Point] = (),
    **changes: object,
) -> None:
    """A row for each point; one more for each of `watched`, where somebody may act on every token, so that steps are
    not queued several at once."""
    batches = [point.batch for point in (*points, *watched)]
    tokens = kv_tokens([*points, *watched], bench.method.budget)
    config = bench.machine.config(subject, batches, tokens, **changes)
    sampling = sampling_for(bench.method.budget)
    async with started(config) as engine:
        for point, acts in [(point, False) for point in points] + [(point, True) for point in watched]:
            async with opened(engine, point, sampling, watched=acts) as streams:
                ms = await timed(streams, bench.method)
                host = 1000 * engine.stats().host_seconds
                device = await traced(streams, bench.method)
                mode, seconds = mode_of(engine_mode, watched=acts), streams.prefill_seconds
            more = {"ms_rounds": ms, "host_ms": host, "prefill_s": seconds} | device
            bench.record.add("rows", bench.row(subject, engine, point, mode, min(ms), **more))


async def with_statistics(
    bench: Bench,
    subject: Subject,
    points: Sequence[Point],
    engine_mode: str,
    statistics: tuple[Statistic, ...] = tuple(Statistic),
) -> None:
    """These statistics of every path, against none, in turns on one engine."""
    method = replace(bench.method, rounds=1)
    plain = sampling_for(method.budget)
    asked = replace(plain, statistics=statistics)
    # Both sets of prompts stay open, so the engine has room for twice as many paths as ever decode.
    batches = [point.batch for point in points]
    tokens = 2 * kv_tokens(points, method.budget)
    config = bench.machine.config(subject, [*batches, 2 * max(batches)], tokens)
    async with started(config) as engine:
        for point in points:
            async with opened(engine, point, plain) as without, opened(engine, point, asked) as counted:
                ms: dict[bool, list[float]] = {False: [], True: []}
                for _ in range(1 + bench.method.rounds):  # the first round of each makes what it needs
                    for on, streams in ((False, without), (True, counted)):
                        ms[on] += await timed(streams, method)
            best = {on: min(rounds[1:]) for on, rounds in ms.items()}
            mode = mode_of(engine_mode, statistics=True)
            ratio = best[False] / best[True]
            row = bench.row(
                subject, engine, point, mode, best[True], speed_ratio=ratio, ms_without=best[False]
            )
            bench.record.add("rows", row)


async def prefill(bench: Bench, subject: Subject, points: Sequence[Point]) -> None:
    """Seconds from the first `open` until the last path has its first token and seven more."""
    batches = [point.batch for point in points]
    config = bench.machine.config(subject, batches, kv_tokens(points, FIRST))
    async with started(config) as engine:
        # The first prompt of a process also pays for what is loaded on first use.
        await _prefill_once(engine, Point(1, min(point.context for point in points)))
        for point in points:
            seconds = await _prefill_once(engine, point)
            bench.record.add(
                "prefill",
                {
                    "model": subject.name,
                    "batch": point.batch,
                    "context": point.context,
                    "seconds": seconds,
                    "tokens_per_s": point.batch * point.context / seconds,
                    "step_tokens": config.tokens_per_step,
                },
            )


async def _prefill_once(engine: AsyncEngine, point: Point) -> float:
    async with opened(engine, point, sampling_for(FIRST)) as streams:
        return streams.prefill_seconds


def predict(subject_name: str, cost: Cost, points: Sequence[Point], read: float, steps: int) -> list[str]:
    """A line a point: the floor, from bytes alone."""
    lines = [
        f"{subject_name}: weights {cost.weights / 1e9:.2f} GB, KV {cost.kv_token / 1024:.0f} KiB a token"
    ]
    for point in points:
        read_bytes = cost.step_bytes(point, FIRST + steps / 2)
        lines.append(f"{point.name:>8}  {read_bytes / 1e9:7.2f} GB  floor {1000 * read_bytes / read:6.2f} ms")
    return lines
