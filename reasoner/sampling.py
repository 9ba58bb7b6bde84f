"""How paths sample: what the model recommends, overridden by what the caller says, checked once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from reasoner.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off. Raises InvalidRequest out of range."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            rule, holds = _RULES[f.name]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise InvalidRequest(f"{f.name} must be a finite number, got {value!r}")
            if not holds(value):
                raise InvalidRequest(f"{f.name} must {rule}, got {value}")


_RULES: Mapping[str, tuple[str, Callable[[float], bool]]] = {
    "temperature": ("be >= 0", lambda v: v >= 0),
    "top_p": ("lie in (0, 1]", lambda v: 0 < v <= 1),
    "top_k": ("be a whole number >= 0 (0 is off)", lambda v: v >= 0 and v == int(v)),
    "min_p": ("lie in [0, 1)", lambda v: 0 <= v < 1),
    "repetition_penalty": ("be > 0", lambda v: v > 0),
    "presence_penalty": ("lie in [-2, 2]", lambda v: -2 <= v <= 2),
    "frequency_penalty": ("lie in [-2, 2]", lambda v: -2 <= v <= 2),
}


def resolve(defaults: Sampling, overrides: Mapping[str, Any]) -> Sampling:
    """The defaults with every override that is not None."""
    return replace(defaults, **{name: value for name, value in overrides.items() if value is not None})
