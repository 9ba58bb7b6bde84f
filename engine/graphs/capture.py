"""Captured decode steps: one graph for each bucket and sampling variant, all out of one memory pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from engine.sampling.device.variant import Variant

Body = Callable[[int, Variant], None]


@dataclass(frozen=True, slots=True)
class Captured:
    """What a capture cost."""

    rows: int
    variant: Variant
    seconds: float
    bytes: int


class DecodeGraphs:
    """body(rows, variant) launches one decode step of that many rows, waits for nothing and allocates nothing that
    outlives it. A replay is that same sequence of launches. All work happens on `stream`.

    padded_only: while it is entered every row is a padded one, because the step that warms up a capture really runs.
    """

    def __init__(
        self, body: Body, stream: torch.cuda.Stream, padded_only: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._body, self._stream, self._padded_only = body, stream, padded_only
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[tuple[int, Variant], torch.cuda.CUDAGraph] = {}
        self.log: list[Captured] = []

    def capture_all(self, sizes: Sequence[int], variants: Sequence[Variant]) -> None:
        """Largest first, so that the smaller ones fit into the memory that it left."""
        for rows in sorted(sizes, reverse=True):
            for variant in variants:
                self.capture(rows, variant)

    def capture(self, rows: int, variant: Variant) -> None:
        begun, before = time.perf_counter(), torch.cuda.memory_reserved()
        with torch.cuda.stream(self._stream), self._padded_only():
            self._body(rows, variant)  # compiles kernels and makes library handles, which a capture must not
            self._stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            # Not torch.cuda.graph: it collects garbage first, which takes longer than the capture. Only this thread's
            # calls count, because the caller's may use the device meanwhile.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                self._body(rows, variant)
            finally:
                graph.capture_end()
        self._graphs[rows, variant] = graph
        grown = torch.cuda.memory_reserved() - before
        self.log.append(Captured(rows, variant, time.perf_counter() - begun, grown))

    def replay(self, rows: int, variant: Variant) -> None:
        """On the current stream. A variant that no start-up foresaw is captured now: some 0.1 s, once."""
        if (rows, variant) not in self._graphs:
            self.capture(rows, variant)
        self._graphs[rows, variant].replay()
