"""Stop at the first answer that passes the verifier."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from reasoner.actions import Action, Select, Spawn, Stop, Verify
from reasoner.events import AnswerReady, Event, Verified
from reasoner.policies.base import Capabilities, Capability, Policy
from reasoner.problem import Task
from reasoner.view import View
from reasoner.votes import ranked


@dataclass
class FirstVerified(Policy):
    """n paths; each answer is judged when it comes, and the first pass ends the problem.

    Needs a verifier. Costs the tokens of all n paths up to the first correct end, so the easier the problem
    the less. Accuracy is that of pass@n as far as the verifier can be trusted. Where nothing passes it
    returns the best of the rest: answers that did not fail before those that did, then score, votes, lowest
    path. Source: repeated sampling with a verifier, Brown et al. 2024 (arXiv:2407.21787).
    """

    name: ClassVar[str] = "first_verified"
    summary: ClassVar[str] = "stop at the first answer that passes the verifier"
    cost: ClassVar[str] = "n paths until the first one passes"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.VERIFIER})

    def start(self, task: Task, capabilities: Capabilities, rng: random.Random) -> Sequence[Action]:
        return [Spawn(self.n)]

    def on(self, event: Event, view: View) -> Sequence[Action]:
        match event:
            case Verified(path=path, verdict=verdict) if verdict.passed:
                return [Select(path, why="first to pass"), Stop("verified")]
            case AnswerReady(path=path, key=key) if key is not None:
                return [Verify(path)]
        if not view.quiet or view.unjudged:
            return []
        best = ranked(view)[:1]
        return [*(Select(p.index, why="best of those that did not pass") for p in best), Stop("none_passed")]
