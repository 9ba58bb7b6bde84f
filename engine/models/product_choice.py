"""Products chosen by measurement: for each shape of matrix and number of rows the library's or the streaming kernel.

Both are timed as they stand in a step: behind a norm whose result they read, over the weights of different layers, so
that no cache holds what the next run needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.graphs.timing import TimedGraph
from engine.kernels.norm import add_norm
from engine.kernels.stream_linear import MAX_ROWS, TILE_ROWS, StreamShape, stream_linear
from engine.models.products import Multiply, Product, head, linear

_BYTES = 256 << 20  # of weights that one measurement reads: several times what a cache holds


@dataclass(frozen=True, slots=True)
class Matrix:
    """A kind of matrix. parts: whether its sum may be left in parts."""

    out: int
    inputs: int
    parts: bool

    def cuts(self, rows: int) -> list[StreamShape]:
        """What the streaming kernel could do for it; nothing beyond its rows or for what it cannot divide."""
        cut = StreamShape.of(self.out, self.inputs)
        if cut is None or rows > MAX_ROWS or (cut.parts > 1 and not self.parts):
            return []
        return [cut] if rows <= TILE_ROWS else [cut, replace(cut, warps=2 * cut.warps)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a matrix uses at a number of rows (cut None: the library's), and the microseconds of each candidate."""

    matrix: Matrix
    rows: int
    cut: StreamShape | None
    library: float
    streamed: float

    def line(self) -> str:
        name = "library" if self.cut is None else f"streamed in {self.cut.parts}, {self.cut.warps} warps"
        shape = f"{self.matrix.out}x{self.matrix.inputs}"
        return (
            f"{self.rows} rows, {shape}: {name} (library {self.library:.1f} us, streamed {self.streamed:.1f})"
        )


class MeasuredProducts:
    """Until `choose` has run, every product is the library's."""

    def __init__(self) -> None:
        self._weights: dict[Matrix, list[Tensor]] = {}
        self._cuts: dict[tuple[Matrix, int], StreamShape] = {}
        self.verdicts: list[Verdict] = []

    def linear(self, weight: Tensor, bias: Tensor | None, *, parts: bool) -> Product:
        whole, matrix = linear(weight, bias), Matrix(weight.shape[0], weight.shape[1], parts)
        if bias is not None:
            return lambda x: whole(x)[None]
        self._weights.setdefault(matrix, []).append(weight)

        def product(x: Tensor) -> Tensor:
            cut = self._cuts.get((matrix, x.shape[0]))
            return whole(x)[None] if cut is None else stream_linear(x, weight, cut)

        return product

    def head(self, weight: Tensor) -> Multiply:
        return head(weight)

    def choose(self, sizes: Sequence[int]) -> None:
        """For every number of rows that steps are captured for. On the current stream."""
        for matrix, weights in self._weights.items():
            for rows in sizes:
                if cuts := matrix.cuts(rows):
                    self._choose(matrix, rows, weights[: -(-_BYTES // weights[0].nbytes)], cuts)

    def lines(self) -> Iterator[str]:
        return (verdict.line() for verdict in self.verdicts)

    def _choose(
        self, matrix: Matrix, rows: int, weights: Sequence[Tensor], cuts: Sequence[StreamShape]
    ) -> None:
        library = _behind_a_norm(rows, weights, None)
        timed = [(_behind_a_norm(rows, weights, cut), cut) for cut in cuts]
        streamed, cut = min(timed, key=lambda pair: pair[0])
        better = streamed < library
        if better:
            self._cuts[matrix, rows] = cut
        self.verdicts.append(Verdict(matrix, rows, cut if better else None, library, streamed))


def _behind_a_norm(rows: int, weights: Sequence[Tensor], cut: StreamShape | None) -> float:
    """Microseconds of a norm and the product of its result."""
    inputs, device = weights[0].shape[1], weights[0].device
    residual = torch.randn(rows, inputs, device=device)
    y = torch.randn(1, rows, inputs, device=device).to(weights[0].dtype)
    scale, x = torch.ones(inputs, dtype=y.dtype, device=device), torch.empty_like(y[0])

    def run(i: int) -> Tensor:
        weight = weights[i % len(weights)]
        add_norm(residual, y, scale, 1e-6, x)
        return linear(weight, None)(x) if cut is None else stream_linear(x, weight, cut)

    return TimedGraph(run, 2 * len(weights)).microseconds()
