"""The search space of countdown: states, steps and which states can still win.

A state is the sorted tuple of the numbers left. A step takes two of them and puts back one result,
larger operand first, so every value stays a positive integer; division must be exact.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

State = tuple[int, ...]

LARGEST_VALUE = 9999  # 99 * 99 fits: some problems have no solution without a large product


class Step(NamedTuple):
    """`left operator right = result`, and the state after it."""

    left: int
    operator: str
    right: int
    result: int
    after: State


def results(small: int, large: int) -> list[tuple[str, int]]:
    """Every useful (operator, result) for two numbers, small <= large.

    Left out: zero and negative results, fractions, values above LARGEST_VALUE, and division by one, which
    equals multiplication by one.
    """
    found = [("+", large + small)]
    if large > small:
        found.append(("-", large - small))
    if large * small <= LARGEST_VALUE:
        found.append(("*", large * small))
    if small > 1 and large % small == 0:
        found.append(("/", large // small))
    return found


@lru_cache(maxsize=4096)
def steps(state: State) -> tuple[Step, ...]:
    """Every step out of a state, equal pairs once."""
    found: list[Step] = []
    seen: set[tuple[int, int]] = set()
    for i, small in enumerate(state[:-1]):
        for j in range(i + 1, len(state)):
            large = state[j]
            if (small, large) in seen:
                continue
            seen.add((small, large))
            rest = state[:i] + state[i + 1 : j] + state[j + 1 :]
            for operator, result in results(small, large):
                after = tuple(sorted((*rest, result)))
                found.append(Step(large, operator, small, result, after))
    return tuple(found)


def distance(pair: State, target: int) -> int:
    """How far the closest last value of a two-number state is from the target (1 or more)."""
    small, large = pair
    closest = min(abs(large + small - target), abs(large - small - target))
    if large * small <= LARGEST_VALUE:
        closest = min(closest, abs(large * small - target))
    if small > 1 and large % small == 0:
        closest = min(closest, abs(large // small - target))
    return closest


def can_win(state: State, target: int, memo: dict[State, bool]) -> bool:
    """True if all numbers of the state can be combined to the target. `memo` belongs to one target."""
    known = memo.get(state)
    if known is None:
        if len(state) == 1:
            known = state[0] == target
        elif len(state) == 2:
            known = distance(state, target) == 0
        else:
            known = any(can_win(step.after, target, memo) for step in steps(state))
        memo[state] = known
    return known


def winning_steps(state: State, target: int) -> int:
    """Number of winning last steps over the whole search tree: how easy a problem is."""
    if len(state) == 2:
        return sum(result == target for _, result in results(*state))
    return sum(winning_steps(step.after, target) for step in steps(state))
