"""The noise of `engine.sampling.gumbel` and the words of `engine.sampling.hashing`, inside a kernel.

The words are equal bit for bit. So is v, which each word becomes; only the logarithms may differ, in the last place.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.sampling.device import columns as c

_WEYL = tl.constexpr(0x9E3779B9)
_MULTIPLY_1 = tl.constexpr(0x7FEB352D)
_MULTIPLY_2 = tl.constexpr(0x846CA68B)
_SCALE = tl.constexpr(2.0**-32)
_HALF = tl.constexpr(2.0**-33)
_MOST = tl.constexpr(1 - 2.0**-24)


@triton.jit
def row_words(path):
    """(whiten, multiply), uint32 scalars: the words of a path at its next token. path: its row of the state."""
    step = tl.load(path + c.GENERATED).to(tl.uint32, bitcast=True) * _WEYL
    whiten = _finalise(tl.load(path + c.KEY_0).to(tl.uint32, bitcast=True) + step)
    multiply = _finalise(tl.load(path + c.KEY_1).to(tl.uint32, bitcast=True) + step)
    return whiten, multiply | 1


@triton.jit
def token_words(ids, whiten, multiply):
    """uint32, one word for each token id (int32). The part that no row changes is computed again: that is cheaper
    than to read it."""
    words = ids.to(tl.uint32, bitcast=True) * _WEYL + _WEYL
    words = (_finalise(words) ^ whiten) * multiply
    words ^= words >> 15
    words *= _MULTIPLY_2
    return words ^ (words >> 16)


@triton.jit
def log_exponential(words):
    """log(-log1p(-v)) of uint32 words, float32, finite.

    1 - v loses the low bits of a small v, and a small v is what wins. What it loses is known exactly, and
    log(u + lost) = log(u) + lost to within a rounding where v is small; where v >= 1/2 nothing is lost.
    """
    v = tl.minimum(words.to(tl.float32) * _SCALE + _HALF, _MOST)
    u = 1.0 - v
    lost = (1.0 - u) - v
    return log(-(log(u) + lost))


@triton.jit
def log(x):
    """Natural logarithm of positive normal float32 to within two places of the last digit.

    Two of them a token are most of what a pass computes; this takes half the instructions of the library's, which
    has all other numbers to serve. x = 2^n * (1 + f) with f in [-1/3, 1/3); log(1 + f) = f + f^2 * p(f), p a minimax
    polynomial of degree 8, its relative error 2e-8.
    """
    bits = x.to(tl.int32, bitcast=True)
    power = (bits - 0x3F2AAAAB) & -0x800000  # n, where a float32 has its exponent
    f = (bits - power).to(tl.float32, bitcast=True) - 1.0
    p = -0.1331159770488739
    p = p * f + 0.14006227254867554
    p = p * f - 0.12078184634447098
    p = p * f + 0.14000825583934784
    p = p * f - 0.16689500212669373
    p = p * f + 0.20010770857334137
    p = p * f - 0.24999506771564484
    p = p * f + 0.3333320915699005
    p = p * f - 0.5
    return power.to(tl.float32) * (0.6931471805599453 * 2.0**-23) + (f * f * p + f)


@triton.jit
def _finalise(words):
    words ^= words >> 16
    words *= _MULTIPLY_1
    words ^= words >> 15
    words *= _MULTIPLY_2
    return words ^ (words >> 16)
