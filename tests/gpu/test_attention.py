"""FlashInfer's kernels on this project's schedules against attention written out in float32."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.attention.decode_kernels import (
    DecodeKernel,
    TensorCoreDecode,
    XqaDecode,
    XqaScratch,
    scratch_bytes,
    xqa_obstacle,
)
from engine.attention.decode_plan import DecodePlan, StateView
from engine.attention.flashinfer import Heads, PagedKernel
from engine.attention.prefill import PlannedPrefill, TiledPrefill
from engine.kernels.launch import launch_on
from engine.kv.device_pool import DevicePool

pytestmark = pytest.mark.gpu

BF16 = torch.bfloat16
PAGE, PAGES, WIDTH, SLOTS = 64, 2000, 1024, 24
LENGTHS = [1, 63, 64, 65, 2048, 50_000, 777, 4097, 128, 10_001]
SHAPES = [(32, 8, 128), (8, 2, 64), (28, 4, 128), (6, 6, 64), (16, 1, 128), (40, 2, 64)]


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def setting(request):
    return Setting(*request.param)


class Setting:
    """A pool of random pages and tables that name them at random."""

    def __init__(self, q_heads: int, kv_heads: int, dim: int) -> None:
        torch.manual_seed(5)
        self.device = torch.device("cuda")
        self.heads = Heads(q_heads, kv_heads, dim, launch_on(self.device).programmatic)
        self.kernel = PagedKernel(self.heads)
        self.pool = DevicePool(
            layers=2,
            kv_heads=kv_heads,
            head_dim=dim,
            pages=PAGES,
            page_size=PAGE,
            dtype=BF16,
            device=self.device,
        )
        self.pool.data[:PAGES].normal_()
        self.table = torch.randint(0, PAGES, (SLOTS + 1, WIDTH), dtype=torch.int32, device=self.device)
        self.table[SLOTS] = self.pool.padding
        self.state = torch.zeros(SLOTS + 1, 4, dtype=torch.int32, device=self.device)
        self.view = StateView(self.state, next_id=0, position=1)

    @property
    def layer(self) -> Tensor:
        return self.pool.layers[1]

    def expected(self, slot: int, q: Tensor, length: int) -> Tensor:
        pages = self.table[slot, : -(-length // PAGE)].long()
        k, v = (self.layer[pages, i].flatten(0, 1)[:length].float() for i in (0, 1))
        grouped = q.float().view(self.heads.kv, -1, self.heads.dim)
        scores = torch.einsum("hgd,lhd->hgl", grouped, k) * self.heads.scale
        return torch.einsum("hgl,lhd->hgd", scores.softmax(-1), v).flatten()

    def kernels(self, rows: int) -> dict[str, DecodeKernel]:
        def tensor_cores(capacity: int, split: bool, fixed: int = 0) -> TensorCoreDecode:
            plan = DecodePlan(rows, capacity, PAGE, WIDTH, self.device, fixed)
            scratch = torch.empty(
                scratch_bytes(self.heads, plan.capacity), dtype=torch.uint8, device=self.device
            )
            return TensorCoreDecode(self.kernel, plan, scratch, split=split)

        found: dict[str, DecodeKernel] = {
            "33 chunks": tensor_cores(33, True),
            "132 chunks": tensor_cores(132, True),
            "fixed": tensor_cores(1, True, 64),
            "whole": tensor_cores(rows, False),
        }
        if not xqa_obstacle(self.heads, PAGE, torch.cuda.get_device_capability()[0]):
            plan = DecodePlan(rows, rows, PAGE, WIDTH, self.device)
            found["xqa"] = XqaDecode(self.heads, plan, WIDTH, XqaScratch(self.device))
        return found


def error(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected).norm() / expected.norm())


@pytest.mark.parametrize("padding", [0, 1, 6])
def test_a_plan_captured_at_length_2_replays_right_at_every_length_up_to_50k(setting, padding):
    order = [3, 0, 7, 5, 9, 1, 8, 2, 6, 4]
    slots = torch.tensor([*order, *[SLOTS] * padding], dtype=torch.int32, device=setting.device)
    q = torch.randn(len(slots), setting.heads.q, setting.heads.dim, device=setting.device).to(BF16)
    for name, kernel in setting.kernels(len(slots)).items():
        graph, out = captured(setting, kernel, slots, q)
        setting.state[: len(LENGTHS), 1] = torch.tensor(LENGTHS, device=setting.device).int() - 1
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert bool(torch.isfinite(out).all()), name
        for row, slot in enumerate(order):
            assert error(out[row], setting.expected(slot, q[row], LENGTHS[slot])) < 8e-3, (
                name,
                LENGTHS[slot],
            )


def captured(setting: Setting, kernel: DecodeKernel, slots: Tensor, q: Tensor):
    """(graph, output) of a step in which every path has 2 tokens."""
    setting.state[:, 1] = 1
    stream, nothing = torch.cuda.Stream(), torch.zeros(1, device=setting.device)

    def step() -> Tensor:
        kernel.prepare(slots, setting.view, setting.table)
        nothing.add_(1)  # stands for the matrix product that a step has here
        return kernel.attend(setting.layer, q)

    with torch.cuda.stream(stream):
        step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = step()
    torch.cuda.synchronize()
    return graph, out


def test_fixed_chunks_give_a_row_the_same_bits_beside_any_neighbours(setting):
    setting.state[: len(LENGTHS), 1] = torch.tensor(LENGTHS, device=setting.device).int() - 1
    q = torch.randn(10, setting.heads.q, setting.heads.dim, device=setting.device).to(BF16)
    seen = []
    for order in ([5, 4], [0, 1, 2, 5], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]):
        kernel = setting.kernels(len(order))["fixed"]
        slots = torch.tensor(order, dtype=torch.int32, device=setting.device)
        kernel.prepare(slots, setting.view, setting.table)
        torch.cuda.synchronize()
        seen.append(kernel.attend(setting.layer, q[slots.long()])[order.index(5)])
    assert all(torch.equal(one, seen[0]) for one in seen)


CHUNKS = [(0, 70), (130, 64), (4000, 300), (9_984, 1), (0, 1)]


@pytest.mark.parametrize("kind", ["planned", "tiled"])
def test_prompt_chunks_see_the_tokens_before_them_and_none_behind(setting, kind):
    prefill = (
        PlannedPrefill(setting.pool, setting.heads, 2)
        if kind == "planned"
        else TiledPrefill(setting.kernel, setting.pool, 2)
    )
    starts, lengths = zip(*CHUNKS, strict=True)
    q = torch.randn(sum(lengths), setting.heads.q, setting.heads.dim, device=setting.device).to(BF16)
    prefill.plan(starts, lengths, pages_of(setting, CHUNKS))
    out, row = prefill.attend(setting.layer, q), 0
    for slot, (start, length) in enumerate(CHUNKS):
        for i in {0, length // 2, length - 1}:
            expected = setting.expected(slot, q[row + i], start + i + 1)
            assert error(out[row + i], expected) < 8e-3, (start, i)
        row += length


def test_tiled_prefill_gives_a_token_the_same_bits_wherever_its_prompt_was_cut(setting):
    prefill = TiledPrefill(setting.kernel, setting.pool, 2)
    q = torch.randn(320, setting.heads.q, setting.heads.dim, device=setting.device).to(BF16)
    seen = []
    for cuts in ([320], [16, 304], [128, 16, 176]):
        parts, start = [], 1000
        for length in cuts:
            prefill.plan([start], [length], pages_of(setting, [(start, length)]))
            parts.append(prefill.attend(setting.layer, q[start - 1000 : start - 1000 + length]).clone())
            start += length
        seen.append(torch.cat(parts))
    assert all(torch.equal(one, seen[0]) for one in seen)


def pages_of(setting: Setting, chunks) -> Tensor:
    return torch.cat(
        [setting.table[slot, : -(-(start + length) // PAGE)] for slot, (start, length) in enumerate(chunks)]
    )
