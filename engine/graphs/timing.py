"""What a sequence of launches takes on the device: as a graph, for one by one the host would be what is measured."""

from __future__ import annotations

from collections.abc import Callable

import torch

_REPLAYS = 3


class TimedGraph:
    """run(i) launches the i-th of `runs` pieces of work; all are captured on the current stream, once."""

    def __init__(self, run: Callable[[int], object], runs: int) -> None:
        self._runs = runs
        self._run = run  # keeps what the launches read and write from being given to others
        stream = torch.cuda.current_stream()
        run(0)  # compiles what has to be compiled
        stream.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        # Not torch.cuda.graph: it collects garbage first, which takes longer than the capture, and there are hundreds.
        # Only this thread's calls count, because the caller's may use the device meanwhile.
        self._graph.capture_begin(capture_error_mode="thread_local")
        try:
            for i in range(runs):
                run(i)
        finally:
            self._graph.capture_end()

    def microseconds(self) -> float:
        """Of one piece of work: the best of a few replays behind one that warms up."""
        self._graph.replay()
        return min(self._replay() for _ in range(_REPLAYS))

    def _replay(self) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1000 / self._runs
