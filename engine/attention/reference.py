"""The oracle: gathers every table's pages and computes softmax(q k / sqrt(d)) v in float32, one row at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.attention.base import StepShape
from engine.kv.pool import KVPool
from engine.kv.tables import BlockTables


class ReferenceAttention:
    def __init__(self, pool: KVPool, tables: BlockTables) -> None:
        self._pool, self._tables = pool, tables
        self._shape = StepShape(0, (), ())

    def prepare(self, shape: StepShape) -> None:
        self._shape = shape

    def attend(self, layer: int, q: Tensor) -> Tensor:
        out = torch.zeros_like(q)
        for row in self._shape.rows:
            out[row.row] = self._one(layer, q[row.row], row.table, row.length)
        for block in self._shape.blocks:
            for t in range(block.valid):
                out[block.row + t] = self._one(layer, q[block.row + t], block.table, block.start + t + 1)
        return out.flatten(1)

    def _one(self, layer: int, q: Tensor, table: int, length: int) -> Tensor:
        """q [q_heads, head_dim] against the first `length` tokens of the table."""
        size = self._pool.page_size
        pages = torch.tensor(self._tables.pages(table), device=q.device)
        at = (pages[:, None] * size + torch.arange(size, device=q.device)).flatten()[:length]
        k, v = (x[:, at].float() for x in (self._pool.keys(layer), self._pool.values(layer)))
        heads = q.float().view(k.shape[0], -1, q.shape[-1])
        scores = heads @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        out: Tensor = scores.softmax(-1) @ v
        return out.view_as(q).to(q.dtype)
