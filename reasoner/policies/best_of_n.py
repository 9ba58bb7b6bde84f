"""Let all paths end, judge every answer, return the best."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from reasoner.actions import Action, Select, Spawn, Stop, Verify
from reasoner.events import AnswerReady, Event
from reasoner.policies.base import Capabilities, Capability, Policy
from reasoner.problem import Task
from reasoner.view import View
from reasoner.votes import ranked


@dataclass
class BestOfN(Policy):
    """n paths, all of which end and are judged; the best score wins, ties by votes, then the lowest path.

    Needs a verifier: without one there is no "best", and the policy is refused rather than turned into a
    vote. Costs n whole paths. Worth it over first_verified where scores are graded, or where all answers are
    wanted. An unknown verdict ranks below a pass and above a fail. Source: Cobbe et al. 2021
    (arXiv:2110.14168).
    """

    name: ClassVar[str] = "best_of_n"
    summary: ClassVar[str] = "all paths end, all answers are judged, the best score wins"
    cost: ClassVar[str] = "n whole paths"
    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.VERIFIER})

    def start(self, task: Task, capabilities: Capabilities, rng: random.Random) -> Sequence[Action]:
        return [Spawn(self.n)]

    def on(self, event: Event, view: View) -> Sequence[Action]:
        if isinstance(event, AnswerReady) and event.key is not None:
            return [Verify(event.path)]
        if not view.quiet or view.unjudged:
            return []
        best = ranked(view)[:1]
        return [*(Select(p.index, why="best score") for p in best), Stop("all_judged")]
