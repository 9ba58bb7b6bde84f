"""CPU attention that reads KV in place.

A table has two segments: the prompt's shared pages and the path's own. Where a segment's pages lie side by side
it is a strided view; siblings that started together have segments of equal length at equal distances, so one
kernel call over a strided batch serves them all, and for the shared segment the distance is zero. The query heads
of one KV head stand as query rows, so that keys and values are read once for all of them. The two partial results
are joined by their log-sum-exp (Dao et al., FlashDecoding; Hydragen, arXiv 2402.05099, for the shared part).

Where the segments are cut depends on the prompt alone, and every row or block is a matrix product of its own
inside the kernel, so that a row's bits do not depend on what else runs or on where its pages lie; for that the
query rows of a product must be a multiple of QUERY_ROWS, and groups of heads are padded to it. A scattered segment
is gathered first and then goes the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.attention.base import PrefillBlock, StepShape
from engine.kv.pool import KVPool
from engine.kv.tables import BlockTables, Segment

# Products of 1, 2, 3, 5, 6 or 7 query rows change with the memory alignment of their operands (found by trying
# group sizes 1-16 at head_dim 32, 64, 128); multiples of four do not.
QUERY_ROWS = 4

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


@dataclass(frozen=True, slots=True)
class Run:
    """Rows start .. stop - 1 read `tokens` tokens each: row i from base + (i - start) * stride.
    at [tokens] int64: addresses of a scattered segment; then there is one row."""

    start: int
    stop: int
    base: int
    stride: int
    tokens: int
    at: Tensor | None = None


@dataclass(frozen=True, slots=True)
class MaskedBlock:
    """A prefill block, its keys as a run of one row, and its mask [group * block, tokens] (0 or -inf)."""

    row: int
    keys: Run
    mask: Tensor


class ExtentAttention:
    def __init__(self, pool: KVPool, tables: BlockTables, *, block: int) -> None:
        self._pool, self._tables, self._block = pool, tables, block
        _, _, self._kv_heads, _, self._head_dim = pool.data.shape
        self._tokens = 0
        self._rows = 0
        self._own: list[Run] = []
        self._shared: list[Run] = []
        self._blocks: list[PrefillBlock] = []
        self._masked: list[MaskedBlock] = []

    def prepare(self, shape: StepShape) -> None:
        self._tokens, self._rows = shape.tokens, len(shape.rows)
        self._own = self._runs((r.row, self._tables.own(r.table, r.length)) for r in shape.rows)
        shared = ((r.row, self._tables.shared(r.table)) for r in shape.rows)
        self._shared = self._runs((row, segment) for row, segment in shared if segment is not None)
        self._blocks, self._masked = list(shape.blocks), []

    def attend(self, layer: int, q: Tensor) -> Tensor:
        rows = self._decode(layer, q[: self._rows]) if self._rows else q[:0]
        if self._rows == self._tokens:
            return rows
        out = q.new_zeros(q.shape)
        out[: self._rows] = rows.view_as(out[: self._rows])
        if self._blocks and not self._masked:
            group = q.shape[1] // self._kv_heads
            self._masked = [self._mask(block, group, q.dtype) for block in self._blocks]
        for block in self._masked:
            self._prefill(layer, block, q, out)
        return out.flatten(1)

    # -- decode ----------------------------------------------------------------------------------------------

    def _decode(self, layer: int, q: Tensor) -> Tensor:
        """q [rows, q_heads, head_dim] -> [rows, q_heads * head_dim]."""
        q4 = q.view(self._rows, self._kv_heads, -1, self._head_dim)
        group = q4.shape[2]
        if group % QUERY_ROWS:
            q4 = torch.nn.functional.pad(q4, (0, 0, 0, -group % QUERY_ROWS))
        parts = [self._call(layer, q4, run, group) for run in self._own]
        out, lse = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        for run in self._shared:
            rows = slice(run.start, run.stop)
            join(out[rows], lse[rows], *self._call(layer, q4, run, group), out[rows])
        return out.flatten(1)

    def _call(self, layer: int, q4: Tensor, run: Run, group: int) -> tuple[Tensor, Tensor]:
        out, lse = _flash(q4[run.start : run.stop], *self._view(layer, run))
        return out[:, :, :group], lse[:, :, :group]

    def _view(self, layer: int, run: Run) -> tuple[Tensor, Tensor]:
        """Keys and values [rows, kv_heads, tokens, head_dim]."""
        keys, values = self._pool.keys(layer), self._pool.values(layer)
        if run.at is not None:
            return keys[:, run.at][None], values[:, run.at][None]
        d, heads = self._head_dim, self._kv_heads
        size = (run.stop - run.start, heads, run.tokens, d)
        stride = (run.stride * d, keys.stride(0), d, 1)
        first = run.base * d
        return (
            keys.as_strided(size, stride, keys.storage_offset() + first),
            values.as_strided(size, stride, values.storage_offset() + first),
        )

    def _runs(self, segments: Iterable[tuple[int, Segment]]) -> list[Run]:
        """Merges neighbouring rows whose segments are equally long and equally far apart."""
        runs: list[Run] = []
        start, stop, base, stride, tokens = 0, 0, 0, 0, -1  # the run in hand; tokens -1: none
        for row, segment in segments:
            step = segment.base - (base + (row - 1 - start) * stride)
            if (
                segment.at is None
                and segment.tokens == tokens
                and row == stop
                and step >= 0
                and (stop - start == 1 or step == stride)
            ):
                stride, stop = step, row + 1
                continue
            if tokens >= 0:
                runs.append(Run(start, stop, base, stride, tokens))
            start, stop, base, stride, tokens = row, row + 1, segment.base, 0, segment.tokens
            if segment.at is not None:
                runs.append(Run(row, row + 1, -1, 0, segment.tokens, segment.at))
                tokens = -1
        if tokens >= 0:
            runs.append(Run(start, stop, base, stride, tokens))
        return runs

    # -- prefill ---------------------------------------------------------------------------------------------

    def _mask(self, block: PrefillBlock, group: int, dtype: torch.dtype) -> MaskedBlock:
        length = block.start + block.valid
        segment = self._tables.own(block.table, length)
        last = block.start + torch.arange(self._block)
        hidden = torch.arange(length) > last[:, None]
        mask = torch.zeros(self._block, length, dtype=dtype).masked_fill_(hidden, float("-inf"))
        return MaskedBlock(block.row, Run(0, 1, segment.base, 0, length, segment.at), mask.repeat(group, 1))

    def _prefill(self, layer: int, block: MaskedBlock, q: Tensor, out: Tensor) -> None:
        rows = slice(block.row, block.row + self._block)
        shape = (self._block, self._kv_heads, -1, self._head_dim)
        packed = q[rows].view(shape).permute(1, 2, 0, 3).flatten(1, 2)
        o, _ = _flash(packed[None], *self._view(layer, block.keys), attn_mask=block.mask[None, None])
        out[rows] = (
            o[0]
            .view(self._kv_heads, -1, self._block, self._head_dim)
            .permute(2, 0, 1, 3)
            .reshape_as(out[rows])
        )


def join(a: Tensor, a_lse: Tensor, b: Tensor, b_lse: Tensor, out: Tensor) -> None:
    """The attention over two disjoint sets of keys from those over each: a, b, out [..., head_dim] and their
    log-sum-exp [...]. The weight is spread over head_dim first: then each row's lanes are full vectors and its
    rounding does not depend on its place in the tensor."""
    weight = (b_lse - a_lse).unsqueeze(-1).expand(a.shape).contiguous().sigmoid_()
    if a.dtype is torch.float32:
        torch.lerp(a, b, weight, out=out)
    else:
        out.copy_(torch.lerp(a.float(), b.float(), weight))
