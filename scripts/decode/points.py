"""A point of the grid: how many paths decode at which length of context."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

K = 1024
# The peer was measured at 45,056 tokens, and called it 45k: 44 times 1,024.
NAMED = {"45k": 44 * K}


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """batch paths, each behind a prompt of its own of `context` tokens."""

    batch: int
    context: int

    @property
    def name(self) -> str:
        thousands = f"{self.context // K}k" if self.context % K == 0 else str(self.context)
        context = next((name for name, tokens in NAMED.items() if tokens == self.context), thousands)
        return f"{self.batch}x{context}"

    @classmethod
    def parse(cls, text: str) -> Point:
        """`16x10k` or `2x100`; k is 1,024 but in 45k (see NAMED). Raises ArgumentTypeError."""
        batch, _, context = text.partition("x")
        if batch.isdigit() and int(batch) and context in NAMED:
            return cls(int(batch), NAMED[context])
        digits, unit = context.removesuffix("k"), K if context.endswith("k") else 1
        if not (batch.isdigit() and digits.isdigit() and int(batch) and int(digits)):
            raise argparse.ArgumentTypeError(f"expected BATCHxCONTEXT like 16x10k, got {text!r}")
        return cls(int(batch), int(digits) * unit)


def points(*names: str) -> tuple[Point, ...]:
    return tuple(Point.parse(name) for name in names)


GRID = points("1x1k", "16x1k", "64x1k", "1x32k", "16x10k", "16x32k", "8x45k", "32x16k")
# Beside 8x45k: does the host's time grow with the length?
HOST = points("8x1k")
SHORT = points("1x1k", "16x1k", "64x1k")
SMALL = points("16x64")
INVARIANT = points("1x1k", "16x1k", "64x1k", "16x10k")
PREFILL = points("1x32k", "16x10k", "16x32k")
