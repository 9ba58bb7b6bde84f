"""The k-th highest of a row's scores, exactly, without a sort.

Scores compare as their floats do: as integers of the same order, whose middle halves any interval. The maxima of the
groups come first: k groups reach the k-th highest maximum, so the k best scores lie in the groups that do, which are
few. Among those the search is by bisection between scores that occur; mostly the bound is already the answer.
"""

from __future__ import annotations

import triton
import triton.language as tl

_LEAST = tl.constexpr(-(2**31))
_MOST = tl.constexpr(2**31 - 1)
_CHUNK = tl.constexpr(32)  # groups that are looked at together


@triton.jit
def order_key(values):
    """int32 in the order of the float32 values; both zeros are one. Its own inverse but for the type."""
    bits = (values + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & _MOST)


@triton.jit
def key_value(key):
    """The float32 of an order key."""
    return (key ^ ((key >> 31) & _MOST)).to(tl.float32, bitcast=True)


@triton.jit
def kth_score(source, maxima, chosen, k, vocab, groups, MEMBERS: tl.constexpr, GROUPS_BLOCK: tl.constexpr):
    """(order key of the k-th highest of a row's scores, how many groups hold scores that reach it).

    source: [vocab] of any float type; maxima: [groups] float32 of MEMBERS neighbours each; chosen: int32 [groups],
    written: the groups that hold the k best. Where there are less than k scores, the lowest of all.
    """
    reach, low, high = _choose(maxima, chosen, k, groups, GROUPS_BLOCK)
    count, up, down = _census(source, chosen, reach, low + 1, vocab, MEMBERS)
    if count < k:
        high = low
    while low < high:
        middle = (low | high) - ((low ^ high) >> 1)  # their mean, rounded up, without an overflow
        count, up, down = _census(source, chosen, reach, middle, vocab, MEMBERS)
        low = tl.where(count >= k, up, low)
        high = tl.where(count >= k, tl.where(count == k, up, high), down)
    return low, reach


@triton.jit
def sum_above(source, chosen, reach, key, vocab, MEMBERS: tl.constexpr):
    """(how many scores of the chosen groups are above a key, their sum)."""
    count = reach * 0
    total = tl.full((), 0.0, tl.float32)
    done = count
    while done < reach:
        values, keys = _members(source, chosen, done, reach, vocab, MEMBERS)
        count += tl.sum((keys > key).to(tl.int32))
        total += tl.sum(tl.where(keys > key, values, 0.0))
        done += _CHUNK
    return count, total


@triton.jit
def _choose(maxima, chosen, k, groups, GROUPS_BLOCK: tl.constexpr):
    """(groups that reach the k-th highest maximum, that maximum, the highest)."""
    at = tl.arange(0, GROUPS_BLOCK)
    here = at < groups
    keys = order_key(tl.load(maxima + at, mask=here, other=-float("inf")))
    low = tl.min(keys, 0)
    high = tl.max(keys, 0)
    top = high
    if k > groups:
        high = low
    while low < high:
        middle = (low | high) - ((low ^ high) >> 1)
        reached = keys >= middle
        count = tl.sum(reached.to(tl.int32), 0)
        up = tl.min(tl.where(reached, keys, _MOST), 0)
        down = tl.max(tl.where(reached, _LEAST, keys), 0)
        low = tl.where(count >= k, up, low)
        high = tl.where(count >= k, tl.where(count == k, up, high), down)
    if k > groups:
        low = order_key(tl.full((), -float("inf"), tl.float32))
    reaches = here & (keys >= low)
    place = tl.cumsum(reaches.to(tl.int32), 0) - 1
    tl.store(chosen + place, at, mask=reaches)
    tl.debug_barrier()  # other threads of this program read them
    return tl.sum(reaches.to(tl.int32), 0), low, top


@triton.jit
def _members(source, chosen, done, reach, vocab, MEMBERS: tl.constexpr):
    """Values and order keys of a chunk of chosen groups, [_CHUNK, MEMBERS]; -inf and the lowest key where none is."""
    place = done + tl.arange(0, _CHUNK)
    group = tl.load(chosen + place, mask=place < reach, other=0)
    ids = group[:, None] * MEMBERS + tl.arange(0, MEMBERS)[None, :]
    here = (place < reach)[:, None] & (ids < vocab)
    values = tl.load(source + ids, mask=here, other=-float("inf")).to(tl.float32)
    return values, tl.where(here, order_key(values), _LEAST)


@triton.jit
def _census(source, chosen, reach, key, vocab, MEMBERS: tl.constexpr):
    """(how many scores of the chosen groups reach a key, the lowest that does, the highest that does not)."""
    count = reach * 0
    up = count + _MOST
    down = count + _LEAST
    done = count
    while done < reach:
        _, keys = _members(source, chosen, done, reach, vocab, MEMBERS)
        reached = keys >= key
        count += tl.sum(reached.to(tl.int32))
        up = tl.minimum(up, tl.min(tl.where(reached, keys, _MOST)))
        down = tl.maximum(down, tl.max(tl.where(reached, _LEAST, keys)))
        done += _CHUNK
    return count, up, down
