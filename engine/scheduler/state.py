"""What the scheduler remembers of a group and of a path. Plain records; only this package changes them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.scheduler.lifecycle import GroupState, PathState, move_group, move_path
from engine.types import FinishReason, Group, PathUsage

NOTHING = PathUsage(0, 0, 0)


@dataclass(slots=True, eq=False)
class PathEntry:
    """pages: its own, behind those that it shares with the prompt. While it has a slot its counts are in `Columns`;
    `usage`, `committed_step` and `last_step` are written when it ends."""

    group_id: int
    index: int
    state: PathState = PathState.WAITING
    slot: int = -1
    pages: list[int] = field(default_factory=list)
    close_requested: bool = False
    reason: FinishReason | None = None
    usage: PathUsage = NOTHING
    committed_step: int = -1
    last_step: int = -1

    @property
    def live(self) -> bool:
        return self.reason is None

    def move(self, to: PathState) -> None:
        self.state = move_path(self.state, to)


@dataclass(slots=True, eq=False)
class GroupEntry:
    """waiting: live paths that have not started. unfinished: paths that own something or still will.
    prompt_need, path_need: pages of the prompt and of one path, at worst; shared: of the prompt's, those that it fills.
    prefilled: prompt tokens whose computation has been launched, of the first `to_prefill`; the last prompt
    token is never prefilled: it is the first input of each path."""

    id: int
    group: Group
    prompt_need: int
    path_need: int
    shared: int
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

    @property
    def wanted(self) -> bool:
        """Whether some path of it still has to start."""
        return bool(self.waiting) and not self.closing

    def move(self, to: GroupState) -> None:
        self.state = move_group(self.state, to)

    def add_path(self) -> PathEntry:
        path = PathEntry(self.id, self.group.first_index + len(self.paths))
        self.paths[path.index] = path
        self.waiting.append(path.index)
        self.unfinished += 1
        return path
