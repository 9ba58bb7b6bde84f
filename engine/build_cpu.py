"""A CPU engine's parts: model, pool, tables, attention, sampler."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from engine.attention.extents import ExtentAttention
from engine.backend import Backend
from engine.config import BLOCK, EngineConfig, available_memory, pool_pages
from engine.errors import InvalidParameter
from engine.executor import Executor
from engine.kv.pool import KVPool
from engine.kv.tables import BlockTables
from engine.models.spec import ModelSpec
from engine.models.transformer import Transformer
from engine.sampling.state import SamplerState
from engine.start_report import StartReport, Stopwatch

# The machine is not the engine's alone: of the memory that is free, the KV pool takes a quarter.
POOL_SHARE = 0.25


def build_cpu(config: EngineConfig, spec: ModelSpec, context: int) -> Backend:
    """Raises ModelLoadError, InvalidParameter, DoesNotFit."""
    if config.weights != "checkpoint":
        raise InvalidParameter("random weights are for measurements on a GPU; on the CPU name a checkpoint")
    threads = config.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if config.dtype == "bfloat16" else torch.float32
    device = torch.device("cpu")
    watch = Stopwatch()
    with watch.phase("weights"):
        model = Transformer.load(Path(config.model), spec, dtype, device)
    token_bytes = spec.kv_bytes_per_token(dtype)
    pages = pool_pages(config, token_bytes, available_memory(), POOL_SHARE, context)
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
    kv_tokens = pages * config.page_size
    report = StartReport(watch.seconds, kv_bytes=kv_tokens * token_bytes, kv_tokens=kv_tokens)
    return Backend(executor, pages, token_bytes, str(dtype).removeprefix("torch."), "cpu", threads, report)
