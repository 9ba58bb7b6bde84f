"""Decode speed of the engine, as a caller of AsyncEngine sees it.

    python -m scripts.bench_decode --predict                     # floors from bytes alone; needs no GPU
    python -m scripts.bench_decode                               # every section on a GPU, Qwen3-8B's shape
    python -m scripts.bench_decode --sections decode,prefill     # some of them; rows are merged into the file
    python -m scripts.bench_decode --points 16x1k 16x10k --sections decode
    python -m scripts.bench_decode --table                       # the file as Markdown
    python -m scripts.bench_decode --device cpu --model embedded --points 2x64 --steps 16 --sections decode

Sections, in this order: decode (the grid), prefill, embedded (16 and 2,048 paths of the embedded model), eager (graphs
against single launches, 0.6B and 8B), statistics, gaps (50 streams while a 32k prompt arrives), invariant, startup.
A row is printed and written as soon as it is there. docs/benchmarks.md says how to read them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import EngineError
from engine.models.spec import ModelSpec
from scripts.decode.cost import H200_READ, Cost, read_bandwidth
from scripts.decode.embedded import LOADS, embedded
from scripts.decode.gaps import Arrival, gaps
from scripts.decode.grid import Bench, Method, decode, predict, prefill, with_statistics
from scripts.decode.points import GRID, HOST, INVARIANT, PREFILL, SHORT, SMALL, K, Point
from scripts.decode.record import Record
from scripts.decode.start import starts
from scripts.decode.subject import Machine, Subject
from scripts.decode.tables import tables
from scripts.decode.trace import warm_up

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "decode_h200.json"
EAGER_MODELS = ("qwen3-0.6b", "qwen3-8b")
CHUNKS = (512, 2 * K)


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for. points: of every section that has some; None: each one's own."""

    bench: Bench
    model: str
    points: tuple[Point, ...] | None
    scratch: Path

    @property
    def mode(self) -> str:
        """How an engine runs that is told nothing else."""
        return self.named("graph" if self.bench.machine.device == "cuda" else "cpu")

    def named(self, mode: str) -> str:
        return f"{mode}, own process" if self.bench.machine.own_process else mode

    def subject(self, name: str = "") -> Subject:
        return Subject.find(name or self.model, self.scratch)


async def decode_section(order: Order) -> None:
    points = order.points or GRID + HOST
    short = [point for point in points if point.context <= K]
    await decode(order.bench, order.subject(), points, order.mode, watched=short)


async def prefill_section(order: Order) -> None:
    await prefill(order.bench, order.subject(), order.points or PREFILL)


async def embedded_section(order: Order) -> None:
    await embedded(order.bench, order.subject("embedded"), LOADS, order.mode)


async def eager_section(order: Order) -> None:
    for model in EAGER_MODELS:
        subject, points = order.subject(model), order.points or SHORT
        await decode(order.bench, subject, points, order.mode)
        await decode(order.bench, subject, points, order.named("eager"), enforce_eager=True)


async def statistics_section(order: Order) -> None:
    await with_statistics(order.bench, order.subject(), order.points or SHORT, order.mode)
    await with_statistics(order.bench, order.subject("embedded"), SMALL, order.mode)


async def gaps_section(order: Order) -> None:
    for chunk in CHUNKS:
        await gaps(order.bench, order.subject(), Arrival(chunk=chunk))


async def invariant_section(order: Order) -> None:
    points = order.points or INVARIANT
    await decode(order.bench, order.subject(), points, order.named("invariant"), batch_invariant=True)


async def startup_section(order: Order) -> None:
    for model in dict.fromkeys((order.model, "embedded")):
        await asyncio.to_thread(starts, order.bench.record, model, order.bench.machine.device)


SECTIONS: dict[str, Callable[[Order], Awaitable[None]]] = {
    "decode": decode_section,
    "prefill": prefill_section,
    "embedded": embedded_section,
    "eager": eager_section,
    "statistics": statistics_section,
    "gaps": gaps_section,
    "invariant": invariant_section,
    "startup": startup_section,
}


async def measure(order: Order, sections: Sequence[str]) -> list[str]:
    """One section after the other. Returns those that an error of the engine has ended: the others still run."""
    failed = []
    for name in sections:
        print(f"== {name}", flush=True)
        begun = time.perf_counter()
        try:
            await SECTIONS[name](order)
        except EngineError as error:
            print(f"{name} ended: {type(error).__name__}: {error}", flush=True)
            failed.append(name)
        print(f"== {name}: {time.perf_counter() - begun:.0f} s", flush=True)
    return failed


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sections", type=_sections, default=tuple(SECTIONS), metavar="NAME,NAME,...")
    parser.add_argument("--model", default="qwen3-8b", help="a shape by name, `embedded`, or a model folder")
    parser.add_argument("--points", type=Point.parse, nargs="+", metavar="BATCHxCONTEXT")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--steps", type=int, default=256, help="that count in a round")
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts")
    parser.add_argument("--queue-steps", type=int, help="steps queued at once; default: the engine's")
    parser.add_argument("--step-tokens", type=int, help="tokens of one step; default: the engine's")
    parser.add_argument("--own-process", action="store_true", help="the step loop in a process of its own")
    parser.add_argument("--threads", type=int, help="of the CPU engine")
    parser.add_argument("--no-trace", dest="trace", action="store_false", help="no round under the profiler")
    parser.add_argument("--commit", default="", help="for the rows, where git cannot tell")
    parser.add_argument("--out", type=Path, help=f"the file of rows; default on a GPU: {OUT.name}, else none")
    parser.add_argument("--predict", action="store_true", help="print the floors and leave")
    parser.add_argument("--table", action="store_true", help="print the file as Markdown and leave")
    args = parser.parse_args(argv)
    if args.out is None and (args.device == "cuda" or args.table):
        args.out = OUT
    return args


def _sections(text: str) -> tuple[str, ...]:
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        known = ", ".join(SECTIONS)
        raise argparse.ArgumentTypeError(f"no section is called {', '.join(unknown)}; known: {known}")
    return tuple(name for name in SECTIONS if name in chosen)


def main(argv: Sequence[str] | None = None) -> int:
    """1 where a section has failed."""
    args = arguments(argv)
    if args.table:
        print("\n".join(tables(Record.open(args.out, "cpu"))))
        return 0
    points = tuple(args.points) if args.points else None
    with tempfile.TemporaryDirectory() as scratch:
        if args.predict:
            spec = ModelSpec.read(Subject.find(args.model, Path(scratch)).folder)
            cost = Cost.of(spec, torch.bfloat16)
            print("\n".join(predict(args.model, cost, points or GRID + HOST, H200_READ, args.steps)))
            return 0
        record = Record.open(args.out, args.device, args.commit)
        order = Order(_bench(args, record), args.model, points, Path(scratch))
        failed = asyncio.run(measure(order, args.sections))
    print("\n".join(tables(record.of_this_run())))
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


def _bench(args: argparse.Namespace, record: Record) -> Bench:
    """Measures the memory, and makes the profiler ready where it will be needed."""
    read = read_bandwidth(args.device)
    print(f"read bandwidth {read / 1e12:.2f} TB/s", flush=True)
    machine = Machine(args.device, args.threads, args.queue_steps, args.step_tokens, args.own_process)
    traced = args.trace and args.device == "cuda" and not args.own_process
    if traced:
        warm_up()
    return Bench(machine, Method(args.steps, args.rounds, traced), record, read)


if __name__ == "__main__":
    sys.exit(main())
