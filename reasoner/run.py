"""A running problem in the hands of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from reasoner.backends.protocol import Backend
from reasoner.driver import Driver
from reasoner.events import Event
from reasoner.feed import Feed
from reasoner.inbox import Abort, FinishEarly
from reasoner.plan import Plan
from reasoner.result import Result
from reasoner.view import View


class Run:
    """Iterating gives every event from the first, ProblemFinished last; several may iterate at once.

    plan: all resolved parameters. All methods belong to the event loop that started it.
    """

    def __init__(self, plan: Plan, backend: Backend) -> None:
        """Raises InvalidRequest where the event log cannot be written."""
        self.plan = plan
        self._feed = Feed()
        self._driver = Driver(plan, backend, self._feed)
        self._task = asyncio.create_task(self._driver.run(), name=f"problem {plan.problem.id}")
        self._task.add_done_callback(lambda _: self._driver.dispose())

    @property
    def view(self) -> View:
        """A snapshot: the state of every path as of the last event."""
        return self._driver.view

    @property
    def done(self) -> bool:
        return self._task.done()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._follow()

    def finish_early(self) -> None:
        """Closes all thinking and ends with the best of the answers that come, as if the budget had run out.
        """
        self._driver.post(FinishEarly())

    async def cancel(self) -> Result:
        """Ends everything now. The result says what it had cost and the best that was known; it is not
        judged.
        """
        self._driver.post(Abort())
        return await self.result()

    async def result(self) -> Result:
        """Waits for the end. Cancelling this wait does not end the run: `cancel` and `solve` do.

        Raises InvalidRequest or BackendFailed where the first paths could not be started.
        """
        return await asyncio.shield(self._task)

    async def join(self) -> Result:
        """Like `result`, but cancelling this wait ends the run, and the wait lasts until all its pages are
        free.
        """
        return await self._task

    async def _follow(self) -> AsyncIterator[Event]:
        async for event in self._feed.follow():
            yield event
        # The feed also ends where the run could not start: its error belongs to whoever listens.
        await self.result()
