"""Token budgets of a problem and of its paths: defaults, what can hold an answer, and when to close.

One unit everywhere: generated tokens, thinking and answer together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from reasoner.errors import InvalidRequest

DEFAULT_PATH = 32_768              # what reasoning models are usually evaluated with
RESERVE_SHARE = 8                  # an eighth of a path's tokens is kept for its answer,
RESERVE_MIN, RESERVE_MAX = 32, 1024  # but never less than a boxed line or more than a long write-up


@dataclass(frozen=True, slots=True)
class Budget:
    """What one problem may spend. Made by `resolve`.

    total: of all its paths (None: only the paths' own budgets hold). path: of each path. think, min_think:
    bounds on the tokens inside a path's thinking. answer_reserve: kept for the answer when thinking is
    closed by force. close: tokens that such a close injects. margin: tokens a path may still commit after a
    command was sent.
    """

    total: int | None
    path: int
    think: int | None
    min_think: int
    answer_reserve: int
    close: int
    margin: int

    @property
    def floor(self) -> int:
        """The fewest tokens of the problem's budget that let one more path give an answer."""
        return self.close + self.answer_reserve + 1 + self.margin

    def room(self, free: int) -> int:
        """How many more paths `free` tokens can bring to an answer."""
        return max(0, free) // self.floor


@dataclass(frozen=True, slots=True)
class Asked:
    """The caller's numbers; None is a default."""

    budget: int | None = None
    path_budget: int | None = None
    think_budget: int | None = None
    min_think: int = 0
    answer_reserve: int | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """What the model and the prompt leave. context_left: tokens. path_default: what the model's folder or
    its card recommends to generate, None where it says nothing. thinks: thinking can be closed. close,
    margin: see Budget. memory_left: tokens that the KV memory holds beside the prompt, None for no bound.
    """

    context_left: int
    path_default: int | None
    thinks: bool
    close: int
    margin: int
    memory_left: int | None = None


def resolve(asked: Asked, room: Room, n: int) -> Budget:
    """The budget of a problem of n paths. Raises InvalidRequest, with the numbers, where no answer fits."""
    _check(asked, room)
    path = _path_budget(asked, room, n)
    share = path if asked.budget is None else min(path, asked.budget // n)
    reserve = _answer_reserve(asked, room, share)
    close = room.close if room.thinks else 0
    budget = Budget(asked.budget, path, asked.think_budget, asked.min_think, reserve, close, room.margin)
    if asked.budget is not None and asked.budget < n * budget.floor:
        fits = budget.room(asked.budget)
        raise InvalidRequest(
            f"a budget of {asked.budget} tokens cannot hold {n} answers: each path needs at least "
            f"{budget.floor}, {n * budget.floor} in all; "
            + (f"lower n to {fits}, or raise the budget" if fits else "raise the budget")
        )
    if path < close + reserve + 1:
        raise InvalidRequest(
            f"a path budget of {path} tokens cannot hold an answer: closing the thinking takes {close} and "
            f"the answer reserve is {reserve}, so at least {close + reserve + 1} are needed"
        )
    if asked.min_think > path - close - reserve:
        raise InvalidRequest(
            f"min_think {asked.min_think} cannot be honoured: a path of {path} tokens that keeps {reserve} for the "
            f"answer thinks for at most {path - close - reserve}"
        )
    return budget


def _check(asked: Asked, room: Room) -> None:
    for name, value, least in (
        ("budget", asked.budget, 1),
        ("path_budget", asked.path_budget, 1),
        ("think_budget", asked.think_budget, 0),
        ("min_think", asked.min_think, 0),
        ("answer_reserve", asked.answer_reserve, 1),
    ):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InvalidRequest(f"{name} must be a whole number of tokens >= {least}, got {value!r}")
    if asked.think_budget is not None and asked.min_think > asked.think_budget:
        raise InvalidRequest(f"min_think {asked.min_think} exceeds think_budget {asked.think_budget}")
    if not room.thinks:
        thinking = {"think_budget": asked.think_budget, "min_think": asked.min_think or None,
                    "answer_reserve": asked.answer_reserve}
        for name, value in thinking.items():
            if value is not None:
                raise InvalidRequest(f"{name} cannot be honoured: the model does not think here")


def _path_budget(asked: Asked, room: Room, n: int) -> int:
    if room.context_left < 1:
        raise InvalidRequest("the prompt fills the model's context: no token can be generated")
    if asked.path_budget is not None:
        if asked.path_budget > room.context_left:
            raise InvalidRequest(
                f"path_budget {asked.path_budget} exceeds the {room.context_left} tokens that the prompt "
                "leaves of the model's context"
            )
        return asked.path_budget
    path = min(room.context_left, room.path_default or DEFAULT_PATH)
    if room.memory_left is not None:
        path = max(1, min(path, room.memory_left))
    if asked.budget is None:
        return path
    # Without thinking there is nothing to close early: only an even share lets every path reach its end.
    return min(path, asked.budget if room.thinks else max(1, asked.budget // n - room.margin))


def _answer_reserve(asked: Asked, room: Room, share: int) -> int:
    if not room.thinks:
        return 0
    if asked.answer_reserve is not None:
        return asked.answer_reserve
    return min(RESERVE_MAX, max(RESERVE_MIN, share // RESERVE_SHARE))


class Guard(Enum):
    """What the problem's budget asks for now."""

    NOTHING = auto()
    CLOSE = auto()                 # what is left is needed for answers
    CUT = auto()                   # spent


@dataclass(frozen=True, slots=True)
class Live:
    """A path that decodes: whether it may still think, and the tokens of its answer so far."""

    thinking: bool
    answer: int


def guard(budget: Budget, used: int, live: Iterable[Live]) -> Guard:
    """Whether to close thinking now, so that each live path still finds its answer reserve, or to end
    everything.
    """
    if budget.total is None:
        return Guard.NOTHING
    paths = list(live)
    if used + len(paths) * budget.margin >= budget.total:
        return Guard.CUT
    needed = sum(need(budget, path) for path in paths)
    return Guard.CLOSE if used + needed >= budget.total else Guard.NOTHING


def need(budget: Budget, path: Live) -> int:
    """Tokens that bring a live path to the end of its answer, if its thinking is closed now."""
    if path.thinking:
        return budget.floor
    return max(0, budget.answer_reserve - path.answer) + budget.margin
