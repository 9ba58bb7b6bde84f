"""What the scheduler remembers of a group and of a path. Plain records; only `scheduler.py` changes them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.scheduler.lifecycle import GroupState, PathState, move_group, move_path
from engine.types import FinishReason, Group, PathUsage


@dataclass(slots=True)
class PathEntry:
    """position: where its next input token goes. launched: tokens whose sampling has been launched.
    The counts of `usage` are those of committed tokens."""

    group_id: int
    index: int
    state: PathState = PathState.WAITING
    slot: int = -1
    pages: list[int] = field(default_factory=list)
    reserved: int = 0
    position: int = 0
    launched: int = 0
    last_step: int = -1
    committed_step: int = -1
    generated: int = 0
    think: int = 0
    injected: int = 0
    close_requested: bool = False
    reason: FinishReason | None = None

    @property
    def live(self) -> bool:
        return self.state in (PathState.WAITING, PathState.DECODING)

    @property
    def usage(self) -> PathUsage:
        return PathUsage(self.generated, self.think, self.injected)

    def move(self, to: PathState) -> None:
        self.state = move_path(self.state, to)


@dataclass(slots=True)
class GroupEntry:
    """waiting: live paths that have not started. unfinished: paths that own something or still will.
    prefilled: prompt tokens whose computation has been launched, of the first `to_prefill`; the last prompt
    token is never prefilled: it is the first input of each path."""

    id: int
    group: Group
    state: GroupState = GroupState.WAITING
    table: int = -1
    prompt_pages: list[int] = field(default_factory=list)
    prefilled: int = 0
    last_step: int = -1
    paths: dict[int, PathEntry] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)
    unfinished: int = 0
    closing: bool = False

    @property
    def to_prefill(self) -> int:
        return len(self.group.prompt_ids) - 1

    def move(self, to: GroupState) -> None:
        self.state = move_group(self.state, to)

    def add_path(self) -> PathEntry:
        path = PathEntry(self.id, self.group.first_index + len(self.paths))
        self.paths[path.index] = path
        self.waiting.append(path.index)
        self.unfinished += 1
        return path
