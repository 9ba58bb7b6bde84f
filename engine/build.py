"""Puts an engine together: model, pool, tables, attention, sampler, scheduler, loop."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from engine.config import BLOCK, EngineConfig, available_memory, pool_pages
from engine.errors import InvalidParameter
from engine.loop import StepLoop

# The machine is not the engine's alone: of the memory that is free, the KV pool takes a quarter.
CPU_POOL_SHARE = 0.25


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


def build(config: EngineConfig) -> tuple[ModelInfo, StepLoop]:
    """Loads the model and builds its loop. Raises ModelLoadError, InvalidParameter, DoesNotFit."""
    import torch

    from engine.attention.extents import ExtentAttention
    from engine.executor import Executor
    from engine.kv.pool import KVPool
    from engine.kv.tables import BlockTables
    from engine.models.loader import expected_tensors
    from engine.models.spec import ModelSpec
    from engine.models.transformer import Transformer
    from engine.sampling.state import SamplerState
    from engine.scheduler.scheduler import Limits, Scheduler

    path = Path(config.model)
    spec = ModelSpec.read(path)
    context = context_length(config, spec.context_length)
    threads = config.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if config.dtype == "bfloat16" else torch.float32
    device = torch.device(config.device)
    model = Transformer.load(path, spec, dtype, device)
    token_bytes = spec.kv_bytes_per_token(dtype)
    pages = pool_pages(config, token_bytes, available_memory(), CPU_POOL_SHARE, context)
    pool = KVPool(
        layers=spec.layers,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        pages=pages,
        page_size=config.page_size,
        dtype=dtype,
        device=device,
    )
    tables = BlockTables(2 * config.max_paths, config.page_size)
    attention = ExtentAttention(pool, tables, block=BLOCK)
    sampler = SamplerState(config.max_paths, spec.vocab, device, spec.eos_ids)
    executor = Executor(model, pool, tables, attention, sampler, config.max_paths)
    limits = Limits(pages, config.page_size, config.max_paths, config.tokens_per_step, BLOCK, context)
    loop = StepLoop(
        Scheduler(limits),
        executor,
        overlap=config.steps_in_flight,
        kv_bytes_per_page=token_bytes * config.page_size,
    )
    info = ModelInfo(
        path.name,
        path,
        spec.family,
        sum(math.prod(shape) for shape in expected_tensors(spec).values()),
        spec.vocab,
        context,
        spec.eos_ids,
        str(dtype).removeprefix("torch."),
        config.device,
        threads,
    )
    return info, loop


def context_length(config: EngineConfig, of_model: int) -> int:
    if config.context_length is None:
        return of_model
    if config.context_length > of_model:
        raise InvalidParameter(f"context_length {config.context_length} exceeds the model's {of_model}")
    return config.context_length
