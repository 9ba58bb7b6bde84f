"""The split between training and evaluation: a pure function of a problem's parameters.

One key in forty is held out by its CRC-32, which needs no list, no seed and no salt, so trainer,
evaluation and demo agree in every process. The sets of `data/countdown4_128.json` are held out as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any
from zlib import crc32

HELD_OUT_ONE_IN = 40


def is_held_out(key: str) -> bool:
    """True where the problem that `key` describes belongs to evaluation."""
    return crc32(key.encode()) % HELD_OUT_ONE_IN == 0


def countdown_key(numbers: Iterable[int]) -> str:
    """The key of a countdown problem: its numbers alone, so that every target of a set is on one side."""
    return "cd " + " ".join(map(str, sorted(numbers)))


def is_held_out_countdown(numbers: Iterable[int]) -> bool:
    """True for a number set that no training document may use."""
    key = countdown_key(numbers)
    return is_held_out(key) or key in _bundled_keys()


def bundled_countdown() -> list[dict[str, Any]]:
    """The 128 seeded four-number problems of the package: prompt, numbers and target of each."""
    path = resources.files("reasoner.evaluate.tasks") / "data" / "countdown4_128.json"
    records: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return records


@cache
def _bundled_keys() -> frozenset[str]:
    return frozenset(countdown_key(record["numbers"]) for record in bundled_countdown())
