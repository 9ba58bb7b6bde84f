"""Query and key norm, rotary embedding and the write into the paged cache, in one pass over the qkv product.

One program a token and eight heads. Heads pair dimension j with j + D/2, as checkpoints have it. Norm and rotation are
float32; queries are rounded once, keys and values as they enter the cache.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launch import launch_on, wait_for_previous

_HEADS = 8


@triton.jit(do_not_specialize=["table_width", "page_stride", "kv_stride"])
def _rope_cache(
    qkv,
    q_norm,
    k_norm,
    cos,
    sin,
    tables,
    positions,
    block_table,
    q_out,
    cache,
    table_width,
    page_stride,
    kv_stride,
    eps,
    Q_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    NORM: tl.constexpr,
    HEADS: tl.constexpr,
    PARTS: tl.constexpr,
    PDL: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    half: tl.constexpr = D // 2
    at = tl.arange(0, half)[None, :]
    # Written some kernels ago, behind a matrix product: nothing to wait for.
    position = tl.load(positions + token)
    row = tl.load(tables + token).to(tl.int64)
    page = tl.load(block_table + row * table_width + position // PAGE).to(tl.int64)
    c = tl.load(cos + position.to(tl.int64) * half + at)
    s = tl.load(sin + position.to(tl.int64) * half + at)
    known = (head < Q_HEADS + 2 * KV_HEADS)[:, None]
    is_query = (head < Q_HEADS)[:, None]
    is_value = (head >= Q_HEADS + KV_HEADS)[:, None]
    source = qkv + (token * (Q_HEADS + 2 * KV_HEADS) + head[:, None]) * D + at
    wait_for_previous(PDL)
    x = tl.load(source, mask=known, other=0.0).to(tl.float32)
    y = tl.load(source + half, mask=known, other=0.0).to(tl.float32)
    for part in tl.static_range(1, PARTS):
        summand = source + part * tl.num_programs(0).to(tl.int64) * ((Q_HEADS + 2 * KV_HEADS) * D)
        x += tl.load(summand, mask=known, other=0.0).to(tl.float32)
        y += tl.load(summand + half, mask=known, other=0.0).to(tl.float32)
    a, b = x, y
    if NORM:
        scale = tl.rsqrt((tl.sum(x * x, 1) + tl.sum(y * y, 1)) / D + eps)[:, None]
        a = x * scale * tl.where(is_query, tl.load(q_norm + at), tl.load(k_norm + at)).to(tl.float32)
        b = (
            y
            * scale
            * tl.where(is_query, tl.load(q_norm + half + at), tl.load(k_norm + half + at)).to(tl.float32)
        )
    turned_a, turned_b = a * c - b * s, b * c + a * s
    x = tl.where(is_value, x, turned_a)
    y = tl.where(is_value, y, turned_b)

    query = q_out + (token * Q_HEADS + head[:, None]) * D + at
    tl.store(query, x.to(q_out.dtype.element_ty), mask=is_query)
    tl.store(query + half, y.to(q_out.dtype.element_ty), mask=is_query)
    cached = head - Q_HEADS
    slot = (position % PAGE) * KV_HEADS + cached % KV_HEADS
    target = cache + page * page_stride + ((cached // KV_HEADS) * kv_stride + slot * D)[:, None] + at
    stored = known & (head >= Q_HEADS)[:, None]
    tl.store(target, x.to(cache.dtype.element_ty), mask=stored)
    tl.store(target + half, y.to(cache.dtype.element_ty), mask=stored)


def rope_cache(
    qkv: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    eps: float,
    rotation: tuple[Tensor, Tensor],
    tables: Tensor,
    positions: Tensor,
    block_table: Tensor,
    cache: Tensor,
    q_out: Tensor,
) -> None:
    """Turns queries into q_out [T, Hq, D]; writes keys and values where each token's table says.

    qkv [parts, T, (Hq + 2 Hkv) * D], contiguous: partial sums. norms: weights [D] of query and key norm, None for
    models without. rotation: cos and sin [context, D / 2] float32. tables, positions [T] int32: row of the block table
    and position of each token. block_table [rows, pages] int32. cache [pages, 2, page, Hkv, D]: one layer's view, pages
    apart.
    """
    tokens, q_heads, d = q_out.shape
    _, _, page, kv_heads, _ = cache.shape
    q_norm, k_norm = norms if norms is not None else (q_out, q_out)
    _rope_cache[(tokens, triton.cdiv(q_heads + 2 * kv_heads, _HEADS))](
        qkv,
        q_norm,
        k_norm,
        rotation[0],
        rotation[1],
        tables,
        positions,
        block_table,
        q_out,
        cache,
        block_table.shape[1],
        cache.stride(0),
        cache.stride(1),
        eps,
        Q_HEADS=q_heads,
        KV_HEADS=kv_heads,
        D=d,
        PAGE=page,
        NORM=norms is not None,
        HEADS=_HEADS,
        PARTS=qkv.shape[0],
        num_warps=2,
        **launch_on(qkv.device).options(),
    )
