"""Thinking and answer of a path, as text.

The ids are split first and each part is decoded on its own, so that no character and no space of one part
depends on the other. Markers have no text wherever they occur, and the line breaks right behind one belong to
it, as in the templates that write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.text.detokenize import Detokenizer
from engine.text.markers import Markers
from engine.text.tokenizer import Tokenizer
from engine.types import Phase


class Part(NamedTuple):
    """Text of one side of the split."""

    phase: Phase  # THINKING or ANSWER
    text: str


class ThinkingSplit:
    """The same state machine as the sampler's, on ids: the first token decides, close_id ends the thinking.

    phase: where the prompt left the path, see `Tokenizer.opening_phase`. hidden: ids without text, such as EOS
    and the caller's stop ids.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        markers: Markers | None,
        phase: Phase = Phase.UNDECIDED,
        hidden: Iterable[int] = (),
    ) -> None:
        self._detokenizer = detokenizer
        self._markers = markers
        self._hidden = frozenset(hidden) | (
            frozenset((markers.open_id, markers.close_id)) if markers else frozenset()
        )
        self._after_marker = phase != Phase.UNDECIDED
        self.phase = Phase.ANSWER if markers is None else phase

    @property
    def closed(self) -> bool:
        """False while inside the thinking: what a path that ends there wrote is no answer."""
        return self.phase != Phase.THINKING

    def push(self, ids: Sequence[int]) -> list[Part]:
        """The text these ids complete, in order. A part holds thinking or answer, never both, and is not empty."""
        parts: list[Part] = []
        start = 0
        for at, token in enumerate(ids):
            phase = self._next(token)
            if phase != self.phase:
                parts += self._decode(ids[start:at])
                parts += self._enter(phase, token)
                start = at
        return parts + list(self._decode(ids[start:]))

    def flush(self) -> list[Part]:
        """The text of an unfinished character, at the end of the path."""
        return list(self._part(self._detokenizer.flush()))

    def _next(self, token: int) -> Phase:
        if self._markers is None or self.phase == Phase.ANSWER:
            return self.phase
        if self.phase == Phase.UNDECIDED:
            return Phase.THINKING if token == self._markers.open_id else Phase.ANSWER
        return Phase.ANSWER if token == self._markers.close_id else Phase.THINKING

    def _enter(self, phase: Phase, token: int) -> list[Part]:
        rest = self.flush()
        self.phase = phase
        self._after_marker = self._markers is not None and token in (
            self._markers.open_id,
            self._markers.close_id,
        )
        return rest

    def _decode(self, ids: Sequence[int]) -> Iterator[Part]:
        return self._part(self._detokenizer.push(token for token in ids if token not in self._hidden))

    def _part(self, text: str) -> Iterator[Part]:
        if self._after_marker:
            text = text.lstrip("\n")
            self._after_marker = not text
        if text:
            yield Part(self.phase, text)


def split_output(
    ids: Sequence[int], markers: Markers | None, tokenizer: Tokenizer, phase: Phase = Phase.UNDECIDED
) -> tuple[str, str, bool]:
    """(thinking, answer, closed) of all ids a path generated. closed is False where the thinking never ended."""
    split = ThinkingSplit(tokenizer.detokenizer(), markers, phase, tokenizer.eos_ids)
    parts = split.push(ids) + split.flush()
    texts = [
        "".join(part.text for part in parts if part.phase == side) for side in (Phase.THINKING, Phase.ANSWER)
    ]
    return texts[0], texts[1], split.closed
