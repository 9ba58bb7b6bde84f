"""What the device did while steps ran: kernels and launches a step, the gap between steps, idle time.

Recorded by torch's profiler, which slows the device down a little: times come from runs without it. A step ends with
the sampler's last kernel. Everything that one call of the host has set going (a whole graph, a kernel, a copy) has the
same correlation number, so that counting those counts launches.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

LAST_KERNEL = "_commit"
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """Means over `steps` steps, but for the gaps between two steps, in microseconds: the device's idle time between a
    step's last kernel and the next one's first, whatever copies run there."""

    steps: int
    kernels: float
    launches: float
    gap_us_p50: float
    gap_us_p99: float
    idle_share: float


@dataclass(slots=True)
class Recording:
    """The events of a finished recording."""

    events: list[Event] = field(default_factory=list)


@contextmanager
def recording() -> Iterator[Recording]:
    """What all threads of this process set going on the device."""
    found = Recording()
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    profiler.start()
    try:
        yield found
    finally:
        profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(file))
            found.events += json.loads(file.read_text(encoding="utf-8"))["traceEvents"]


def warm_up() -> None:
    """The first recording of a process loads the profiler, which can take longer than what is to be recorded."""
    with recording():
        torch.zeros(1, device="cuda").add_(1)
        torch.cuda.synchronize()


def analyse(events: Sequence[Event], last_kernel: str = LAST_KERNEL) -> Trace | None:
    """events: of a trace in Chrome's format, times in microseconds. None where no two steps ended."""
    device = sorted((e for e in events if e.get("cat") in ON_DEVICE), key=lambda e: float(e["ts"]))
    ends = [at for at, event in enumerate(device) if event["name"].startswith(last_kernel)]
    if len(ends) < 2:
        return None
    steps, inside = len(ends) - 1, device[ends[0] + 1 : ends[-1] + 1]
    begun, over = _end(device[ends[0]]), _end(device[ends[-1]])
    gaps = _gaps([e for e in device[ends[0] : ends[-1] + 1] if e["cat"] == "kernel"], last_kernel)
    return Trace(
        steps,
        kernels=sum(e["cat"] == "kernel" for e in inside) / steps,
        launches=len({e["args"]["correlation"] for e in inside}) / steps,
        gap_us_p50=float(np.percentile(gaps, 50)),
        gap_us_p99=float(np.percentile(gaps, 99)),
        idle_share=1 - _busy(inside, begun) / (over - begun),
    )


def _end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def _gaps(kernels: Sequence[Event], last_kernel: str) -> list[float]:
    """Behind each step's last kernel. Kernels may overlap: a start before the end is no gap."""
    return [
        max(0.0, float(after["ts"]) - _end(before))
        for before, after in pairwise(kernels)
        if before["name"].startswith(last_kernel)
    ]


def _busy(events: Sequence[Event], begun: float) -> float:
    """Microseconds from `begun` on in which at least one of them ran; sorted by start."""
    busy, until = 0.0, begun
    for event in events:
        busy += max(0.0, _end(event) - max(float(event["ts"]), until))
        until = max(until, _end(event))
    return busy
