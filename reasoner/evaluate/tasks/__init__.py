"""Task sets by name. `get("countdown4").problems(8, seed=0)` yields eight held-out problems.

A new set is one file that satisfies `base.TaskSet` and one line in `_builtin`.
"""

from __future__ import annotations

from reasoner.errors import UnknownName
from reasoner.evaluate.tasks.base import TaskSet
from reasoner.evaluate.tasks.bundled import BundledCountdown
from reasoner.evaluate.tasks.countdown import CountdownTasks
from reasoner.evaluate.tasks.integer_math import IntegerMathTasks

__all__ = ["TaskSet", "get", "names"]


def _builtin() -> dict[str, TaskSet]:
    sets: tuple[TaskSet, ...] = (
        CountdownTasks("countdown3", 3),
        CountdownTasks("countdown4", 4),
        CountdownTasks("countdown5", 5),
        BundledCountdown(),
        IntegerMathTasks(),
    )
    return {tasks.name: tasks for tasks in sets}


def names() -> tuple[str, ...]:
    """The known task sets, sorted."""
    return tuple(sorted(_builtin()))


def get(name: str) -> TaskSet:
    """The task set called `name`. Raises UnknownName with the known ones."""
    known = _builtin()
    if name not in known:
        raise UnknownName("task", name, known)
    return known[name]
