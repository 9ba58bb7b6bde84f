"""Frozen dataclasses to plain JSON values and back: one rule for events, actions, budgets and results."""

from __future__ import annotations

import json
import types
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from reasoner.errors import BadRecord

T = TypeVar("T")


def encode(value: object) -> Any:
    """The JSON value of a dataclass: its fields in their order, enums by value, tuples as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [encode(item) for item in value]
        return sorted(items) if isinstance(value, (set, frozenset)) else items
    return value


def decode(cls: type[T], raw: Any) -> T:
    """The dataclass that `encode` made `raw` from. Raises BadRecord where it has a field too many or too
    few.
    """
    if not isinstance(raw, Mapping):
        raise BadRecord(f"a {cls.__name__} must be a JSON object, got {type(raw).__name__}")
    hints = _hints(cast(Hashable, cls))
    unknown = sorted(set(raw) - set(hints))
    if unknown:
        raise BadRecord(f"{cls.__name__} has no field {', '.join(unknown)}")
    try:
        return cls(**{name: _value(hints[name], item) for name, item in raw.items()})
    except TypeError as error:
        raise BadRecord(f"{cls.__name__}: {error}") from None


def dumps(value: object) -> str:
    """One line of JSON, the same bytes for the same value on every machine."""
    return json.dumps(encode(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@cache
def _hints(cls: Hashable) -> Mapping[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cast(Any, cls)) if f.init}


def _value(hint: Any, raw: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return None if raw is None else _value(next(a for a in get_args(hint) if a is not type(None)), raw)
    if origin is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_value(args[0], item) for item in raw)
        return tuple(_value(arg, item) for arg, item in zip(args, raw, strict=True))
    if origin in (Mapping, dict, list, Sequence):
        return raw
    if isinstance(hint, type) and is_dataclass(hint):
        return decode(hint, raw)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(raw)
    return raw
