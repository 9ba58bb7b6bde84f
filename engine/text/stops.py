"""Stop strings over a stream of text."""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import InvalidParameter


class StopStrings:
    """Passes text on up to the first stop string, and holds back only what may still become one.

    The stop that is complete first wins; of two that end at the same character, the longer. So the outcome is
    that of reading character by character, however the text is split.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        if not all(self._stops):
            raise InvalidParameter("a stop string must not be empty")
        self._starts = frozenset(stop[:end] for stop in self._stops for end in range(1, len(stop)))
        self._longest = max((len(stop) for stop in self._stops), default=0)
        self._held = ""
        self.hit: str | None = None
        """The stop string that ended the text."""

    def push(self, delta: str) -> tuple[str, str | None]:
        """(text to emit, the stop string that was hit or None). After a hit everything is swallowed."""
        if self.hit is not None:
            return "", self.hit
        text = self._held + delta
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            _, at, self.hit = min(found)
            self._held = ""
            return text[:at], self.hit
        keep = len(text) - self._undecided(text)
        self._held = text[keep:]
        return text[:keep], None

    def flush(self) -> str:
        """What is still held back: at the end of the text it can become no stop any more."""
        held, self._held = self._held, ""
        return held

    def _undecided(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if text[-length:] in self._starts:
                return length
        return 0
