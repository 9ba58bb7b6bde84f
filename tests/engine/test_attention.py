"""The CPU's attention against the oracle, over tables as groups, cancels and scattered pools leave them."""

import time

import pytest
import torch
from torch import Tensor

from engine.attention.base import DecodeRow, PrefillBlock, StepShape
from engine.attention.extents import ExtentAttention
from engine.attention.reference import ReferenceAttention
from engine.kv.edits import PageEdit
from engine.kv.pool import KVPool
from engine.kv.tables import BlockTables

PAGE, BLOCK, KV_HEADS, GROUP, DIM = 4, 16, 2, 3, 32


def new_pool(dtype: torch.dtype, pages: int = 128) -> KVPool:
    pool = KVPool(
        layers=2,
        kv_heads=KV_HEADS,
        head_dim=DIM,
        pages=pages,
        page_size=PAGE,
        dtype=dtype,
        device=torch.device("cpu"),
    )
    pool.data.copy_(torch.randn(pool.data.shape, generator=torch.Generator().manual_seed(0)))
    return pool


PROMPT = 15  # the table that shared pages come from


def tables_of(pages: dict[int, list[int]], shared: int = 0) -> BlockTables:
    tables = BlockTables(16, PAGE)
    for table, numbers in pages.items():
        tables.reset(PROMPT)
        for at, page in enumerate(numbers[:shared]):
            tables.apply(PageEdit(PROMPT, at, page))
        tables.share(table, PROMPT, shared)
        for at, page in enumerate(numbers[shared:], shared):
            tables.apply(PageEdit(table, at, page))
    return tables


def queries(tokens: int, dtype: torch.dtype) -> Tensor:
    q = torch.randn(tokens, KV_HEADS * GROUP, DIM, generator=torch.Generator().manual_seed(1))
    return q.to(dtype)


def both(pool: KVPool, tables: BlockTables, shape: StepShape, q: Tensor) -> tuple[Tensor, Tensor]:
    outs = []
    for attention in (ExtentAttention(pool, tables, block=BLOCK), ReferenceAttention(pool, tables)):
        attention.prepare(shape)
        outs.append(attention.attend(1, q))
    return outs[0], outs[1]


def rows(lengths: list[int]) -> tuple[DecodeRow, ...]:
    return tuple(DecodeRow(i, i, length) for i, length in enumerate(lengths))


