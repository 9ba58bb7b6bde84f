"""What a policy may ask of the driver. An action on a path that is unknown or has ended does nothing but
warn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reasoner.codec import decode, encode
from reasoner.errors import BadRecord


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start n more paths. Fewer start, with a warning, where the budget holds no answer for all of them."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a policy must spawn at least one path, got {self.n}")


@dataclass(frozen=True, slots=True)
class Verify:
    """Judge the answer of an ended path; the verdict comes as a Verified event while other paths decode."""

    path: int


@dataclass(frozen=True, slots=True)
class Cancel:
    paths: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CloseThinking:
    """End the thinking of these paths by force: they answer next."""

    paths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """The problem's answer: that of a path, or of the lowest path of a vote class. The last one counts."""

    path: int | None = None
    key: str | None = None
    why: str = ""

    def __post_init__(self) -> None:
        if (self.path is None) == (self.key is None):
            raise ValueError("select either a path or a vote class")


@dataclass(frozen=True, slots=True)
class Stop:
    """End the problem: what lives is cancelled, and the policy is not asked again."""

    reason: str


Action = Spawn | Verify | Cancel | CloseThinking | Select | Stop

ACTIONS: Mapping[str, type[Action]] = {
    "spawn": Spawn,
    "verify": Verify,
    "cancel": Cancel,
    "close_thinking": CloseThinking,
    "select": Select,
    "stop": Stop,
}
NAMES: Mapping[type[Action], str] = {cls: name for name, cls in ACTIONS.items()}


def action_to_json(action: Action) -> dict[str, Any]:
    return {"action": NAMES[type(action)], **encode(action)}


def action_from_json(raw: Mapping[str, Any]) -> Action:
    """Raises BadRecord for an unknown kind or field."""
    kind = str(raw.get("action"))
    if kind not in ACTIONS:
        raise BadRecord(f"unknown action {kind!r}; known: {', '.join(ACTIONS)}")
    return decode(ACTIONS[kind], {name: value for name, value in raw.items() if name != "action"})
