"""The exchange between a run and its policy: numbered events in, actions out, both logged in order.

The only place that asks a policy anything; `reasoner.replay` repeats it from a log.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from reasoner.actions import Action, Stop
from reasoner.events import Event
from reasoner.feed import Feed
from reasoner.log import EventLog
from reasoner.plan import Plan
from reasoner.problem import Task
from reasoner.view import View, advance


def policy_rng(seed: int) -> random.Random:
    """The policy's only source of chance."""
    return random.Random(f"policy {seed}")


class Dialogue:
    """view: after the last event. actions: not yet done. over: the policy is not asked any more.

    fault: what the policy raised, if it did; it is not asked again then.
    """

    def __init__(self, plan: Plan, feed: Feed, log: EventLog, tokens: Callable[[], int],
                 now: Callable[[], float]) -> None:
        self.view = View(plan.capabilities.budget.total)
        self.actions: deque[Action] = deque()
        self.over = False
        self.fault: Exception | None = None
        self._plan = plan
        self._feed = feed
        self._log = log
        self._tokens = tokens
        self._now = now
        self._seq = 0

    def start(self) -> None:
        rng = policy_rng(self._plan.seed)
        self._ask(lambda: self._plan.policy.start(Task.of(self._plan.problem), self._plan.capabilities, rng))

    def stamp(self) -> tuple[int, int, float]:
        """The head of the next event: seq, tokens, seconds."""
        return self._seq, self._tokens(), self._now()

    def tell(self, event: Event) -> None:
        """One more event: into the log, the feed and the view, then to the policy."""
        self._seq += 1
        self._log.event(event)
        self._feed.put(event)
        self.view = advance(self.view, event)
        if not self.over:
            self._ask(lambda: self._plan.policy.on(event, self.view))

    def _ask(self, question: Callable[[], Sequence[Action]]) -> None:
        try:
            actions = list(question())
        except Exception as error:
            self.fault, self.over = error, True
            return
        for action in actions:
            self._log.action(action)
        self.actions.extend(actions)
        self.over = any(isinstance(action, Stop) for action in actions)
