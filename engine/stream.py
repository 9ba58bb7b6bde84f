"""What the caller's side remembers of an open group, so that its stream can be ended without the step loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter, itemgetter

from engine.types import (
    Committed,
    FinishReason,
    Group,
    GroupEvent,
    GroupFinished,
    PathFinished,
    PathTokens,
    PathUsage,
)

# By place and by name: both run without a line of Python for each path, of which a step may bring thousands.
_INDEX = itemgetter(PathTokens._fields.index("index"))
_INJECTED = attrgetter("injected")


class GroupStream:
    """The events of one group on their way to its reader, and how far its live paths have come."""

    def __init__(self, group: Group) -> None:
        self.events: asyncio.Queue[GroupEvent] = asyncio.Queue()
        self._prompt_tokens = len(group.prompt_ids)
        self._newest: dict[int, tuple[int, PathTokens] | None] = {}  # by live path: step, its tokens
        self._injected: dict[int, int] = {}
        self._spent = PathUsage(0, 0, 0)  # by paths that have ended
        self.add(range(group.first_index, group.first_index + group.n))

    def add(self, indices: Iterable[int]) -> None:
        """These paths live from now on."""
        self._newest.update(dict.fromkeys(indices))

    def put(self, event: GroupEvent) -> None:
        match event:
            case Committed(step, paths):
                self._newest.update(zip(map(_INDEX, paths), zip(repeat(step), paths), strict=False))
                for path in filter(_INJECTED, paths):
                    self._injected[path.index] = self._injected.get(path.index, 0) + path.injected
            case PathFinished():
                self._newest.pop(event.index, None)
                self._spent = _sum(self._spent, event.usage)
        self.events.put_nowait(event)

    def fail(self, cause: str) -> None:
        """Ends every live path with reason `error`, then the group."""
        for index, newest in list(self._newest.items()):
            step, usage = -1, PathUsage(0, 0, 0)
            if newest is not None:
                step, tokens = newest
                usage = PathUsage(tokens.generated, tokens.think_tokens, self._injected.get(index, 0))
            self.put(PathFinished(index, FinishReason.ERROR, usage, step, cause))
        # A first token means that the prompt was computed but for its last; how far it came without one, nobody here
        # knows.
        prefilled = self._prompt_tokens - 1 if self._spent.generated else 0
        self.put(GroupFinished(self._prompt_tokens, prefilled, self._spent))


def _sum(a: PathUsage, b: PathUsage) -> PathUsage:
    return PathUsage(a.generated + b.generated, a.think + b.think, a.injected + b.injected)
