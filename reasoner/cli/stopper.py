"""Ctrl-C while a problem is being solved."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reasoner.result import Result
    from reasoner.run import Run

FINISHING = "finishing with the best so far; press Ctrl-C again to abort"


@dataclass
class Stopper:
    """Once: answer with the best so far. Twice: end everything without an answer. say: told what happens."""

    run: Run
    say: Callable[[str], None]
    presses: int = 0
    _ending: asyncio.Task[Result] | None = field(default=None, repr=False)

    @property
    def aborted(self) -> bool:
        return self.presses > 1

    def press(self) -> None:
        self.presses += 1
        if self.presses == 1:
            self.say(FINISHING)
            self.run.finish_early()
        elif self._ending is None:
            self._ending = asyncio.ensure_future(self.run.cancel())

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes Ctrl-C of the process over. Only in the main thread."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.press)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
