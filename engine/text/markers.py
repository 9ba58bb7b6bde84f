"""The tokens around a model's thinking, and where a prompt leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.types import Phase


@dataclass(frozen=True, slots=True)
class Markers:
    """open_id, close_id: the single tokens around the thinking. close_ids: what a forced close injects."""

    open_id: int
    close_id: int
    close_ids: tuple[int, ...]


class Marked(Protocol):
    """What knows its markers: `Markers`, and `engine.types.Thinking`."""

    @property
    def open_id(self) -> int: ...
    @property
    def close_id(self) -> int: ...
    @property
    def close_ids(self) -> tuple[int, ...]: ...


# A template that opens the thinking itself ends with the marker and at most a line break or two.
_TAIL = 3


def opening_phase(prompt_ids: Sequence[int], marked: Marked | None) -> Phase:
    """The phase in which a path starts: templates may open the thinking (`<think>\\n`), or close it at once.

    Only the last tokens count, so that a marker somewhere in the user's text means nothing.
    """
    if marked is None:
        return Phase.UNDECIDED
    for token in reversed(prompt_ids[-max(_TAIL, len(marked.close_ids)) :]):
        if token == marked.close_id:
            return Phase.ANSWER
        if token == marked.open_id:
            return Phase.THINKING
    return Phase.UNDECIDED
