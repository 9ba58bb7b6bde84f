"""EngineConfig: everything about an engine that is decided before it starts, validated in one place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DoesNotFit, InvalidParameter

DTYPES = ("auto", "float32", "bfloat16")

# Rows of a linear layer's block on the CPU: one fixed size, so that no row's bits depend on its neighbours.
BLOCK = 16


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """model: a Hugging Face folder. dtype auto: float32 on the CPU. threads: None for all cores.
    context_length: None for the model's own. kv_tokens: size of the KV pool, None for what memory allows.
    max_paths: paths that decode at once; more wait their turn. step_tokens: tokens of one step, decode and
    prompt chunks together. page_size: tokens of a page. overlap: steps in flight while the host works (0 or 1)."""

    model: str | Path
    dtype: str = "auto"
    device: str = "cpu"
    threads: int | None = None
    context_length: int | None = None
    kv_tokens: int | None = None
    max_paths: int = 64
    step_tokens: int = 256
    page_size: int = 64
    overlap: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InvalidParameter(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.device != "cpu":
            raise InvalidParameter(f"device must be 'cpu' in this version, got {self.device!r}")
        if self.overlap not in (0, 1):
            raise InvalidParameter(f"overlap must be 0 or 1, got {self.overlap}")
        for name, value in (
            ("threads", self.threads),
            ("context_length", self.context_length),
            ("kv_tokens", self.kv_tokens),
            ("max_paths", self.max_paths),
            ("page_size", self.page_size),
        ):
            if value is not None and value < 1:
                raise InvalidParameter(f"{name} must be >= 1, got {value}")
        least = -(-self.max_paths // BLOCK) * BLOCK + BLOCK
        if self.step_tokens < least:
            raise InvalidParameter(
                f"step_tokens must be >= {least} for {self.max_paths} paths and a block of prompt, "
                f"got {self.step_tokens}"
            )


def pool_pages(config: EngineConfig, bytes_per_token: int, available_bytes: int, context_length: int) -> int:
    """Pages of the KV pool: what was asked for, else a quarter of the free memory, never more than max_paths
    paths of a full context can use. Raises DoesNotFit with the numbers."""
    most = config.max_paths * context_length
    if config.kv_tokens is None:
        tokens = min(most, available_bytes // 4 // bytes_per_token)
    else:
        tokens = config.kv_tokens
    need = tokens * bytes_per_token
    if need > available_bytes:
        raise DoesNotFit(
            f"a KV pool of {tokens} tokens needs {need >> 20} MiB, {available_bytes >> 20} MiB are free"
        )
    pages = tokens // config.page_size
    if pages < 1:
        raise DoesNotFit(f"a KV pool of {tokens} tokens does not hold one page of {config.page_size}")
    return pages


def available_memory() -> int:
    """Bytes that a new process could use now: Linux's estimate, else the physical memory."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
