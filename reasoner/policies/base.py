"""The policy protocol: pure decisions, events in and actions out.

A policy is a dataclass. Its fields are its parameters, checked in `validate`; one object decides for one
problem. It does no I/O, reads no clock and keeps no state outside itself, so that replaying a log of events
through it reproduces its actions exactly. It sees a Task, which holds neither gold answer nor hidden tests.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

from reasoner.actions import Action
from reasoner.budget import Budget
from reasoner.errors import InvalidRequest
from reasoner.events import Event
from reasoner.problem import Task
from reasoner.view import View

MAX_PATHS = 4096


class Capability(StrEnum):
    """What a run may be able to do beyond starting paths and reading their answers."""

    VERIFIER = "verifier"                  # answers can be judged
    ADD_PATHS = "add_paths"                # paths can be spawned after the first ones
    CANCEL = "cancel"                      # single paths can be ended
    CLOSE_THINKING = "close_thinking"      # thinking can be ended by force


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this run offers: its abilities and its budget, in tokens."""

    able: frozenset[Capability]
    budget: Budget


@dataclass
class Policy(ABC):
    """n: how many paths it may run at once.

    Class attributes: name; version (raised whenever its decisions change); summary and cost, one line each
    for people; requires, the capabilities without which it is refused before anything runs.
    """

    n: int = 16

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    summary: ClassVar[str] = ""
    cost: ClassVar[str] = ""
    requires: ClassVar[frozenset[Capability]] = frozenset()

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= MAX_PATHS:
            raise InvalidRequest(f"n must be a whole number in [1, {MAX_PATHS}], got {self.n!r}")
        self.validate()

    def validate(self) -> None:  # noqa: B027  (a policy without further parameters has nothing to check)
        """Check the parameters beyond n. Raises InvalidRequest with one line that names the parameter."""

    @abstractmethod
    def start(self, task: Task, capabilities: Capabilities, rng: random.Random) -> Sequence[Action]:
        """The first actions. rng: seeded from the problem's seed; the only chance a policy may take."""

    @abstractmethod
    def on(self, event: Event, view: View) -> Sequence[Action]:
        """What to do after the event; `view` already includes it. Not asked again after a Stop."""

    def params(self) -> Mapping[str, Any]:
        """The parameters, as JSON values, from which an equal policy can be made."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}


