"""Everything about one problem that is decided before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoner.backends.protocol import Facts, Prompt, SessionRequest
from reasoner.checking import Checker
from reasoner.codec import encode
from reasoner.policies.base import Capabilities, Policy
from reasoner.problem import Problem, Task
from reasoner.sampling import Sampling


@dataclass(frozen=True)
class Plan:
    """progress_every: tokens of a path between two Progress events. keep_thinking: thoughts go into the
    result.

    warnings: what the user should know although the run is possible.
    """

    problem: Problem
    policy: Policy
    capabilities: Capabilities
    checker: Checker
    facts: Facts
    prompt: Prompt
    sampling: Sampling
    seed: int
    stop: tuple[str, ...] = ()
    events: Path | None = None
    progress_every: int = 32
    keep_thinking: bool = True
    warnings: tuple[str, ...] = ()

    def session(self, n: int) -> SessionRequest:
        budget = self.capabilities.budget
        return SessionRequest(
            prompt=self.prompt,
            n=n,
            seed=self.seed,
            sampling=self.sampling,
            path_budget=budget.path,
            think_budget=budget.think,
            min_think=budget.min_think,
            answer_reserve=budget.answer_reserve,
            stop=self.stop,
        )

    def header(self) -> Mapping[str, Any]:
        """What a replay of the policy needs to start from."""
        return {
            "policy": {"name": self.policy.name, "version": self.policy.version, "params": self.policy.params()},
            "task": encode(Task.of(self.problem)),
            "able": sorted(self.capabilities.able),
            "budget": encode(self.capabilities.budget),
            "seed": self.seed,
        }
