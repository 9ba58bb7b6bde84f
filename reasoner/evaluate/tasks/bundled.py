"""The fixed set of 128 four-number countdown problems on which engines are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from reasoner.errors import InvalidRequest
from reasoner.evaluate.tasks.base import countdown_problem
from reasoner.evaluate.tasks.heldout import bundled_countdown
from reasoner.problem import Problem


@dataclass(frozen=True, slots=True)
class BundledCountdown:
    """Numbers 1-99 without repeats, targets 10-99, all solvable, none left out for being hard."""

    name: str = "countdown4_128"
    verifier: str = "countdown"
    size: int | None = 128

    def problems(self, count: int | None = None, *, seed: int = 0) -> Iterator[Problem]:
        records = list(enumerate(bundled_countdown()))
        if count is not None and not 0 <= count <= len(records):
            raise InvalidRequest(f"{self.name} has {len(records)} problems, {count} were asked for")
        if seed:
            Random(f"{self.name}/{seed}").shuffle(records)
        return (
            countdown_problem(r["prompt"], list(r["numbers"]), r["target"], False, f"{self.name}/{index}")
            for index, r in records[:count]
        )
