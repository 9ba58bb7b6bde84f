"""What a task set is: a named, seeded source of problems and the verifier that grades them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from reasoner.problem import Message, Problem


class TaskSet(Protocol):
    """A seeded source of problems that no training document may contain.

    The same (count, seed) gives the same problems on every machine and in every process, and a larger
    count with the same seed begins with the same problems.
    """

    @property
    def name(self) -> str:
        """The name under which the registry knows the set."""
        ...

    @property
    def verifier(self) -> str:
        """Name of the verifier that grades an answer: "countdown" or "math"."""
        ...

    @property
    def size(self) -> int | None:
        """Number of problems of a fixed set; None where they are generated without end."""
        ...

    def problems(self, count: int | None = None, *, seed: int = 0) -> Iterator[Problem]:
        """`count` problems; all of a fixed set, and no end of generated ones, when count is None.

        In a fixed set, seed 0 is its own order and any other seed a shuffle of it. Raises InvalidRequest
        for a negative count or one above the size of a fixed set.
        """
        ...


def countdown_problem(text: str, numbers: list[int], target: int, use_all: bool, id: str) -> Problem:
    """A countdown problem as verifiers and policies expect it; it has no single gold answer."""
    data = {"numbers": numbers, "target": target, "use_all": use_all}
    return Problem((Message("user", text),), data=data, id=id)
