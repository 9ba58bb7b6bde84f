"""The text of one path as its tokens arrive: detokeniser, split and stop strings in a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.text.split import Part, ThinkingSplit
from engine.text.stops import StopStrings
from engine.text.tokenizer import Tokenizer
from engine.types import PathTokens, Phase


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of a path. Both parts are filled only where one step crossed the end of the thinking, and then the
    thinking came first. stop_hit: the stop string that ended the path; the text ends right before it."""

    thinking: str = ""
    answer: str = ""
    stop_hit: str | None = None


class PathText:
    """Accumulates one path's text.

    stops apply to the answer, thinking_stops to the thinking. phase: `Tokenizer.opening_phase` of the prompt.
    stop_ids: the caller's stop tokens, which have no text (nor has EOS).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: Iterable[str] = (),
        *,
        phase: Phase = Phase.UNDECIDED,
        thinking_stops: Iterable[str] = (),
        stop_ids: Iterable[int] = (),
    ) -> None:
        hidden = (*tokenizer.eos_ids, *stop_ids)
        self._split = ThinkingSplit(tokenizer.detokenizer(), tokenizer.markers, phase, hidden)
        self._stops = {Phase.THINKING: StopStrings(thinking_stops), Phase.ANSWER: StopStrings(stops)}
        self._texts: dict[Phase, list[str]] = {Phase.THINKING: [], Phase.ANSWER: []}
        self._stop_hit: str | None = None

    @property
    def thinking(self) -> str:
        return self._joined(Phase.THINKING)

    @property
    def answer(self) -> str:
        return self._joined(Phase.ANSWER)

    @property
    def closed(self) -> bool:
        """False while inside the thinking."""
        return self._split.closed

    def push(self, tokens: PathTokens) -> TextDelta:
        """The text that a step's tokens complete. After a stop string everything is swallowed."""
        return self._take(self._split.push(tokens.ids))

    def finish(self) -> TextDelta:
        """The path has ended: what was held back comes out."""
        delta = self._take(self._split.flush())
        rest = {side: self._keep(side, self._stops[side].flush()) for side in self._stops}
        return TextDelta(
            delta.thinking + rest[Phase.THINKING], delta.answer + rest[Phase.ANSWER], delta.stop_hit
        )

    def _take(self, parts: list[Part]) -> TextDelta:
        new = {Phase.THINKING: "", Phase.ANSWER: ""}
        for part in parts:
            if self._stop_hit is not None:
                break
            if part.phase == Phase.ANSWER:
                new[Phase.THINKING] += self._keep(Phase.THINKING, self._stops[Phase.THINKING].flush())
            emitted, self._stop_hit = self._stops[part.phase].push(part.text)
            new[part.phase] += self._keep(part.phase, emitted)
        return TextDelta(new[Phase.THINKING], new[Phase.ANSWER], self._stop_hit)

    def _keep(self, side: Phase, text: str) -> str:
        if text:
            self._texts[side].append(text)
        return text

    def _joined(self, side: Phase) -> str:
        parts = self._texts[side]
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        return parts[0] if parts else ""
