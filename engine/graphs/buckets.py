"""Sizes of captured decode steps. A step of n rows runs in the smallest bucket that holds them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from engine.config import INVARIANT_ROWS

# A padded row costs next to nothing below this size, where the weights' bytes are all that counts.
_FINE = 64


def default_buckets(max_paths: int) -> tuple[int, ...]:
    """What admission can run: 1, 2, 4, 8, then steps of 8 up to 64 rows, of 16 up to 256, then half as many again."""
    sizes = [size for size in (1, 2, 4, 8) if size < max_paths]
    size = 16
    while size < max_paths:
        sizes.append(size)
        if size < _FINE:
            size += 8
        elif size < 256:
            size += 16
        else:
            size = -(-size * 3 // 2 // 64) * 64
    return (*sizes, max_paths)


def invariant_buckets(sizes: Sequence[int]) -> tuple[int, ...]:
    """Whole blocks of the fixed product size, so that every product has the same number of rows."""
    return tuple(sorted({_whole(size) for size in sizes}))


def uncaptured(rows: int, block: int) -> int:
    """The size of a step that is too large for every bucket: whole blocks, because each size has buffers of its own."""
    return -(-rows // block) * block


def _whole(size: int) -> int:
    return -(-size // INVARIANT_ROWS) * INVARIANT_ROWS


def bucket_for(rows: int, sizes: Sequence[int]) -> int | None:
    """The smallest bucket of `sizes`, ascending, that holds the rows; None where none does."""
    at = bisect_left(sizes, rows)
    return sizes[at] if at < len(sizes) else None
