"""The fused kernels against the same arithmetic written out in torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.kernels.activation import silu_mul
from engine.kernels.norm import add_norm, embed_norm
from engine.kernels.rope_cache import rope_cache
from engine.kernels.scatter import admit_rows, write_cells
from engine.kernels.stream_linear import StreamShape, stream_linear
from engine.kv.device_pool import DevicePool

BF16 = torch.bfloat16
EPS = 1e-6


def normal(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, device=device).to(BF16)


def close(found: Tensor, expected: Tensor) -> bool:
    """Within the rounding of one bfloat16."""
    return torch.allclose(found.float(), expected.float(), rtol=2**-7, atol=1e-3)


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight.float()


@pytest.mark.parametrize("hidden", [64, 96, 384, 1000])
def test_embedding_and_first_norm(device, hidden):
    ids = torch.tensor([4, 0, 49, 4], dtype=torch.int32, device=device)
    table, weight = normal(device, 50, hidden), normal(device, hidden)
    residual = torch.full((4, hidden), float("nan"), device=device)
    out = torch.full((4, hidden), float("nan"), device=device, dtype=BF16)
    embed_norm(ids, table, weight, EPS, residual, out)
    assert torch.equal(residual, table[ids.long()].float())
    assert close(out, rms(residual, weight))


@pytest.mark.parametrize("hidden", [64, 384, 1000])
@pytest.mark.parametrize("parts", [1, 4])
def test_residual_sum_and_norm_leave_the_sum_in_float32(device, hidden, parts):
    residual, weight = torch.randn(3, hidden, device=device), normal(device, hidden)
    y = normal(device, parts, 3, hidden)
    expected = residual.clone()
    for part in y:
        expected += part.float()
    out = torch.full((3, hidden), float("nan"), device=device, dtype=BF16)
    add_norm(residual, y, weight, EPS, out)
    assert torch.equal(residual, expected)
    assert close(out, rms(expected, weight))


@pytest.mark.parametrize("ffn", [96, 1024, 3000])
def test_silu_times_up(device, ffn):
    gate_up = normal(device, 3, 2 * ffn) * 4
    out = torch.full((3, ffn), float("nan"), device=device, dtype=BF16)
    silu_mul(gate_up, out)
    gate, up = gate_up.float().chunk(2, -1)
    assert close(out, torch.nn.functional.silu(gate) * up)


@pytest.mark.parametrize(("q_heads", "kv_heads", "dim"), [(8, 2, 16), (6, 6, 64), (7, 1, 128), (3, 1, 32)])
@pytest.mark.parametrize(("normed", "parts"), [(True, 1), (False, 1), (True, 2)])
def test_rotation_and_cache_write_touch_the_tokens_own_cells_and_nothing_else(
    device, q_heads, kv_heads, dim, normed, parts
):
    page, pages = 64, 6
    pool = DevicePool(
        layers=2, kv_heads=kv_heads, head_dim=dim, pages=pages, page_size=page, dtype=BF16, device=device
    )
    pool.data.fill_(5.0)
    block_table = torch.tensor([[3, 1, 5], [2, 0, 4]], dtype=torch.int32, device=device)
    tables = torch.tensor([0, 1, 1, 0], dtype=torch.int32, device=device)
    positions = torch.tensor([5, 63, 64, 191], dtype=torch.int32, device=device)
    qkv = torch.randn(parts, 4, (q_heads + 2 * kv_heads) * dim, device=device)
    norms = (normal(device, dim), normal(device, dim)) if normed else None
    angles = torch.rand(200, dim // 2, device=device) * 6
    q = torch.full((4, q_heads, dim), float("nan"), device=device, dtype=BF16)
    rope_cache(
        qkv, norms, EPS, (angles.cos(), angles.sin()), tables, positions, block_table, pool.layers[1], q
    )

    heads = qkv.sum(0).view(4, -1, dim)
    queries, keys, values = heads.split([q_heads, kv_heads, kv_heads], 1)
    if norms is not None:
        queries, keys = rms(queries, norms[0]), rms(keys, norms[1])
    turn = angles[positions.long()][:, None]
    assert close(q, rotated(queries, turn))
    at = block_table[tables.long(), (positions // page).long()].long(), (positions % page).long()
    cache = pool.layers[1]
    assert close(cache[at[0], 0, at[1]], rotated(keys, turn))
    assert close(cache[at[0], 1, at[1]], values)
    cache[at[0], :, at[1]] = 5.0
    assert bool((pool.data[:pages] == 5.0).all())


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def test_an_admitted_slot_gets_its_record_and_the_prompts_shared_pages(device):
    state = torch.full((4, 300), 9, dtype=torch.int32, device=device)
    table = torch.full((9, 700), 8, dtype=torch.int32, device=device)
    records = torch.arange(600, dtype=torch.int32, device=device)
    table[5, :600] = torch.arange(600, dtype=torch.int32, device=device)
    columns = torch.tensor([[2, 0], [5, 6], [513, 0]], dtype=torch.int32, device=device)
    admit_rows(*columns, records, state, table, 77)
    assert state[2].tolist() == list(range(300))
    assert state[0].tolist() == list(range(300, 600))
    assert bool((state[[1, 3]] == 9).all())
    assert table[2].tolist() == [*range(513), *[77] * 187]
    assert bool((table[0] == 77).all())
    assert bool((table[[1, 3, 4, 6, 7, 8]] == 8).all())


@pytest.mark.parametrize("count", [1, 255, 256, 600])
def test_cells_are_written_one_by_one(device, count):
    target = torch.zeros(30, 40, dtype=torch.int32, device=device)
    cells = torch.randperm(1200, device=device)[:count]
    rows, columns = (cells // 40).int(), (cells % 40).int()
    values = torch.arange(1, count + 1, dtype=torch.int32, device=device)
    write_cells(target, rows, columns, values)
    assert torch.equal(target.view(-1)[cells], values)
    assert int((target != 0).sum()) == count


def test_copied_pages_are_whole_and_the_others_stay(device):
    pool = DevicePool(layers=2, kv_heads=1, head_dim=16, pages=5, page_size=4, dtype=BF16, device=device)
    pool.data.copy_(torch.randn(pool.data.shape, device=device))
    before = pool.data.clone()
    sources, targets = (
        torch.tensor(pages, dtype=torch.int32, device=device) for pages in ([0, 1, 0], [3, 4, 2])
    )
    pool.copy(sources, targets)
    for page, source in enumerate((0, 1, 0, 0, 1)):
        assert torch.equal(pool.data[page], before[source])


@pytest.mark.parametrize("pages", [1, 2, 7919, 7920, 1000])
def test_every_page_has_a_place_of_its_own(device, pages):
    pool = DevicePool(layers=1, kv_heads=1, head_dim=1, pages=pages, page_size=1, dtype=BF16, device=device)
    assert sorted(map(pool.place, range(pages))) == list(range(pages))


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (3, 4), (16, 2)])
def test_a_streamed_product_is_the_sum_of_its_parts(device, rows, parts):
    # Triton's interpreter multiplies float32 only.
    dtype = BF16 if device.type == "cuda" else torch.float32
    x, weight = (
        torch.randn(rows, 1024, device=device).to(dtype),
        torch.randn(192, 1024, device=device).to(dtype),
    )
    out = stream_linear(x, weight, StreamShape(parts))
    assert out.shape == (parts, rows, 192)
    expected = x.double() @ weight.double().t()
    assert float((out.double().sum(0) - expected).norm() / expected.norm()) < 4e-3


def test_only_matrices_that_fill_the_card_are_streamed():
    cuts = {
        shape: StreamShape.of(*shape) for shape in [(6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)]
    }
    assert [cut.parts for cut in cuts.values() if cut is not None] == [2, 4, 1, 4]
    assert StreamShape.of(768, 384) is None
    assert StreamShape.of(4000, 4096) is None
