"""Runs one policy on one problem: does what it asks, tells it what happens, keeps the budget, counts every
token.

Everything arrives in one inbox and is handled by one task, in order. Verifiers run beside it. Whatever
happens, a run ends with all its paths ended and everything they held given back; unless it was cancelled it
has a Result.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from engine.types import FinishReason, Phase
from reasoner import actions as act
from reasoner import events as ev
from reasoner import inbox as arriving
from reasoner.backends.protocol import Advanced, Backend, PathAdvanced, PathEnded, SessionEnded
from reasoner.checking import Reading
from reasoner.dialogue import Dialogue
from reasoner.feed import Feed
from reasoner.inbox import Arrival, Inbox
from reasoner.keeper import Keeper, Order
from reasoner.log import EventLog
from reasoner.paths import PathRecord, PathTable
from reasoner.plan import Plan
from reasoner.policies.base import Capability
from reasoner.result import Result
from reasoner.summary import Ending, summarise
from reasoner.view import View
from reasoner.votes import ranked
from reasoner.waiting import uninterrupted
from reasoner.wire import Wire
from verifiers.base import Candidate, Verdict

MAX_WARNINGS = 100

log = logging.getLogger(__name__)


class Driver:
    """One run. `run` is called once."""

    def __init__(self, plan: Plan, backend: Backend, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises InvalidRequest where the event log cannot be written."""
        self._plan = plan
        self._feed = feed
        self._clock = clock
        self._started = clock()
        self._inbox = Inbox()
        self._wire = Wire(backend, self._inbox, self._warn)
        self._paths = PathTable()
        self._log = EventLog(plan.events, plan.header())
        self._dialogue = Dialogue(plan, feed, self._log, lambda: self._paths.tokens, self._now)
        self._ending = Ending()
        self._warnings = list(plan.warnings)
        self._keeper = Keeper(plan.capabilities.budget)
        self._checks: dict[int, asyncio.Task[None]] = {}
        self._stopped = False

    @property
    def view(self) -> View:
        return self._dialogue.view

    def post(self, command: arriving.FinishEarly | arriving.Abort) -> None:
        self._inbox.put(command)

    async def run(self) -> Result:
        """Raises InvalidRequest or BackendFailed where the first paths cannot be started, nothing else."""
        try:
            await self._decide()
        finally:
            await uninterrupted(self._release())
        await self._judge_selected()
        self._ending.total_s = self._now()
        if self._log.fault is not None:
            self._warn(self._log.fault)
        result = summarise(self._plan, self._paths, self.view, self._ending, tuple(self._warnings))
        self._feed.put(ev.ProblemFinished(*self._stamp(), result))
        return result

    def dispose(self) -> None:
        """Closes the log and the feed. Called once the run is over, also where it was cancelled before it began."""
        self._log.close()
        self._feed.close()

    # -- the loop --------------------------------------------------------------------------------------------

    async def _decide(self) -> None:
        self._dialogue.start()
        await self._act()
        while not self._stopped:
            if self._stalled():
                self._stop("stalled")
                return
            for arrival in await self._inbox.take():
                await self._receive(arrival)
                await self._act()

    async def _act(self) -> None:
        while self._dialogue.actions and not self._stopped:
            await self._do(self._dialogue.actions.popleft())
        if self._dialogue.fault is not None and not self._stopped:
            log.error("policy %s failed", self._plan.policy.name, exc_info=self._dialogue.fault)
            self._warn(f"the policy raised {type(self._dialogue.fault).__name__}: {self._dialogue.fault}")
            self._stop("policy_error")

    def _stalled(self) -> bool:
        """Nothing more can happen, and the policy has not stopped."""
        return not self._checks and not self._paths.live()

    def _stop(self, reason: str) -> None:
        self._log.ended(reason)
        self._ending.stop = reason
        self._ending.tokens_at_stop = self._paths.tokens
        self._stopped = self._dialogue.over = True

    async def _release(self) -> None:
        """Ends every path and verdict, and reads what the session has left to say, for the bill."""
        for check in self._checks.values():
            check.cancel()
        await self._wire.release()
        for arrival in self._inbox.drain():
            await self._receive(arrival)

    # -- what the policy asks --------------------------------------------------------------------------------

    async def _do(self, action: act.Action) -> None:
        match action:
            case act.Spawn(n):
                await self._spawn(n)
            case act.Verify(path):
                self._verify(path)
            case act.Cancel(paths, reason):
                await self._cancel(self._known(paths, "cancel"), reason)
            case act.CloseThinking(paths):
                await self._close_thinking(self._known(paths, "close the thinking of"))
            case act.Select():
                self._select(action)
            case act.Stop(reason):
                self._stop(reason)

    async def _spawn(self, n: int) -> None:
        granted = self._keeper.grant(n, self._paths)
        if granted < n:
            why = "the budget holds no answer for them" if self.view.closing is None else "the problem is closing"
            self._warn(f"{n - granted} of {n} paths were not started: {why}")
        if granted == 0:
            return
        if self._wire.is_open and Capability.ADD_PATHS not in self._plan.facts.able:
            self._warn(f"{granted} paths were not started: this backend cannot add paths to a run")
            return
        # Not to be cut in half by a cancellation: what the session started must stand in the bill.
        await uninterrupted(self._start(granted))

    async def _start(self, n: int) -> None:
        indices = await (self._wire.add_paths(n) if self._wire.is_open else self._wire.open(self._plan.session(n)))
        for index in indices:
            self._paths.add(index, self._plan.seed, self._now())
        for index in indices:
            self._tell(ev.PathStarted(*self._stamp(), index, self._plan.seed))

    def _verify(self, path: int) -> None:
        record = self._paths.get(path)
        if self._plan.checker.verifier is None or record is None or record.live or record.judged:
            self._warn(f"there is nothing to verify on path {path}")
            return
        if record.finish_reason is FinishReason.CANCELLED:
            self._warn(f"path {path} was cancelled: it is not verified")
            return
        record.judged = True
        self._ending.oracle = self._ending.oracle or self._plan.checker.oracle
        self._checks[path] = asyncio.create_task(self._judge(path, record.candidate))

    async def _cancel(self, records: Iterable[PathRecord], reason: str) -> None:
        chosen = list(records)
        for record in chosen:
            record.cancel_reason = reason
        await self._wire.cancel([record.index for record in chosen])

    async def _close_thinking(self, records: Iterable[PathRecord]) -> None:
        await self._wire.close_thinking([record.index for record in records if record.phase is Phase.THINKING])

    def _select(self, action: act.Select) -> None:
        for path in self.view.candidates:
            if path.index == action.path or (action.key is not None and path.key == action.key):
                self._ending.selected, self._ending.why = path.index, action.why
                return
        self._warn(f"nothing was selected: {action} names no path that ended with an answer")

    def _known(self, paths: Iterable[int], what: str) -> list[PathRecord]:
        known = [self._paths.get(path) for path in paths]
        live = [record for record in known if record is not None and record.live]
        if len(live) < len(known):
            self._warn(f"the policy asked to {what} a path that is unknown or has ended")
        return live

    # -- what arrives ----------------------------------------------------------------------------------------

    async def _receive(self, arrival: Arrival) -> None:
        match arrival:
            case Advanced(paths):
                for step in paths:
                    self._advance(step)
                await self._obey(self._keeper.watch(self._paths))
            case PathEnded():
                self._end(arrival)
            case SessionEnded(prompt_tokens, prefilled_tokens):
                self._ending.prompt_tokens, self._ending.prefilled_tokens = prompt_tokens, prefilled_tokens
            case arriving.Judged(path, verdict):
                self._verdict(path, verdict)
            case arriving.BackendDied(error):
                self._backend_died(error)
            case arriving.FinishEarly():
                await self._obey(self._keeper.finish_early(self._paths))
            case arriving.Abort() if not self._stopped:
                self._stop("cancelled")

    async def _judge(self, path: int, candidate: Candidate) -> None:
        self._inbox.put(arriving.Judged(path, await self._plan.checker.judge(candidate)))

    def _advance(self, step: PathAdvanced) -> None:
        record = self._paths[step.index]
        thought, injected = record.phase is Phase.THINKING, record.injected
        self._paths.advance(step)
        if thought and step.phase is Phase.ANSWER:
            record.forced = step.injected > injected
            self._tell(ev.ThinkingClosed(*self._stamp(), step.index, step.think, record.forced))
        elif step.generated - record.reported >= self._plan.progress_every:
            record.reported = step.generated
            self._tell(ev.Progress(*self._stamp(), step.index, step.phase, step.think, step.generated))

    async def _obey(self, order: Order) -> None:
        if self._stopped:
            return
        if order.closing is not None:
            self._tell(ev.Closing(*self._stamp(), order.closing))
        if order.close:
            await self._close_thinking(self._paths[index] for index in order.close)
        if order.cut:
            self._tell(ev.BudgetExhausted(*self._stamp()))
            await self._cancel(self._paths.live(), "budget")

    def _end(self, event: PathEnded) -> None:
        record = self._paths.end(event, self._now())
        if event.reason is FinishReason.CANCELLED:
            reason = record.cancel_reason or "stop"
            self._tell(ev.Cancelled(*self._stamp(), event.index, event.generated, reason))
            return
        if event.reason is FinishReason.ERROR:
            self._warn(f"path {event.index} failed: {event.message}")
        self._tell(ev.PathFinished(*self._stamp(), event.index, event.reason, event.think, event.generated,
                                   event.message))
        self._answer(record)

    def _answer(self, record: PathRecord) -> None:
        failed = record.finish_reason is FinishReason.ERROR
        reading = Reading() if failed else self._plan.checker.read(record.candidate)
        if reading.fault is not None:
            self._warn(reading.fault)
        if reading.key is not None and self._ending.first_answer_s is None:
            self._ending.first_answer_s = self._now()
        self._tell(ev.AnswerReady(*self._stamp(), record.index, reading.answer, reading.key))

    def _verdict(self, path: int, verdict: Verdict) -> None:
        self._checks.pop(path, None)
        self._paths[path].verdict = verdict
        if verdict.passed and self._ending.first_verified_s is None:
            self._ending.first_verified_s = self._now()
        self._tell(ev.Verified(*self._stamp(), path, self._plan.checker.public(verdict)))

    def _backend_died(self, error: str) -> None:
        self._warn(f"the backend stopped working: {error}")
        if not self._stopped:
            self._tell(ev.Failed(*self._stamp(), error))
            self._stop("backend_failed")

    # -- the end ---------------------------------------------------------------------------------------------

    async def _judge_selected(self) -> None:
        """Picks the best known answer where the policy picked none, and has it judged where it was not."""
        best = ranked(self.view)[:1]
        if self._ending.selected is None and best:
            self._ending.selected, self._ending.why = best[0].index, "the best known when the run ended"
        selected = self._ending.selected
        if selected is None or self._plan.checker.verifier is None or self._ending.stop == "cancelled":
            return
        if self._paths[selected].verdict is None:
            self._verdict(selected, await self._plan.checker.judge(self._paths[selected].candidate))

    def _tell(self, event: ev.Event) -> None:
        self._dialogue.tell(event)

    def _stamp(self) -> tuple[int, int, float]:
        return self._dialogue.stamp()

    def _now(self) -> float:
        return round(self._clock() - self._started, 6)

    def _warn(self, warning: str) -> None:
        if warning not in self._warnings and len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(warning)
