"""Replays the thinking of a countdown problem and checks every line of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.embedded.arithmetic import evaluate
from scripts.embedded.search_traces import written

_STEP = re.compile(r"(\d+)([+\-*/])(\d+)=(\d+) (?:-> (\d+(?: \d+)*)|(yes|no))")
_BACK = re.compile(r"back (\d+(?: \d+)*)")


@dataclass(frozen=True, slots=True)
class Replay:
    """operations: lines with arithmetic. errors: wrong things by kind (head, arithmetic, operands, state,
    verdict, back, syntax, recap). solved: a hit, and a recap whose last line proves it."""

    operations: int
    errors: Counter[str]
    solved: bool

    @property
    def clean(self) -> bool:
        return not self.errors


def replay(numbers: Sequence[int], target: int, thinking: str) -> Replay:
    """thinking: the text between the think tags. A last line that was cut is not counted as an error."""
    whole = thinking.endswith("\n")
    lines = thinking.strip("\n").split("\n")
    errors: Counter[str] = Counter()
    root = sorted(numbers)
    if lines[0] != f"{written(root)} to {target}":
        errors["head"] += 1
    state, reached = list(root), {tuple(root)}
    operations = 0
    for index, line in enumerate(lines[1:], start=1):
        if not whole and index == len(lines) - 1:
            break
        if back := _BACK.fullmatch(line):
            state = _numbers(back[1])
            errors["back"] += tuple(state) not in reached
        elif step := _STEP.fullmatch(line):
            operations += 1
            hit = step[6] == "yes"
            state = _check_step(step, state, target, errors)
            reached.add(tuple(state))
            if hit:
                solved = _check_recap(lines[index + 1 :], root, target, errors)
                return Replay(operations, +errors, solved)
        else:
            errors["syntax"] += 1
    return Replay(operations, +errors, False)


def _check_step(step: re.Match[str], state: list[int], target: int, errors: Counter[str]) -> list[int]:
    """Counts what is wrong with a step; returns the state after it, as the line claims it."""
    left, right, result = int(step[1]), int(step[3]), int(step[4])
    made = evaluate(f"{left}{step[2]}{right}")
    errors["arithmetic"] += made is None or made[0] != result
    rest = list(state)
    try:
        rest.remove(left)
        rest.remove(right)
    except ValueError:
        errors["operands"] += 1
    if step[5] is None:
        errors["operands"] += len(state) != 2
        errors["verdict"] += (step[6] == "yes") != (result == target)
        return state
    after = _numbers(step[5])
    errors["state"] += sorted([*rest, result]) != after
    return after


def _check_recap(lines: Sequence[str], root: list[int], target: int, errors: Counter[str]) -> bool:
    """True if each line of the recap holds and the last uses every number once and hits the target."""
    used: list[int] = []
    last = None
    for line in lines:
        expression, _, value = line.rpartition("=")
        made = evaluate(expression)
        if made is None or not value.isdigit() or made[0] != int(value):
            errors["recap"] += 1
            return False
        last, used = made
    proven = len(lines) == len(root) - 1 and last == target and sorted(used) == root
    errors["recap"] += not proven
    return proven


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split()]
