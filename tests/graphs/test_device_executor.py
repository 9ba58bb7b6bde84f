"""The GPU's executor without a GPU: its kernels in Triton's interpreter, attention and events made up.

What is real: plans, uploads, block tables, page copies, the decoder, the sampler, packed results, the loop.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.attention.decode_plan import DecodePlan, StateView
from engine.build import build
from engine.config import EngineConfig
from engine.device_executor import DeviceExecutor, Sizes
from engine.kv.device_pool import DevicePool
from engine.loop import StepLoop
from engine.messages import Emitted, Open
from engine.models import products
from engine.models.device import DeviceTransformer
from engine.models.loader import Checkpoint
from engine.models.spec import ModelSpec
from engine.sampling.device.sampler import DeviceSampler
from engine.scheduler.limits import Limits
from engine.scheduler.scheduler import Scheduler
from engine.types import Committed, Group, SamplingParams, Statistic

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a device has the real thing: tests/gpu")

CPU = torch.device("cpu")
PAGE, PAGES, WIDTH, SLOTS, CONTEXT = 64, 60, 12, 4, 8192


class NoEvent:
    """Everything on the CPU is over when it returns."""

    def __init__(self, **_: object) -> None: ...

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty
    monkeypatch.setattr(torch.cuda, "Event", NoEvent)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch, "empty", lambda *shape, pin_memory=False, **kind: empty(*shape, **kind))


class Products(products.BlockProducts):
    """torch's CPU products have no other result type than their operands'."""

    def linear(self, weight: Tensor, bias: Tensor | None, *, parts: bool) -> products.Product:
        return lambda x: products.linear(weight, bias)(x)[None]

    def head(self, weight: Tensor) -> products.Multiply:
        return lambda x: x.float() @ weight.float().t()


def attention(spec: ModelSpec, cache: Tensor, q: Tensor, pages: Tensor, length: int) -> Tensor:
    k, v = (cache[pages.long(), i].flatten(0, 1)[:length].float() for i in (0, 1))
    grouped = q.float().view(spec.kv_heads, -1, spec.head_dim)
    scores = torch.einsum("hgd,lhd->hgl", grouped, k) / spec.head_dim**0.5
    return torch.einsum("hgl,lhd->hgd", scores.softmax(-1), v).flatten().to(q.dtype)


class Decode:
    """One bucket: the real schedule, from whose arrays attention is written out."""

    name = "written out"

    def __init__(self, spec: ModelSpec, rows: int) -> None:
        self._spec, self._plan = spec, DecodePlan(rows, 33, PAGE, WIDTH, CPU)
        self.ids, self.positions = self._plan.ids, self._plan.positions

    def prepare(self, slots: Tensor, view: StateView, block_table: Tensor) -> None:
        self._plan.write(slots, view, block_table)

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        first = self._plan.kv_indptr.tolist()
        pages = [self._plan.kv_indices[a:b] for a, b in itertools.pairwise(first)]
        lengths = [int(position) + 1 for position in self.positions]
        return torch.stack(
            [attention(self._spec, cache, *row) for row in zip(q, pages, lengths, strict=True)]
        )


class DecodeKernels:
    def __init__(self, spec: ModelSpec) -> None:
        self._spec, self._made = spec, dict[int, Decode]()

    def kernel(self, rows: int) -> Decode:
        return self._made.setdefault(rows, Decode(self._spec, rows))


class Prefill:
    backend = "written out"

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec

    def plan(self, starts: Sequence[int], lengths: Sequence[int], pages: Tensor) -> None:
        self._rows, at = list[tuple[Tensor, int]](), 0
        for start, length in zip(starts, lengths, strict=True):
            count = -(-(start + length) // PAGE)
            self._rows += [(pages[at : at + count], start + i + 1) for i in range(length)]
            at += count

    def attend(self, cache: Tensor, q: Tensor) -> Tensor:
        return torch.stack(
            [attention(self._spec, cache, one, *row) for one, row in zip(q, self._rows, strict=True)]
        )


def device_loop(folder: Path, queue: int) -> StepLoop:
    spec = ModelSpec.read(folder)
    with torch.inference_mode():
        model = DeviceTransformer(spec, Checkpoint(folder, spec), Products(), CONTEXT, CPU)
    pool = DevicePool(
        layers=spec.layers,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        pages=PAGES,
        page_size=PAGE,
        dtype=torch.bfloat16,
        device=CPU,
    )
    executor = DeviceExecutor(
        model,
        pool,
        torch.full((2 * SLOTS + 1, WIDTH), pool.padding, dtype=torch.int32),
        DecodeKernels(spec),  # type: ignore[arg-type]
        Prefill(spec),
        DeviceSampler(slots=SLOTS, vocab=spec.vocab, eos_ids=spec.eos_ids, device=CPU, max_rows=16),
        Sizes(slots=SLOTS, buckets=(1, 4), most=16, launches=3, repeats=queue, row_block=16, chunk_block=1),
        None,  # type: ignore[arg-type]
    )
    limits = Limits(PAGES, PAGE, SLOTS, 64, 16, CONTEXT, queue)
    return StepLoop(Scheduler(limits), executor, overlap=1, kv_bytes_per_page=1)


def tokens(loop: StepLoop, *groups: Group) -> dict[tuple[int, int], list[int]]:
    for number, group in enumerate(groups):
        loop.handle(Open(number, number, group))
    seen: dict[tuple[int, int], list[int]] = {}
    while not loop.idle:
        loop.turn()
        for message in loop.take():
            if isinstance(message, Emitted) and isinstance(message.event, Committed):
                for path in message.event.paths:
                    seen.setdefault((message.group_id, path.index), []).extend(path.ids)
    assert loop.stats.pages_used == 0
    return seen


def test_tokens_are_those_of_the_cpu_engine(no_gpu, monkeypatch, tiny_model):
    """Prompts of two pages and of none, chunks beside decoding rows, a page copied for each path, steps queued."""
    long, short = tuple(i % 300 for i in range(76)), (33, 21, 10)
    sampling = SamplingParams(4, temperature=1.0, top_p=0.9, ignore_eos=True, statistics=tuple(Statistic))
    groups = [
        Group(short, 1, SamplingParams(6, temperature=0.7, ignore_eos=True, logprobs=1), 5, watched=False),
        Group(long, 2, sampling, 7, watched=False),
    ]
    found = tokens(device_loop(tiny_model, 4), *groups)
    monkeypatch.undo()
    _, on_cpu = build(EngineConfig(tiny_model, threads=1, kv_tokens=PAGES * PAGE, dtype="bfloat16"))
    expected = tokens(on_cpu, *groups)
    # One rounding apart in bfloat16 a token may differ, and its path from then on: not at the start.
    assert {key: len(ids) for key, ids in found.items()} == {key: len(ids) for key, ids in expected.items()}
    assert {key: ids[:2] for key, ids in found.items()} == {key: ids[:2] for key, ids in expected.items()}
