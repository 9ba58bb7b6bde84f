"""Let all paths end and return the answer that most of them gave."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from reasoner.actions import Action, Select, Spawn, Stop
from reasoner.events import Event
from reasoner.policies.base import Capabilities, Policy
from reasoner.problem import Task
from reasoner.view import View
from reasoner.votes import tally


@dataclass
class Majority(Policy):
    """n paths; the largest class of equal answers wins, ties go to the class with the lowest path.

    Needs no verifier, only an extractor (that of the verifier given, else `math`). Costs n whole paths. Paths
    without an answer do not vote. Source: self-consistency, Wang et al. 2022 (arXiv:2203.11171).
    """

    name: ClassVar[str] = "majority"
    summary: ClassVar[str] = "all paths end, the answer with most votes wins"
    cost: ClassVar[str] = "n whole paths"

    def start(self, task: Task, capabilities: Capabilities, rng: random.Random) -> Sequence[Action]:
        return [Spawn(self.n)]

    def on(self, event: Event, view: View) -> Sequence[Action]:
        if not view.quiet:
            return []
        paths = len(view.paths)
        top = [Select(key=vote.key, why=f"{vote.count} of {paths} paths agree") for vote in tally(view)[:1]]
        return [*top, Stop("all_voted")]
