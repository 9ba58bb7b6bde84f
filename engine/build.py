"""Puts an engine together: a device's backend, the scheduler, the loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from engine.config import EngineConfig
from engine.errors import InvalidParameter
from engine.loop import StepLoop
from engine.scheduler.limits import Limits
from engine.scheduler.scheduler import Scheduler
from engine.start_report import StartReport


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a caller may want to know of the loaded model. dtype and device as text."""

    name: str
    path: Path
    family: str
    parameters: int
    vocab_size: int
    context_length: int
    eos_ids: tuple[int, ...]
    dtype: str
    device: str
    threads: int
    start: StartReport


def build(config: EngineConfig) -> tuple[ModelInfo, StepLoop]:
    """Loads the model and builds its loop. Raises ModelLoadError, InvalidParameter, DoesNotFit, EngineError.

    Models and devices are imported here and not before: whoever only talks to an engine does without.
    """
    from engine.models.loader import expected_tensors
    from engine.models.spec import ModelSpec

    path = Path(config.model)
    spec = ModelSpec.read(path)
    context = context_length(config, spec.context_length)
    if config.on_gpu:
        from engine.gpu_support import require_gpu

        device = require_gpu()  # before the modules that need what it asks for
        from engine.build_device import build_device

        backend = build_device(config, spec, context, device)
    else:
        from engine.build_cpu import build_cpu

        backend = build_cpu(config, spec, context)
    limits = Limits(
        pages=backend.pages,
        page_size=config.page_size,
        max_paths=config.max_paths,
        step_tokens=config.tokens_per_step,
        block=config.chunk_block,
        context_length=context,
        queue_steps=config.steps_queued,
        idle_tokens=config.idle_tokens,
    )
    loop = StepLoop(
        Scheduler(limits),
        backend.runner,
        overlap=config.steps_in_flight,
        kv_bytes_per_page=backend.token_bytes * config.page_size,
    )
    info = ModelInfo(
        name=path.name,
        path=path,
        family=spec.family,
        parameters=sum(math.prod(shape) for shape in expected_tensors(spec).values()),
        vocab_size=spec.vocab,
        context_length=context,
        eos_ids=spec.eos_ids,
        dtype=backend.dtype,
        device=backend.device,
        threads=backend.threads,
        start=backend.report,
    )
    return info, loop


def context_length(config: EngineConfig, of_model: int) -> int:
    if config.context_length is None:
        return of_model
    if config.context_length > of_model:
        raise InvalidParameter(f"context_length {config.context_length} exceeds the model's {of_model}")
    return config.context_length
