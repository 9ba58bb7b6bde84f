"""A GPU engine's parts: weights, pool, kernels chosen by measurement, captured steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from engine.attention.decode import DecodeAttention
from engine.attention.flashinfer import Heads, check_supported
from engine.attention.prefill import PlannedPrefill, Prefill, TiledPrefill
from engine.backend import Backend
from engine.config import EngineConfig, pool_pages
from engine.device_executor import DeviceExecutor
from engine.errors import DoesNotFit, EngineError, InvalidParameter
from engine.graphs.buckets import default_buckets, invariant_buckets, uncaptured
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


def build_device(config: EngineConfig, spec: ModelSpec, context: int) -> Backend:
    """Raises InvalidParameter, EngineError, DoesNotFit, ModelLoadError, each naming the remedy."""
    device = _device()
    heads = Heads(spec.heads, spec.kv_heads, spec.head_dim, launch_on(device).programmatic)
    check_supported(heads, torch.cuda.get_device_capability(device))
    watch = Stopwatch()
    with _memory_errors(), torch.inference_mode():
        with watch.phase("weights"):
            products = BlockProducts() if config.batch_invariant else MeasuredProducts()
            model = DeviceTransformer(spec, _source(config, spec), products, context, device)
            torch.cuda.synchronize()
        sizes = _sizes(config)
        most = max(sizes[-1], uncaptured(config.max_paths))
        sampler = DeviceSampler(
            slots=config.max_paths, vocab=spec.vocab, eos_ids=spec.eos_ids, device=device, max_rows=most
        )
        token_bytes = spec.kv_bytes_per_token(DTYPE)
        pages = pool_pages(config, token_bytes, _available(config, spec, most), 1.0, context)
        pool = DevicePool(
            layers=spec.layers,
            kv_heads=spec.kv_heads,
            head_dim=spec.head_dim,
            pages=pages,
            page_size=config.page_size,
            dtype=DTYPE,
            device=device,
        )
        width = -(-context // config.page_size) + 1
        block_table = torch.full(
            (2 * config.max_paths + 1, width), pool.padding, dtype=torch.int32, device=device
        )
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            if isinstance(products, MeasuredProducts):
                with watch.phase("products"):
                    products.choose(sizes)
            with watch.phase("attention"):
                decode = DecodeAttention(
                    pool,
                    heads,
                    width,
                    context=context,
                    invariant=config.batch_invariant,
                )
                decode.choose(sizes)
                prefill = _prefill(config, pool, heads)
            executor = DeviceExecutor(
                model,
                pool,
                block_table,
                decode,
                prefill,
                sampler,
                slots=config.max_paths,
                sizes=sizes,
                most=most,
                ring=config.steps_in_flight + 2,
                repeats=config.steps_queued,
                chunk_block=config.chunk_block if config.batch_invariant else 1,
                stream=stream,
            )
            captured = []
            if not config.enforce_eager:
                with watch.phase("graphs"):
                    captured = executor.capture(START_VARIANTS).log
        torch.cuda.synchronize()
    report = StartReport(
        watch.seconds,
        weight_bytes=model.weight_bytes,
        kv_bytes=pages * config.page_size * token_bytes,
        kv_tokens=pages * config.page_size,
        graphs=len(captured),
        graph_seconds=sum(one.seconds for one in captured),
        graph_bytes=sum(one.bytes for one in captured),
        prefill=prefill.backend,
        attention=tuple(choice.line() for choice in decode.choices.values()),
        products=tuple(products.lines()) if isinstance(products, MeasuredProducts) else (),
    )
    return Backend(executor, pages, token_bytes, "bfloat16", torch.cuda.get_device_name(device), 1, report)


def _device() -> torch.device:
    if not torch.cuda.is_available():
        raise InvalidParameter("device 'cuda': torch finds no CUDA device here; use device='cpu'")
    try:
        import flashinfer  # noqa: F401
    except ImportError as error:
        raise EngineError(
            f"a GPU engine needs FlashInfer ({error}): pip install 'reasoner-serve[gpu]', or use device='cpu'"
        ) from None
    return torch.device("cuda", torch.cuda.current_device())


def _source(config: EngineConfig, spec: ModelSpec) -> TensorSource:
    return RandomWeights(spec) if config.weights == "random" else Checkpoint(Path(config.model), spec)


def _sizes(config: EngineConfig) -> tuple[int, ...]:
    if config.batch_invariant:
        return invariant_buckets(config.capture_sizes or default_buckets(config.max_paths))
    return config.capture_sizes or default_buckets(config.max_paths)


def _prefill(config: EngineConfig, pool: DevicePool, heads: Heads) -> Prefill:
    if config.batch_invariant:
        return TiledPrefill(pool, heads)
    return PlannedPrefill(pool, heads, config.steps_in_flight + 2)


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