CASES = {
    "siblings side by side, equal lengths": (
        {i: [90, 91, *range(20 * i, 20 * i + 10)] for i in range(4)},
        2,
        [37] * 4,
    ),
    "ragged siblings": ({i: [90, 91, *range(20 * i, 20 * i + 10)] for i in range(4)}, 2, [9, 24, 25, 48]),
    "one sibling gone": (
        {i: [90, *range(20 * j, 20 * j + 9)] for i, j in enumerate((0, 1, 3, 4))},
        1,
        [33] * 4,
    ),
    "distances that go down": ({i: [90, *range(60 - 20 * i, 69 - 20 * i)] for i in range(3)}, 1, [33] * 3),
    "scattered pages": ({0: [3, 9, 1, 40, 7], 1: [80, 2, 81, 5, 6]}, 2, [18, 20]),
    "no shared page": ({i: list(range(20 * i, 20 * i + 5)) for i in range(3)}, 0, [1, 17, 20]),
    "groups of different prompts": (
        {0: [90, 91, 0, 1], 1: [90, 91, 10, 11], 2: [70, 71, 20, 21]},
        2,
        [13, 13, 13],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
def test_decode_agrees_with_the_oracle(case, dtype, tolerance):
    pages, shared, lengths = CASES[case]
    shape = StepShape(BLOCK, rows(lengths), ())
    got, want = both(new_pool(dtype), tables_of(pages, shared), shape, queries(BLOCK, dtype))
    n = len(lengths)
    assert torch.allclose(got[:n].float(), want[:n].float(), atol=tolerance, rtol=tolerance)
    assert torch.isfinite(got).all(), "padding rows are finite"


@pytest.mark.parametrize("start", [0, 16, 48])
@pytest.mark.parametrize("valid", [1, 5, 16])
@pytest.mark.parametrize("pages", [list(range(30)), [7, 3, *range(40, 68)]])
def test_prefill_blocks_beside_decoding_rows_agree_with_the_oracle(start, valid, pages):
    tables = tables_of({0: [90, 91, 92], 5: pages})
    shape = StepShape(2 * BLOCK, (DecodeRow(0, 0, 10),), (PrefillBlock(BLOCK, 5, start, valid),))
    got, want = both(new_pool(torch.float32), tables, shape, queries(2 * BLOCK, torch.float32))
    used = [0, *range(BLOCK, BLOCK + valid)]
    assert torch.allclose(got[used], want[used], atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_alone_among_siblings_and_on_scattered_pages(dtype):
    pool = new_pool(dtype)
    together = tables_of({i: [100, 101, *range(12 * i, 12 * i + 10)] for i in range(8)}, 2)
    q = queries(BLOCK, dtype)
    attention = ExtentAttention(pool, together, block=BLOCK)
    attention.prepare(StepShape(BLOCK, rows([43] * 8), ()))
    want = attention.attend(0, q)

    alone = ExtentAttention(pool, together, block=BLOCK)
    alone.prepare(StepShape(BLOCK, (DecodeRow(0, 5, 43),), ()))
    moved_q = q.clone()
    moved_q[0] = q[5]
    assert torch.equal(alone.attend(0, moved_q)[0], want[5])

    scattered = [110, 120, 99, 98, 119, 118, 105, 107, 112, 97]
    for at, page in enumerate(scattered):
        for source, target in ((60 + at, page),):
            pool.data[:, :, :, target * PAGE : (target + 1) * PAGE] = pool.data[
                :, :, :, source * PAGE : (source + 1) * PAGE
            ]
    apart = ExtentAttention(pool, tables_of({0: [100, 101, *scattered]}, 2), block=BLOCK)
    apart.prepare(StepShape(BLOCK, (DecodeRow(0, 0, 43),), ()))
    assert torch.equal(apart.attend(0, moved_q)[0], want[5])


def test_siblings_side_by_side_are_served_by_one_kernel_call(monkeypatch):
    pool = new_pool(torch.float32)
    tables = tables_of({i: [90, 91, *range(20 * i, 20 * i + 10)] for i in range(4)}, 2)
    attention = ExtentAttention(pool, tables, block=BLOCK)
    attention.prepare(StepShape(BLOCK, rows([37] * 4), ()))
    assert (len(attention._own), len(attention._shared)) == (1, 1)


@pytest.mark.parametrize("gap", [0, 1])
def test_preparing_a_step_costs_the_host_the_same_at_1k_and_at_50k_tokens(gap):
    """Side by side (gap 0) and scattered (gap 1)."""
    attentions = {length: _scattered(length // PAGE, 1 + gap) for length in (1_000, 50_000)}
    best = dict.fromkeys(attentions, 1.0)
    for _ in range(400):
        for length, attention in attentions.items():
            begun = time.perf_counter()
            attention.prepare(StepShape(BLOCK, rows([length] * 4), ()))
            best[length] = min(best[length], time.perf_counter() - begun)
    assert best[50_000] <= 1.2 * best[1_000] + 5e-6


def _scattered(pages: int, stride: int) -> ExtentAttention:
    """Four tables of that many pages, neighbours `stride` page numbers apart."""
    tables = BlockTables(4, PAGE)
    for table in range(4):
        tables.reset(table)
        for at in range(pages):
            tables.apply(PageEdit(table, at, table * 4 * pages + stride * at))
    return ExtentAttention(new_pool(torch.float32, pages=8), tables, block=BLOCK)
