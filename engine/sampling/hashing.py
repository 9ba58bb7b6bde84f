"""Counter-based random words: each is a pure function of (seed, path index, position, token id).

No generator state exists, so a path's noise cannot depend on its row, its batch, its bucket or on what ran
before, and a paused path continues with the words it would have had.

Words are 32 bits wide and held in int32, where a multiplication wraps modulo 2^32 on every device; a logical
right shift is an arithmetic shift followed by a mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

# lowbias32: the bijective 32-bit finaliser of least bias that C. Wellons' hash-prospector found with three
# shifts and two multiplications (https://nullprogram.com/blog/2018/07/31/). Same shape as murmur3's fmix32.
_MULTIPLY_1 = 0x7FEB352D
_MULTIPLY_2 = 0x846CA68B

# 2^32 and 2^64 over the golden ratio, made odd: the increments of Weyl sequences (Steele, Lea and Flood,
# "Fast splittable pseudorandom number generators", OOPSLA 2014, which also gives the finaliser of `_mix64`).
_WEYL_32 = 0x9E3779B9
_WEYL_64 = 0x9E3779B97F4A7C15
_MASK_64 = (1 << 64) - 1


def _signed32(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _mix64(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return word ^ (word >> 31)


def path_key(seed: int, index: int) -> tuple[int, int]:
    """Two signed 32-bit words that name one path, from its group's seed and its index."""
    mixed = _mix64(_mix64((seed + _WEYL_64) & _MASK_64) ^ (((index + 1) * _WEYL_64) & _MASK_64))
    return _signed32(mixed & 0xFFFFFFFF), _signed32(mixed >> 32)


class WordHash:
    """The constants of the hash on one device, and the words of every token id.

    Constants are 0-dim tensors because an operation with a Python number costs the CPU twice as much as one
    with a tensor, and the sampler's tensors are small enough for that to be what counts.
    """

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        def word(value: int) -> Tensor:
            return torch.tensor(_signed32(value), dtype=torch.int32, device=device)

        self._weyl = word(_WEYL_32)
        self._one = word(1)
        self._multiply_1, self._multiply_2 = word(_MULTIPLY_1), word(_MULTIPLY_2)
        self._shift_15, self._mask_15 = word(15), word(0xFFFFFFFF >> 15)
        self._shift_16, self._mask_16 = word(16), word(0xFFFFFFFF >> 16)
        ids = torch.arange(vocab_size, dtype=torch.int32, device=device)
        self.tokens = self._finalise(ids.mul_(self._weyl).add_(self._weyl))
        """[vocab] int32: the part of the hash that depends on the token id alone."""

    def rows(self, keys: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The words of each row at its position. keys: [2, rows] int32; positions: [rows] int32.

        Returns (whiten, multiply), both [rows, 1] int32, multiply odd.
        """
        words = self._finalise(torch.addcmul(keys, positions, self._weyl))
        whiten, multiply = words.unsqueeze(2).unbind(0)
        return whiten, multiply | self._one

    def cells(self, tokens: Tensor, whiten: Tensor, multiply: Tensor) -> Tensor:
        """[rows, n] int32, uniform: one word for each row and each of n token words.

        lowbias32 without its first shift, which `tokens` has had, and with a multiplier that belongs to the
        row: 63 bits of the row's words reach every cell for the price of 32.
        """
        words = torch.bitwise_xor(tokens, whiten).mul_(multiply)
        shifted = torch.empty_like(words)
        self._shift_xor(words, shifted, self._shift_15, self._mask_15)
        words.mul_(self._multiply_2)
        return self._shift_xor(words, shifted, self._shift_16, self._mask_16)

    def _finalise(self, words: Tensor) -> Tensor:
        """lowbias32, in place."""
        shifted = torch.empty_like(words)
        self._shift_xor(words, shifted, self._shift_16, self._mask_16).mul_(self._multiply_1)
        self._shift_xor(words, shifted, self._shift_15, self._mask_15).mul_(self._multiply_2)
        return self._shift_xor(words, shifted, self._shift_16, self._mask_16)

    @staticmethod
    def _shift_xor(words: Tensor, shifted: Tensor, shift: Tensor, mask: Tensor) -> Tensor:
        torch.bitwise_right_shift(words, shift, out=shifted)
        return words.bitwise_xor_(shifted.bitwise_and_(mask))
