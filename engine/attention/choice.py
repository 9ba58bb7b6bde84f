"""Which decode kernel a bucket runs: measured at start-up on the machine and the model's own shape.

Kernels differ by up to three times at the same bytes, and which is best depends on rows, lengths and heads. Each
candidate runs over the layers of the real pool at three lengths; the one with the least time relative to the best
at each length is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.attention.decode_kernels import DecodeKernel
from engine.attention.decode_plan import StateView
from engine.graphs.timing import TimedGraph

_RUNS = 12  # launches that one measurement averages over, or one a layer where there are more


@dataclass(frozen=True, slots=True)
class Timing:
    """One candidate at one length: microseconds a layer, and the KV bytes it read over that time in TB/s."""

    tokens: int  # of each row
    microseconds: float
    terabytes_per_second: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What a bucket runs, and what was measured of each candidate."""

    rows: int
    kernel: DecodeKernel
    timings: dict[str, tuple[Timing, ...]]

    def line(self) -> str:
        parts = [
            f"{name} "
            + " ".join(f"{t.microseconds:.0f}us@{t.tokens}={t.terabytes_per_second:.2f}TB/s" for t in row)
            for name, row in self.timings.items()
        ]
        return f"{self.rows} rows: {self.kernel.name}" + (f" of {'; '.join(parts)}" if parts else "")


def best(timings: dict[str, Sequence[float]]) -> str:
    """The candidate whose times, each relative to the best at that length, are least in sum."""
    fastest = [min(column) for column in zip(*timings.values(), strict=True)]
    return min(timings, key=lambda name: sum(a / b for a, b in zip(timings[name], fastest, strict=True)))


def lengths_to_try(context: int, pool_tokens: int, rows: int) -> tuple[int, ...]:
    """Short, middle and long for what one of `rows` paths can have in the pool."""
    longest = max(1, min(context, pool_tokens // rows))
    return tuple(sorted({min(longest, 1024), max(1, longest // 4), longest}))


class Chooser:
    """layers: the pool's views. table_width: pages that a path can have."""

    def __init__(self, layers: Sequence[Tensor], table_width: int, q_heads: int) -> None:
        self._layers, self._table_width, self._q_heads = layers, table_width, q_heads

    def choose(self, rows: int, candidates: Sequence[DecodeKernel], lengths: Sequence[int]) -> Choice:
        if len(candidates) == 1:
            return Choice(rows, candidates[0], {})
        timings: dict[str, list[Timing]] = {kernel.name: [] for kernel in candidates}
        for kernel in candidates:
            graph = self._captured(kernel, rows)
            for tokens in lengths:
                self._pretend(kernel, rows, tokens)
                timings[kernel.name].append(self._timing(graph, rows, tokens))
        name = best({name: [t.microseconds for t in row] for name, row in timings.items()})
        kernel = next(kernel for kernel in candidates if kernel.name == name)
        return Choice(rows, kernel, {name: tuple(row) for name, row in timings.items()})

    def _pretend(self, kernel: DecodeKernel, rows: int, tokens: int) -> None:
        """Prepares the kernel for rows of that length whose pages are spread over the pool."""
        layer = self._layers[0]
        page, pool_pages = layer.shape[2], layer.shape[0] - 1
        pages = -(-tokens // page)
        table = torch.zeros(rows, self._table_width, dtype=torch.int32, device=layer.device)
        spread = torch.arange(rows * pages, device=layer.device) * 7919 % pool_pages
        table[:, :pages] = spread.view(rows, pages).int()
        state = torch.full((rows, 1), tokens - 1, dtype=torch.int32, device=layer.device)
        slots = torch.arange(rows, dtype=torch.int32, device=layer.device)
        kernel.prepare(slots, StateView(state, next_id=0, position=0), table)

    def _captured(self, kernel: DecodeKernel, rows: int) -> TimedGraph:
        """Launches over different layers. A kernel of plain launch stands between two of them, as a matrix product does
        in a step: some candidates overlap with their own kind, and look up to twice as fast as they are."""
        layer = self._layers[0]
        q = torch.randn(rows, self._q_heads, layer.shape[4], device=layer.device).to(layer.dtype)
        self._pretend(kernel, rows, 1)

        def run(i: int) -> Tensor:
            q.mul_(1)
            return kernel.attend(self._layers[i % len(self._layers)], q)

        return TimedGraph(run, max(_RUNS, len(self._layers)))

    def _timing(self, graph: TimedGraph, rows: int, tokens: int) -> Timing:
        layer = self._layers[0]
        kv_heads, dim = layer.shape[3:]
        read = 2 * rows * tokens * kv_heads * dim * layer.dtype.itemsize
        microseconds = graph.microseconds()
        return Timing(tokens, microseconds, read / microseconds * 1e-6)
