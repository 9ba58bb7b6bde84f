"""Replaying an event log: the same events through the same policy must give the same actions, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reasoner.actions import Action, Stop, action_to_json
from reasoner.budget import Budget
from reasoner.codec import decode, dumps
from reasoner.dialogue import policy_rng
from reasoner.errors import BadRecord
from reasoner.events import event_from_json
from reasoner.log import LOG_VERSION
from reasoner.policies import registry
from reasoner.policies.base import Capabilities, Capability, Policy
from reasoner.problem import Task
from reasoner.view import View, advance


@dataclass(frozen=True, slots=True)
class Replay:
    """The lines of the log, and the lines that the policy makes of its events now."""

    recorded: tuple[str, ...]
    reproduced: tuple[str, ...]

    @property
    def same(self) -> bool:
        return self.recorded == self.reproduced

    def difference(self) -> str | None:
        """The first line that differs, in words; None where all are the same."""
        for number, (old, new) in enumerate(zip(self.recorded, self.reproduced, strict=False), 1):
            if old != new:
                return f"line {number}: recorded {old}, now {new}"
        if len(self.recorded) == len(self.reproduced):
            return None
        return f"recorded {len(self.recorded)} lines, now {len(self.reproduced)}"


def replay_file(path: Path | str, policy: type[Policy] | None = None) -> Replay:
    """policy: instead of the one that the log names. Raises BadRecord, UnknownName."""
    return replay(Path(path).read_text(encoding="utf-8").splitlines(), policy)


def replay(lines: Sequence[str], policy: type[Policy] | None = None) -> Replay:
    """The same for the lines of a log. A last line that was cut off by a crash is left out."""
    header, body = _read(lines)
    return Replay(tuple(line for line, _ in body), tuple(_reproduce(header, [raw for _, raw in body], policy)))


def _reproduce(header: Mapping[str, Any], body: Sequence[Mapping[str, Any]],
               policy: type[Policy] | None) -> Iterator[str]:
    cls = policy or registry.get(header["policy"]["name"])
    if cls.version != header["policy"]["version"]:
        raise BadRecord(f"the log is of version {header['policy']['version']} of {cls.name}, this is {cls.version}")
    chosen = cls(**header["policy"]["params"])
    budget = decode(Budget, header["budget"])
    view = View(budget.total)
    able = Capabilities(frozenset(Capability(name) for name in header["able"]), budget)
    asked = _Asked()
    task = decode(Task, header["task"])
    yield from asked.for_actions(lambda: chosen.start(task, able, policy_rng(header["seed"])))
    for raw in body:
        if "action" in raw:
            continue
        yield dumps(raw)
        if "ended" in raw:
            asked.over = True
            continue
        event = event_from_json(raw)
        view = advance(view, event)
        yield from asked.for_actions(partial(chosen.on, event, view))


class _Asked:
    """Asks a policy until it stops or raises, as a run does."""

    def __init__(self) -> None:
        self.over = False

    def for_actions(self, question: Callable[[], Sequence[Action]]) -> list[str]:
        if self.over:
            return []
        try:
            actions = list(question())
        except Exception:
            self.over = True
            return []
        self.over = any(isinstance(action, Stop) for action in actions)
        return [dumps(action_to_json(action)) for action in actions]


def _read(lines: Sequence[str]) -> tuple[Mapping[str, Any], list[tuple[str, Mapping[str, Any]]]]:
    parsed: list[tuple[str, Mapping[str, Any]]] = []
    for number, line in enumerate(lines):
        try:
            parsed.append((line, json.loads(line)))
        except json.JSONDecodeError:
            if number < len(lines) - 1:
                raise BadRecord(f"line {number + 1} of the log is no JSON") from None
    if not parsed or parsed[0][1].get("log") != LOG_VERSION:
        raise BadRecord(f"this is no event log of version {LOG_VERSION}")
    return parsed[0][1], parsed[1:]

