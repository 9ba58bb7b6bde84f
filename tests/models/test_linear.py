"""A row's result is the same bits at any place, beside any neighbours, in any number of blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.config import BLOCK
from engine.errors import InvalidParameter
from engine.models.linear import Linear, PackedLinear, PlainLinear, linear

SHAPES = [(384, 768), (512, 384), (384, 1024), (1024, 384), (384, 448), (320, 768), (48, 83), (80, 48),
          (900, 77), (1024, 3072)]
LAYERS = [PackedLinear, PlainLinear]


@pytest.fixture(params=LAYERS, ids=lambda layer: layer.__name__)
def layer_class(request: pytest.FixtureRequest) -> Callable[[Tensor, Tensor | None], Linear]:
    found: Callable[[Tensor, Tensor | None], Linear] = request.param
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_does_not_depend_on_its_place_or_neighbours(
        layer_class: Callable[[Tensor, Tensor | None], Linear], shape: tuple[int, int], dtype: torch.dtype,
) -> None:
    torch.manual_seed(0)
    layer = layer_class(torch.randn(shape[1], shape[0]).to(dtype).float(), None)
    row = torch.randn(shape[0]).to(dtype).float()
    alone = torch.zeros(BLOCK, shape[0])
    alone[0] = row
    expected = layer(alone)[0]
    for place in range(BLOCK):
        block = torch.randn(BLOCK, shape[0])
        block[place] = row
        assert torch.equal(layer(block)[place], expected)
    many = torch.randn(5 * BLOCK, shape[0])
    many[::7] = row
    many[3] = torch.nan
    assert all(torch.equal(found, expected) for found in layer(many)[::7])


def test_the_number_of_threads_does_not_change_a_row() -> None:
    layer = linear(torch.randn(768, 384))
    x = torch.randn(BLOCK, 384)
    expected = layer(x)
    torch.set_num_threads(2)
    assert torch.equal(layer(x), expected)


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_the_fused_operations_are_those_of_their_names(
        layer_class: Callable[[Tensor, Tensor | None], Linear], biased: bool,
) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(56, 40), torch.randn(56) if biased else None
    x, other = torch.randn(2 * BLOCK, 40), torch.randn(2 * BLOCK, 56)
    layer, plain = layer_class(weight, bias), functional.linear(x, weight, bias)
    torch.testing.assert_close(layer(x), plain, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.plus(x, other), plain + other, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.times(x, other), plain * other, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(layer.silu(x), functional.silu(plain), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 17])
def test_rows_that_fill_no_block_are_refused(rows: int) -> None:
    with pytest.raises(InvalidParameter, match="multiple of 16"):
        linear(torch.randn(8, 8))(torch.randn(rows, 8))
