"""A GPU engine's parts: weights, pool, kernels chosen by measurement, captured steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from engine.attention.decode import DecodeAttention
from engine.attention.flashinfer import Heads, PagedKernel, check_supported
from engine.attention.prefill import PlannedPrefill, Prefill, TiledPrefill
from engine.backend import Backend
from engine.config import EngineConfig, pool_pages
from engine.device_executor import DeviceExecutor, Sizes
from engine.errors import DoesNotFit, EngineError
from engine.graphs.buckets import default_buckets, invariant_buckets, uncaptured
from engine.graphs.capture import Captured
from engine.kernels.launch import launch_on
from engine.kv.device_pool import DevicePool
from engine.models.device import DTYPE, DeviceTransformer, TensorSource
from engine.models.loader import Checkpoint
from engine.models.product_choice import MeasuredProducts
from engine.models.products import BlockProducts
from engine.models.random import RandomWeights
from engine.models.spec import ModelSpec
from engine.sampling.device.sampler import DeviceSampler
from engine.sampling.device.variant import Filters, Variant
from engine.start_report import StartReport, Stopwatch

# Captured before the first request; what else a request may ask for is captured when one does.
START_VARIANTS = tuple(Variant(filters) for filters in Filters)

# For graphs, library handles and what rounding leaves of the estimate below.
_SPARE_BYTES = 2 << 30


def build_device(config: EngineConfig, spec: ModelSpec, context: int, device: torch.device) -> Backend:
    """Raises InvalidParameter, EngineError, DoesNotFit, ModelLoadError, each naming the remedy."""
    heads = Heads(spec.heads, spec.kv_heads, spec.head_dim, launch_on(device).programmatic)
    check_supported(heads, torch.cuda.get_device_capability(device))
    with _memory_errors(), torch.inference_mode():
        return _Start(config, spec, context, heads, device).backend()


class _Start:
    """The start of one engine, phase by phase."""

    def __init__(
        self, config: EngineConfig, spec: ModelSpec, context: int, heads: Heads, device: torch.device
    ) -> None:
        self._config, self._spec, self._context = config, spec, context
        self._heads, self._device = heads, device
        self._watch = Stopwatch()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._buckets = _buckets(config)
        self._most = max(self._buckets[-1], uncaptured(config.max_paths, config.chunk_block))
        self._table_width = -(-context // config.page_size) + 1

    def backend(self) -> Backend:
        config, spec = self._config, self._spec
        products = BlockProducts() if config.batch_invariant else MeasuredProducts()
        with self._watch.phase("weights"):
            model = DeviceTransformer(spec, _source(config, spec), products, self._context, self._device)
            torch.cuda.synchronize()
        sampler = DeviceSampler(
            slots=config.max_paths,
            vocab=spec.vocab,
            eos_ids=spec.eos_ids,
            device=self._device,
            max_rows=self._most,
        )
        pool = self._pool()
        torch.cuda.synchronize()  # all of this was written on another stream
        with torch.cuda.stream(self._stream):
            if isinstance(products, MeasuredProducts):
                with self._watch.phase("products"):
                    products.choose(self._buckets)
            with self._watch.phase("attention"):
                self._kernel = _compiled(self._heads)
                decode = self._decode(pool)
            executor = self._executor(model, pool, decode, sampler)
            captured = [] if config.enforce_eager else self._capture(executor)
        torch.cuda.synchronize()
        report = StartReport(
            self._watch.seconds,
            weight_bytes=model.weight_bytes,
            kv_bytes=pool.data.numel() * pool.data.itemsize,
            kv_tokens=pool.padding * config.page_size,
            graphs=len(captured),
            graph_seconds=sum(one.seconds for one in captured),
            graph_bytes=sum(one.bytes for one in captured),
            prefill=executor.prefill.backend,
            xqa=decode.xqa,
            attention=tuple(choice.line() for choice in decode.choices.values()),
            products=tuple(products.lines()) if isinstance(products, MeasuredProducts) else (),
        )
        name, token_bytes = torch.cuda.get_device_name(self._device), spec.kv_bytes_per_token(DTYPE)
        return Backend(executor, pool.padding, token_bytes, "bfloat16", name, 1, report)

    def _pool(self) -> DevicePool:
        config, spec = self._config, self._spec
        available = _available(config, spec, self._most)
        return DevicePool(
            layers=spec.layers,
            kv_heads=spec.kv_heads,
            head_dim=spec.head_dim,
            pages=pool_pages(config, spec.kv_bytes_per_token(DTYPE), available, 1.0, self._context),
            page_size=config.page_size,
            dtype=DTYPE,
            device=self._device,
        )

    def _decode(self, pool: DevicePool) -> DecodeAttention:
        decode = DecodeAttention(
            self._kernel,
            pool,
            self._table_width,
            context=self._context,
            invariant=self._config.batch_invariant,
        )
        decode.choose(self._buckets)
        return decode

    def _executor(
        self, model: DeviceTransformer, pool: DevicePool, decode: DecodeAttention, sampler: DeviceSampler
    ) -> DeviceExecutor:
        config, launches = self._config, self._config.steps_in_flight + 2
        shape = (2 * config.max_paths + 1, self._table_width)
        prefill: Prefill = (
            TiledPrefill(self._kernel, pool, launches)
            if config.batch_invariant
            else PlannedPrefill(pool, self._heads, launches)
        )
        return DeviceExecutor(
            model,
            pool,
            torch.full(shape, pool.padding, dtype=torch.int32, device=self._device),
            decode,
            prefill,
            sampler,
            sizes=Sizes(
                slots=config.max_paths,
                buckets=self._buckets,
                most=self._most,
                launches=launches,
                repeats=config.steps_queued,
                row_block=config.chunk_block,
                chunk_block=config.chunk_block if config.batch_invariant else 1,
            ),
            stream=self._stream,
        )

    def _capture(self, executor: DeviceExecutor) -> list[Captured]:
        with self._watch.phase("graphs"):
            return executor.capture(START_VARIANTS).log


def _compiled(heads: Heads) -> PagedKernel:
    try:
        return PagedKernel(heads)
    except Exception as error:  # whatever the compiler's tool chain raises
        raise EngineError(
            f"FlashInfer could not build its kernel for head_dim {heads.dim} ({type(error).__name__}: {error}); it "
            "needs nvcc and ninja for shapes that its package does not bring along: install them, or use device='cpu'"
        ) from None


def _source(config: EngineConfig, spec: ModelSpec) -> TensorSource:
    return RandomWeights(spec) if config.weights == "random" else Checkpoint(Path(config.model), spec)


def _buckets(config: EngineConfig) -> tuple[int, ...]:
    if config.batch_invariant:
        return invariant_buckets(config.capture_sizes or default_buckets(config.max_paths))
    return config.capture_sizes or default_buckets(config.max_paths)


def _available(config: EngineConfig, spec: ModelSpec, rows: int) -> int:
    """Bytes that the KV pool may take: the share of the card, less what is used and what a step works with."""
    free, total = torch.cuda.mem_get_info()
    free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    tokens = config.idle_tokens
    a_token = 12 * spec.hidden + 4 * (spec.q_size + spec.kv_size) + 4 * spec.q_size + 6 * spec.ffn
    working = 2 * tokens * a_token + 4 * rows * spec.vocab * 4
    left = free - int(total * (1 - config.memory_share)) - working - _SPARE_BYTES
    if left <= 0:
        raise DoesNotFit(
            f"nothing is left for the KV pool: of {total >> 20} MiB {free >> 20} are free beside the weights, a step "
            f"works with {(working + _SPARE_BYTES) >> 20}; use a larger GPU, fewer max_paths, fewer step_tokens or "
            f"a higher memory_share (now {config.memory_share})"
        )
    return left


@contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise DoesNotFit(
            f"the GPU ran out of memory at start-up ({str(error).splitlines()[0]}); lower kv_tokens or memory_share, "
            "max_paths or capture_sizes"
        ) from None
