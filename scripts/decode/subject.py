"""The models that are measured, and the engines they run in."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.async_engine import AsyncEngine
from engine.config import EngineConfig
from engine.models.shapes import SHAPES, shape_folder
from engine.models.spec import ModelSpec
from reasoner.models import embedded_path
from scripts.decode.cost import Cost
from scripts.decode.points import Point

CONTEXT = 65_536
PAGE = 64
LABELS = {"bfloat16": "bf16", "float32": "fp32"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A model. weights: random for a shape by name, checkpoint for a folder that has some."""

    name: str
    folder: Path
    weights: str
    context: int

    @classmethod
    def find(cls, name: str, scratch: Path) -> Subject:
        """name: a shape of `engine.models.shapes`, `embedded`, or a model folder. Raises ModelLoadError."""
        if name in SHAPES:
            return cls(name, shape_folder(name, CONTEXT, scratch / name), "random", CONTEXT)
        folder = embedded_path() if name == "embedded" else Path(name)
        return cls(folder.name, folder, "checkpoint", ModelSpec.read(folder).context_length)

    def cost(self, engine: AsyncEngine) -> Cost:
        return Cost.of(ModelSpec.read(self.folder), getattr(torch, engine.model.dtype))


@dataclass(frozen=True, slots=True)
class Machine:
    """Where engines are started, and what all of them have in common. None leaves the engine's own choice.
    own_process: the step loop is not in this one, so that the profiler does not see it."""

    device: str
    threads: int | None = None
    queue_steps: int | None = None
    step_tokens: int | None = None
    own_process: bool = False

    def config(
        self, subject: Subject, batches: Iterable[int], kv_tokens: int, **changes: object
    ) -> EngineConfig:
        """An engine for these numbers of paths. changes: further fields of EngineConfig."""
        batches = sorted(set(batches))
        settings: dict[str, object] = {
            "model": subject.folder,
            "weights": subject.weights,
            "device": self.device,
            "threads": self.threads,
            "context_length": subject.context,
            "max_paths": batches[-1],
            "kv_tokens": kv_tokens,
            "queue_steps": self.queue_steps,
            "step_tokens": self.step_tokens,
            "own_process": self.own_process,
        }
        if self.device == "cuda" and "batch_invariant" not in changes:  # which has sizes of its own
            settings["capture_sizes"] = tuple(batches)
        return EngineConfig(**(settings | changes))  # type: ignore[arg-type]


def kv_tokens(points: Iterable[Point], budget: int) -> int:
    """What a pool must hold, so that every path of each of these points has its worst case at once."""
    return max(point.batch * tokens_of(point.context, budget) for point in points)


def tokens_of(prompt: int, budget: int) -> int:
    """Of whole pages: a prompt's, and a path's own with its copy of the prompt's last one."""
    prompt_pages = -(-(prompt - 1) // PAGE)
    path_pages = -(-(prompt - 1 + budget) // PAGE) - (prompt - 1) // PAGE
    return PAGE * (prompt_pages + path_pages)


@asynccontextmanager
async def started(config: EngineConfig) -> AsyncIterator[AsyncEngine]:
    """An engine that is closed at the end. What an earlier one has left is given back first."""
    gc.collect()
    if config.device == "cuda":
        torch.cuda.empty_cache()
    engine = await AsyncEngine.start(config)
    for line in engine.model.start.lines():
        print(f"  {line}", flush=True)
    try:
        yield engine
    finally:
        await engine.close()
