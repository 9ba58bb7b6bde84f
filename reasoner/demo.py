"""What one recorded run of N paths that all end says about every smaller number of paths.

Paths of a problem are independent samples, so any n of the N recorded ones are as good a run as any other.
Both figures below are exact averages over all such subsets: no resampling, no noise of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb


@dataclass(frozen=True, slots=True)
class RecordedPath:
    """One path that ended by itself or at its budget. tokens: all generated. solved: its verdict passed."""

    tokens: int
    solved: bool


Recording = Sequence[RecordedPath]


@dataclass(frozen=True, slots=True)
class Estimate:
    """n paths: share of problems solved, tokens per problem with and without stopping at a first pass."""

    n: int
    pass_rate: float
    tokens_first_verified: float
    tokens_all_end: float

    @property
    def saved(self) -> float:
        """Share of the tokens that stopping at the first verified answer leaves unspent."""
        return 1 - self.tokens_first_verified / self.tokens_all_end if self.tokens_all_end else 0.0


def pass_at(n: int, total: int, solved: int) -> float:
    """Probability that n of `total` paths, drawn without repeats, hold one of the `solved` ones.

    The unbiased estimator of pass@n of Chen et al. 2021, arXiv:2107.03374, equation 1.
    """
    _check(n, total)
    return 1.0 - comb(total - solved, n) / comb(total, n)


def tokens_first_verified(n: int, paths: Recording) -> float:
    """Mean tokens that n of these paths spend when all stop as soon as the first of them is solved.

    Paths decode in step, one token each a step, so a path's tokens are its finish time. Token t+1 of a path
    is spent when the path is among the n, still runs after t steps, and no solved path that has ended by t is
    among the n. With c(t) solved paths ended by t, that holds for C(N-1-c(t), n-1) of the C(N, n) subsets.
    Between two finish times nothing changes, so each such interval is one term.
    """
    _check(n, len(paths))
    times = sorted({0, *(path.tokens for path in paths)})
    spent = 0
    for begin, end in pairwise(times):
        running = sum(path.tokens > begin for path in paths)
        solved = sum(path.solved and path.tokens <= begin for path in paths)
        spent += (end - begin) * running * comb(len(paths) - 1 - solved, n - 1)
    return spent / comb(len(paths), n)


def tokens_all_end(n: int, paths: Recording) -> float:
    """Mean tokens of n of these paths when every path runs to its end."""
    _check(n, len(paths))
    return n * sum(path.tokens for path in paths) / len(paths)


def estimate(n: int, recordings: Sequence[Recording]) -> Estimate:
    """Averages over problems, each weighing the same."""
    return Estimate(
        n,
        _mean(pass_at(n, len(paths), sum(path.solved for path in paths)) for paths in recordings),
        _mean(tokens_first_verified(n, paths) for paths in recordings),
        _mean(tokens_all_end(n, paths) for paths in recordings),
    )


def scaling(
    recordings: Sequence[Recording], counts: Iterable[int] = (1, 2, 4, 8, 16)
) -> tuple[Estimate, ...]:
    """One estimate for each number of paths that the shortest recording can speak about."""
    most = min(len(paths) for paths in recordings)
    return tuple(estimate(n, recordings) for n in counts if n <= most)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _check(n: int, total: int) -> None:
    if not 1 <= n <= total:
        raise ValueError(f"n must lie in [1, {total}], got {n}")
