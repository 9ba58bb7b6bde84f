"""A randomised depth-first search over a countdown problem, written line by line as thinking.

13 15 21 to 23            the numbers and the target
21*13=273 -> 15 273       a step and the numbers left
273+15=288 no             a last step that misses
back 13 15 21             continue from an earlier state
15+8=23 yes               a hit, then the solution is put together
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from reasoner.evaluate.tasks.countdown import Countdown
from reasoner.evaluate.tasks.countdown_search import State, Step, can_win, distance, results, steps

LARGEST_LAST = 999  # of two numbers left, a product beyond every target is not worth a line


@dataclass(frozen=True, slots=True)
class SearchStyle:
    """How good the demonstrated search is.

    leaf_bonus, inner_bonus: weight of a step that can still win, over one that cannot, with two and with
    more numbers left; what of this foresight can be computed from the text is what a model can learn.
    give_up: chance to leave an inner state after each failed step, from the second on. bulky, huge: weight
    of steps with results above 200 and 999.
    """

    leaf_bonus: float = 20.0
    inner_bonus: float = 6.0
    give_up: float = 0.15
    bulky: float = 0.5
    huge: float = 0.12


@dataclass(slots=True)
class Search:
    """One search. `lines` yields the thinking; `solution` holds the winning steps from the line that hits
    on, and `closest` at any time the steps of the best attempt so far."""

    rng: Random
    problem: Countdown
    style: SearchStyle = field(default_factory=SearchStyle)
    solution: list[Step] | None = None
    closest: list[Step] | None = None
    _closest_distance: int = 1 << 30
    _path: list[Step] = field(default_factory=list)
    _memo: dict[State, bool] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Every line with its newline, the recap included. Endless for an unsolvable problem."""
        root = self.problem.state
        yield f"{written(root)} to {self.problem.target}\n"
        while not (yield from self._visit(root, is_root=True)):
            yield f"back {written(root)}\n"
        assert self.solution is not None
        yield from (f"{expression}={value}\n" for expression, value in compose(self.solution))

    def _visit(self, state: State, is_root: bool) -> Generator[str, None, bool]:
        if len(state) == 2:
            return (yield from self._finish(state))
        for tried, step in enumerate(self._order(state)):
            if tried:
                if not is_root and tried >= 2 and self.rng.random() < self.style.give_up:
                    return False
                yield f"back {written(state)}\n"
            self._path.append(step)
            yield f"{step.left}{step.operator}{step.right}={step.result} -> {written(step.after)}\n"
            if (yield from self._visit(step.after, is_root=False)):
                return True
            self._path.pop()
        return False

    def _finish(self, pair: State) -> Generator[str, None, bool]:
        small, large = pair
        last = [made for made in results(small, large) if made[1] <= LARGEST_LAST]
        self.rng.shuffle(last)
        for operator, result in last:
            step = Step(large, operator, small, result, (result,))
            missed_by = abs(result - self.problem.target)
            if missed_by < self._closest_distance:
                self._closest_distance, self.closest = missed_by, [*self._path, step]
            if missed_by == 0:
                self.solution = [*self._path, step]
            yield f"{large}{operator}{small}={result} {'no' if missed_by else 'yes'}\n"
            if missed_by == 0:
                return True
        return False

    def _order(self, state: State) -> list[Step]:
        """Steps drawn by weight without replacement: exponential clocks, earliest first."""
        clocks = [(-math.log(1.0 - self.rng.random()) / self._weight(step), step) for step in steps(state)]
        return [step for _, step in sorted(clocks)]

    def _weight(self, step: Step) -> float:
        style, target = self.style, self.problem.target
        if len(step.after) == 2:
            missed_by = distance(step.after, target)
            weight = 1.0 / (1.0 + missed_by / 25.0) + (0.25 if missed_by else style.leaf_bonus)
        else:
            weight = style.inner_bonus if can_win(step.after, target, self._memo) else 1.0
        if step.result > 999:
            return weight * style.huge
        return weight * style.bulky if step.result > 200 and len(step.after) > 2 else weight


def written(state: Sequence[int]) -> str:
    """The numbers of a state, as a line of thinking has them."""
    return " ".join(map(str, state))


def compose(path: Sequence[Step]) -> list[tuple[str, int]]:
    """(expression, value) after each step, built from the given numbers; the last is the answer."""
    made: defaultdict[int, list[str]] = defaultdict(list)
    found = []
    for step in path:
        left, right = (_operand(made, number) for number in (step.left, step.right))
        expression = f"{left}{step.operator}{right}"
        made[step.result].append(f"({expression})")
        found.append((expression, step.result))
    return found


def _operand(made: dict[int, list[str]], number: int) -> str:
    return made[number].pop() if made[number] else str(number)


def sum_of_all(problem: Countdown) -> list[Step]:
    """The guess of someone who tried nothing: add everything."""
    state, path = problem.state, []
    while len(state) > 1:
        small, large, *rest = state
        after = tuple(sorted((*rest, small + large)))
        path.append(Step(large, "+", small, small + large, after))
        state = after
    return path
