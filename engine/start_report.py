"""What an engine did before it was ready, and what that left: for the log and for benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass(frozen=True, slots=True)
class StartReport:
    """seconds: of each phase, in order. weight_bytes: read by a decode step. graphs: captured, with the seconds and
    bytes that took. attention, products: a line for each choice and what was measured."""

    seconds: dict[str, float]
    weight_bytes: int = 0
    kv_bytes: int = 0
    kv_tokens: int = 0
    graphs: int = 0
    graph_seconds: float = 0.0
    graph_bytes: int = 0
    prefill: str = ""
    xqa: str = ""
    attention: tuple[str, ...] = ()
    products: tuple[str, ...] = ()

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    def lines(self) -> Iterator[str]:
        """Readable, one fact a line."""
        phases = ", ".join(f"{name} {value:.1f}" for name, value in self.seconds.items())
        yield f"ready in {self.total_seconds:.1f} s ({phases})"
        yield f"KV pool: {self.kv_tokens:,} tokens, {self.kv_bytes / 2**30:.1f} GiB"
        if self.graphs:
            cost = f"{self.graph_seconds:.1f} s, {self.graph_bytes >> 20} MB"
            yield f"decode graphs: {self.graphs} captured in {cost}"
        if self.prefill:
            yield f"prefill attention: {self.prefill}; XQA for decode: {self.xqa}"
        yield from (f"decode attention, {line}" for line in self.attention)
        yield from (f"product, {line}" for line in self.products)


@dataclass(slots=True)
class Stopwatch:
    """Seconds by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begun = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - begun
