"""EngineConfig: everything about an engine that is decided before it starts, validated in one place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DoesNotFit, InvalidParameter

DTYPES = ("auto", "float32", "bfloat16")
DEVICES = ("cpu", "cuda")
WEIGHTS = ("checkpoint", "random")

# Rows of a linear layer's block on the CPU: one fixed size, so that no row's bits depend on its neighbours.
# Prompt chunks are cut at multiples of it on every device.
BLOCK = 16

# Rows of a product in batch-invariant use of a GPU. Prompt chunks are cut and padded at multiples of it there, so that
# a prompt's token is always computed in the same place of the same block.
INVARIANT_ROWS = 64

MEMORY_SHARE = 0.92
GPU_STEP_TOKENS = 2048
_IDLE_STEPS = 4

# Page size of the GPU's attention kernels: the one that all of them share.
GPU_PAGE = 64


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """model: a Hugging Face folder. dtype auto: float32 on the CPU, bfloat16 on a GPU. threads: of the CPU's kernels,
    None for all cores. context_length: None for the model's own. kv_tokens: size of the KV pool, None for what memory
    allows. max_paths: paths that decode at once; more wait their turn. step_tokens: tokens of one step, decode and
    prompt chunks together; None: 256 on the CPU, more where max_paths needs it; on a GPU 2,048, and 8,192 while nothing
    decodes. page_size: tokens of a page. overlap: steps in flight while the host works (0 or 1); None: 0 on the CPU, 1
    on a GPU. queue_steps: steps that may be queued at once while nobody can act on their tokens; None: 1 on the CPU, 8
    on a GPU. own_process: the step loop runs in a process of its own, for servers: the caller's Python then never holds
    it up. weights: random makes a model of the folder's shape without its tensors, for measurements.

    On a GPU only. capture_sizes: numbers of rows that decode steps are padded to and captured for as CUDA graphs; None:
    what max_paths can run. enforce_eager: the same steps at the same sizes, launched kernel by kernel. batch_invariant:
    a path's tokens do not depend on what runs beside it, at a price. memory_share: part of the device's memory that the
    engine may use."""

    model: str | Path
    dtype: str = "auto"
    device: str = "cpu"
    threads: int | None = None
    context_length: int | None = None
    kv_tokens: int | None = None
    max_paths: int = 64
    step_tokens: int | None = None
    page_size: int = 64
    overlap: int | None = None
    queue_steps: int | None = None
    own_process: bool = False
    weights: str = "checkpoint"
    capture_sizes: tuple[int, ...] | None = None
    enforce_eager: bool = False
    batch_invariant: bool = False
    memory_share: float = MEMORY_SHARE

    def __post_init__(self) -> None:
        for name, chosen, known in (
            ("dtype", self.dtype, DTYPES),
            ("device", self.device, DEVICES),
            ("weights", self.weights, WEIGHTS),
        ):
            if chosen not in known:
                raise InvalidParameter(f"{name} must be one of {', '.join(known)}, got {chosen!r}")
        if self.overlap not in (None, 0, 1):
            raise InvalidParameter(f"overlap must be 0 or 1, got {self.overlap}")
        for name, value in (
            ("threads", self.threads),
            ("context_length", self.context_length),
            ("kv_tokens", self.kv_tokens),
            ("max_paths", self.max_paths),
            ("page_size", self.page_size),
            ("queue_steps", self.queue_steps),
        ):
            if value is not None and value < 1:
                raise InvalidParameter(f"{name} must be >= 1, got {value}")
        if self.tokens_per_step < self._least_tokens:
            raise InvalidParameter(
                f"step_tokens must be >= {self._least_tokens} for {self.max_paths} paths and a block of prompt, "
                f"got {self.tokens_per_step}"
            )
        if self.on_gpu:
            self._check_gpu()
        else:
            self._refuse_gpu_fields()

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def tokens_per_step(self) -> int:
        if self.step_tokens is not None:
            return self.step_tokens
        return max(GPU_STEP_TOKENS, 2 * self.max_paths) if self.on_gpu else max(256, self._least_tokens)

    @property
    def idle_tokens(self) -> int:
        """Tokens of a step in which nothing decodes: longer chunks use a GPU better, and nobody waits for a token."""
        return (
            _IDLE_STEPS * self.tokens_per_step
            if self.on_gpu and self.step_tokens is None
            else self.tokens_per_step
        )

    @property
    def chunk_block(self) -> int:
        """Tokens at whose multiples prompt chunks are cut."""
        return INVARIANT_ROWS if self.batch_invariant else BLOCK

    @property
    def steps_in_flight(self) -> int:
        return self.overlap if self.overlap is not None else int(self.on_gpu)

    @property
    def steps_queued(self) -> int:
        return self.queue_steps if self.queue_steps is not None else (8 if self.on_gpu else 1)

    @property
    def _least_tokens(self) -> int:
        """Of a step: every path's, in whole blocks, and a block of some prompt."""
        return (-(-self.max_paths // self.chunk_block) + 1) * self.chunk_block

    def _check_gpu(self) -> None:
        if self.dtype == "float32":
            raise InvalidParameter("dtype must be bfloat16 on a GPU: its attention kernels have no float32")
        if self.page_size != GPU_PAGE:
            raise InvalidParameter(f"page_size must be {GPU_PAGE} on a GPU, got {self.page_size}")
        if self.threads is not None:
            raise InvalidParameter("threads is a setting of the CPU engine")
        if not 0 < self.memory_share <= 1:
            raise InvalidParameter(f"memory_share must lie in (0, 1], got {self.memory_share}")
        sizes = self.capture_sizes
        if sizes is not None and (not sizes or min(sizes) < 1 or list(sizes) != sorted(set(sizes))):
            raise InvalidParameter(f"capture_sizes must be ascending numbers of rows, got {sizes}")

    def _refuse_gpu_fields(self) -> None:
        for name, given in (
            ("capture_sizes", self.capture_sizes is not None),
            ("enforce_eager", self.enforce_eager),
            ("batch_invariant", self.batch_invariant),
            ("memory_share", self.memory_share != MEMORY_SHARE),
        ):
            if given:
                raise InvalidParameter(
                    f"{name} is a setting of the GPU engine; the CPU engine has no graphs "
                    "and is batch-invariant always"
                )


def pool_pages(
    config: EngineConfig, bytes_per_token: int, available_bytes: int, share: float, context_length: int
) -> int:
    """Pages of the KV pool: what was asked for, else that share of the available bytes, never more than max_paths
    paths of a full context can use. Raises DoesNotFit with the numbers."""
    most = config.max_paths * context_length
    if config.kv_tokens is None:
        tokens = min(most, int(available_bytes * share) // bytes_per_token)
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
