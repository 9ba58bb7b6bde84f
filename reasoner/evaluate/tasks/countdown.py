"""Countdown: combine the given numbers with + - * / to hit a target. Seeded, solvable, any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as counter
from random import Random

from reasoner.errors import InvalidRequest
from reasoner.evaluate.tasks import phrasings
from reasoner.evaluate.tasks.base import countdown_problem
from reasoner.evaluate.tasks.countdown_search import State, can_win, steps
from reasoner.evaluate.tasks.heldout import is_held_out_countdown
from reasoner.problem import Problem

LARGEST_NUMBER = 99
TARGETS = (10, 99)


@dataclass(frozen=True, slots=True)
class Countdown:
    """numbers: as shown to the user, repeats allowed. target: reachable with every number used once."""

    numbers: tuple[int, ...]
    target: int

    @property
    def state(self) -> State:
        return tuple(sorted(self.numbers))


def generate(
    rng: Random, size: int, *, held_out: bool, easy: float = 0.0, targets: tuple[int, int] = TARGETS
) -> Countdown:
    """A random solvable problem of `size` >= 2 numbers between 1 and LARGEST_NUMBER.

    The target is uniform among the reachable ones, so most problems have few solutions; with probability
    `easy` it is the value of a random expression instead, which favours targets with many. held_out picks
    the side of the split.
    """
    while True:
        numbers = tuple(rng.randint(1, LARGEST_NUMBER) for _ in range(size))
        if is_held_out_countdown(numbers) != held_out:
            continue
        state = tuple(sorted(numbers))
        from_expression = rng.random() < easy
        target = _random_value(rng, state) if from_expression else rng.randint(*targets)
        if target in numbers or not targets[0] <= target <= targets[1]:
            continue
        if from_expression or can_win(state, target, {}):
            return Countdown(numbers, target)


def _random_value(rng: Random, state: State) -> int:
    while len(state) > 1:
        state = rng.choice(steps(state)).after
    return state[0]


@dataclass(frozen=True, slots=True)
class CountdownTasks:
    """Held-out problems of `numbers` numbers, phrased as users do; graded by the verifier "countdown"."""

    name: str
    numbers: int
    verifier: str = "countdown"
    size: int | None = None

    def problems(self, count: int | None = None, *, seed: int = 0) -> Iterator[Problem]:
        if count is not None and count < 0:
            raise InvalidRequest(f"count must be 0 or more, not {count}")
        return self._generate(count, seed)

    def _generate(self, count: int | None, seed: int) -> Iterator[Problem]:
        rng = Random(f"{self.name}/{seed}")
        for index in counter() if count is None else range(count):
            puzzle = generate(rng, self.numbers, held_out=True)
            phrasing = phrasings.choose(rng)
            text = phrasings.phrase(phrasing, puzzle.numbers, puzzle.target)
            id = f"{self.name}/{seed}/{index}"
            yield countdown_problem(text, list(puzzle.numbers), puzzle.target, phrasing.use_all, id)
