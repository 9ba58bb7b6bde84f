"""The event log of one problem: JSONL, one header, then every event and every action in order, and the end.

A log is complete enough to be replayed: see `reasoner.replay`. It holds no gold answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from reasoner.actions import Action, action_to_json
from reasoner.codec import dumps
from reasoner.errors import InvalidRequest
from reasoner.events import Event, event_to_json

LOG_VERSION = 1


class EventLog:
    """Writes each line as it comes, so that a killed process leaves all that happened."""

    def __init__(self, path: Path | None, header: Mapping[str, Any]) -> None:
        """Raises InvalidRequest where the file cannot be written. path None: nothing is written.

        fault: why writing stopped, where it did; the run goes on without its log.
        """
        self.fault: str | None = None
        self._file = None if path is None else _open(path)
        self._write({"log": LOG_VERSION, **header})
        if self.fault is not None:
            raise InvalidRequest(self.fault)

    def event(self, event: Event) -> None:
        self._write(event_to_json(event))

    def action(self, action: Action) -> None:
        self._write(action_to_json(action))

    def ended(self, reason: str) -> None:
        """From here the policy was not asked any more; what follows is the rest of the bill."""
        self._write({"ended": reason})

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            try:
                self._file.write(dumps(line) + "\n")
            except OSError as error:
                self.fault = f"the event log {self._file.name} cannot be written: {error.strerror}"
                self.close()


def _open(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        raise InvalidRequest(f"the event log {path} cannot be written: {error.strerror}") from None
