"""The schedule of split decode attention, computed on the device at every step.

FlashInfer plans on the host: it needs every path's length there, and 60-420 microseconds a step. What its decode
kernel reads is a handful of index arrays; one small kernel writes them from the lengths and block tables that live
on the device, so that a captured step is right at every length and the host has no part in it.

A path's pages are cut into chunks of equal size, the smallest for which all chunks of the batch fit into the grid
that was captured. In batch-invariant use the size is fixed instead: a path's sum is then cut in the same places
whatever runs beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import block_of, launch_on, wait_for_previous


@triton.jit(do_not_specialize=["state_width", "table_width", "rows", "capacity", "fixed_chunk"])
def _decode_plan(
    slots,
    state,
    state_width,
    block_table,
    table_width,
    rows,
    ids,
    positions,
    kv_indptr,
    kv_indices,
    last_page_len,
    request,
    tile,
    chunk_indptr,
    chunk_tokens,
    valid,
    capacity,
    fixed_chunk,
    NEXT_ID: tl.constexpr,
    POSITION: tl.constexpr,
    PAGE: tl.constexpr,
    MIN_CHUNK: tl.constexpr,
    ROWS_BLOCK: tl.constexpr,
    COPY: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.arange(0, ROWS_BLOCK)
    here = at < rows
    wait_for_previous(PDL)
    every_slot = tl.load(slots + at, mask=here, other=0).to(tl.int64)
    every_position = tl.load(state + every_slot * state_width + POSITION, mask=here, other=0)
    pages = tl.where(here, every_position // PAGE + 1, 0)

    low = tl.where(fixed_chunk > 0, fixed_chunk, MIN_CHUNK)
    high = tl.where(fixed_chunk > 0, fixed_chunk, tl.maximum(tl.max(pages, 0), MIN_CHUNK))
    while low < high:
        middle = (low + high) // 2
        fits = tl.sum((pages + middle - 1) // middle, 0) <= capacity
        high = tl.where(fits, middle, high)
        low = tl.where(fits, low, middle + 1)
    chunk = low
    chunks = (pages + chunk - 1) // chunk

    slot = tl.load(slots + row).to(tl.int64)
    position = tl.load(state + slot * state_width + POSITION)
    own_pages = position // PAGE + 1
    own_chunks = (own_pages + chunk - 1) // chunk
    first_page = tl.sum(tl.where(at < row, pages, 0), 0)
    first_chunk = tl.sum(tl.where(at < row, chunks, 0), 0)
    tl.store(ids + row, tl.load(state + slot * state_width + NEXT_ID))
    tl.store(positions + row, position)
    tl.store(last_page_len + row, position % PAGE + 1)
    tl.store(kv_indptr + row + 1, first_page + own_pages)
    tl.store(chunk_indptr + row + 1, first_chunk + own_chunks)
    step = tl.arange(0, COPY)
    done = row * 0
    while done < own_chunks:
        inside = done + step < own_chunks
        place = first_chunk + done + step
        tl.store(request + place, tl.zeros((COPY,), tl.int32) + row, mask=inside)
        tl.store(tile + place, done + step, mask=inside)
        tl.store(valid + place, tl.full((COPY,), 1, tl.int8), mask=inside)
        done += COPY
    done = row * 0
    while done < own_pages:
        inside = done + step < own_pages
        page = tl.load(block_table + slot * table_width + done + step, mask=inside, other=0)
        tl.store(kv_indices + first_page + done + step, page, mask=inside)
        done += COPY
    if row == 0:
        tl.store(kv_indptr, 0)
        tl.store(chunk_indptr, 0)
        tl.store(chunk_tokens, chunk * PAGE)
        done = tl.sum(chunks, 0)
        while done < capacity:
            tl.store(valid + done + step, tl.zeros((COPY,), tl.int8), mask=done + step < capacity)
            done += COPY


@dataclass(frozen=True, slots=True)
class StateView:
    """Where the plan finds a path: state [slots + 1, width] int32, its columns of next id and position."""

    state: Tensor
    next_id: int
    position: int


class DecodePlan:
    """The index arrays of one bucket, all int32 on the device.

    capacity: chunks that the captured grid has room for, at least `rows`. fixed_chunk: pages of a chunk, 0: chosen
    at every step. ids, positions: [rows], of each row's input token. The kernel finds the arrays of `workspace` at
    `offsets`, in bytes.
    """

    MIN_CHUNK_TOKENS = 128

    def __init__(
        self,
        rows: int,
        capacity: int,
        page: int,
        table_width: int,
        device: torch.device,
        fixed_chunk: int = 0,
    ) -> None:
        if fixed_chunk:
            capacity = max(capacity, rows * -(-table_width // fixed_chunk))
        self.rows, self.capacity, self.fixed_chunk = rows, max(capacity, rows), fixed_chunk
        self._page = page

        def ints(size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.int32, device=device)

        self.ids, self.positions, self.last_page_len = ints(rows), ints(rows), ints(rows)
        self.kv_indptr, self.kv_indices = ints(rows + 1), ints(rows * table_width)
        self.query_indptr = torch.arange(rows + 1, dtype=torch.int32, device=device)
        self._lay_out(rows)

    def _lay_out(self, rows: int) -> None:
        """One int32 buffer: request, query tile (always 0), chunk of a path, first chunk of each row (twice: for
        partial results and for the merge), tokens of a chunk, number of rows, and a byte a chunk: is it valid."""
        sizes = {
            "request": self.capacity,
            "query_tile": self.capacity,
            "tile": self.capacity,
            "indptr": rows + 1,
            "chunk": 1,
            "total": 1,
            "valid": -(-self.capacity // 4),
        }
        offsets, end = {}, 0
        for name, size in sizes.items():
            offsets[name] = end
            end += -(-size // 4) * 4  # 16-byte aligned
        self.workspace = torch.zeros(end, dtype=torch.int32, device=self.ids.device)
        self.workspace[offsets["total"]] = rows
        self.part = {name: self.workspace[offsets[name] :] for name in sizes}
        self.offsets = {name: 4 * offset for name, offset in offsets.items()}

    def write(self, slots: Tensor, view: StateView, block_table: Tensor) -> None:
        """slots [rows] int32; block_table [tables, width] int32, of the device's paths.

        The attention kernel reads the plan before it waits for the kernel in front of it. Between the two there must be
        one that has waited itself before it let others start (see `launch.wait_for_previous`); a step has several.
        """
        _decode_plan[(self.rows,)](
            slots,
            view.state,
            view.state.shape[1],
            block_table,
            block_table.shape[1],
            self.rows,
            self.ids,
            self.positions,
            self.kv_indptr,
            self.kv_indices,
            self.last_page_len,
            self.part["request"],
            self.part["tile"],
            self.part["indptr"],
            self.part["chunk"],
            self.part["valid"].view(torch.int8),
            self.capacity,
            self.fixed_chunk,
            NEXT_ID=view.next_id,
            POSITION=view.position,
            PAGE=self._page,
            MIN_CHUNK=max(1, self.MIN_CHUNK_TOKENS // self._page),
            ROWS_BLOCK=max(64, block_of(self.rows)),
            COPY=128,
            num_warps=4,
            **launch_on(slots.device).options(),
        )
