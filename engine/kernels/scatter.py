"""A plan's changes to what lives on the device: new owners of slots, and single cells of a table."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256


@triton.jit(do_not_specialize=["width", "table_width", "padding"])
def _admit_rows(
    slots, prompts, shared, records, state, width, block_table, table_width, padding, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    prompt = tl.load(prompts + row).to(tl.int64)
    pages = tl.load(shared + row)
    step = tl.arange(0, BLOCK)
    done = width * 0
    while done < width:
        inside = done + step < width
        value = tl.load(records + row * width + done + step, mask=inside)
        tl.store(state + slot * width + done + step, value, mask=inside)
        done += BLOCK
    done = width * 0
    while done < table_width:
        at = done + step
        page = tl.load(block_table + prompt * table_width + at, mask=at < pages, other=padding)
        tl.store(block_table + slot * table_width + at, page, mask=at < table_width)
        done += BLOCK


@triton.jit(do_not_specialize=["count", "width"])
def _write_cells(target, width, rows, columns, values, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    row = tl.load(rows + at, mask=inside, other=0).to(tl.int64)
    column = tl.load(columns + at, mask=inside, other=0)
    value = tl.load(values + at, mask=inside, other=0)
    tl.store(target + row * width + column, value, mask=inside)


def admit_rows(
    slots: Tensor,
    prompts: Tensor,
    shared: Tensor,
    records: Tensor,
    state: Tensor,
    block_table: Tensor,
    padding: int,
) -> None:
    """state[slots] = records; block_table[slots] = the first `shared` pages of block_table[prompts], then padding.

    All int32: slots, prompts, shared [n], records [n, width], state [slots + 1, width], block_table [tables, pages].
    """
    _admit_rows[(slots.shape[0],)](
        slots,
        prompts,
        shared,
        records,
        state,
        state.shape[1],
        block_table,
        block_table.shape[1],
        padding,
        BLOCK=_BLOCK,
        num_warps=4,
    )


def write_cells(target: Tensor, rows: Tensor, columns: Tensor, values: Tensor) -> None:
    """target[rows, columns] = values; target [., width], the others [n], all int32; cells distinct."""
    count = rows.shape[0]
    _write_cells[(triton.cdiv(count, _BLOCK),)](
        target, target.shape[1], rows, columns, values, count, BLOCK=_BLOCK, num_warps=4
    )
