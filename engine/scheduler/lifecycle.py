"""The life of a group and of a path. An illegal move is a bug and says which one."""

from __future__ import annotations

from enum import StrEnum


class IllegalMove(AssertionError):
    """A lifecycle transition that must never happen."""


class GroupState(StrEnum):
    WAITING = "waiting"  # queued: nothing owned
    PREFILLING = "prefilling"  # owns its prompt's pages; no path runs yet
    RUNNING = "running"  # the prompt is in the cache; paths decode or wait for room
    CLOSED = "closed"  # nothing owned


class PathState(StrEnum):
    WAITING = "waiting"  # no slot, no page
    DECODING = "decoding"  # one slot, its own pages and its share of the prompt's
    HELD = "held"  # keeps slot and pages and takes part in no step until it is resumed
    RETIRING = "retiring"  # ended; a launched step may still touch its pages
    FINISHED = "finished"  # owns nothing


_GROUP = {
    GroupState.WAITING: {GroupState.PREFILLING, GroupState.RUNNING, GroupState.CLOSED},
    GroupState.PREFILLING: {GroupState.RUNNING, GroupState.CLOSED},
    GroupState.RUNNING: {GroupState.CLOSED},
    GroupState.CLOSED: set(),
}
_PATH = {
    PathState.WAITING: {PathState.DECODING, PathState.FINISHED},
    PathState.DECODING: {PathState.HELD, PathState.RETIRING},
    PathState.HELD: {PathState.DECODING, PathState.RETIRING},
    PathState.RETIRING: {PathState.FINISHED},
    PathState.FINISHED: set(),
}


def move_group(state: GroupState, to: GroupState) -> GroupState:
    if to not in _GROUP[state]:
        raise IllegalMove(f"a group cannot move from {state} to {to}")
    return to


def move_path(state: PathState, to: PathState) -> PathState:
    if to not in _PATH[state]:
        raise IllegalMove(f"a path cannot move from {state} to {to}")
    return to
