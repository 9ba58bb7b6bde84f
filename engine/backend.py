"""What a device brings to an engine: a runner of step plans, the pages it has, and how it started."""

from __future__ import annotations

from dataclasses import dataclass

from engine.loop import Runner
from engine.start_report import StartReport


@dataclass(frozen=True, slots=True)
class Backend:
    """token_bytes: of KV, all layers. dtype, device: as text. threads: of the CPU's kernels."""

    runner: Runner
    pages: int
    token_bytes: int
    dtype: str
    device: str
    threads: int
    report: StartReport
