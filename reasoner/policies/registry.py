"""Policies by name: the built-in ones, the entry point group `reasoner.policies`, and `path.py:Name`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from reasoner.errors import BadPolicy, InvalidRequest, UnknownName
from reasoner.policies.base import Capability, Policy
from reasoner.policies.best_of_n import BestOfN
from reasoner.policies.first_verified import FirstVerified
from reasoner.policies.majority import Majority

GROUP = "reasoner.policies"
BUILT_IN: Mapping[str, type[Policy]] = {cls.name: cls for cls in (BestOfN, FirstVerified, Majority)}


def names() -> tuple[str, ...]:
    """The names that `get` knows, sorted."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def get(name: str) -> type[Policy]:
    """A policy class by its name, or from `path.py:Name`. Raises UnknownName, or BadPolicy where that is no
    policy.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    for point in entry_points(group=GROUP, name=name):
        return _checked(_from_entry_point(point), f"entry point {name!r}")
    path, colon, attribute = name.rpartition(":")
    if colon and path.endswith(".py"):
        return _checked(_from_file(Path(path), attribute), name)
    raise UnknownName("policy", name, names())


def create(policy: str | type[Policy] | Policy, n: int | None = None,
           params: Mapping[str, Any] | None = None) -> Policy:
    """A policy ready for one problem. An object given is copied; n and params override its parameters.

    Raises UnknownName, BadPolicy, and InvalidRequest for a parameter that it does not have or that is out of
    range.
    """
    given = {**(params or {}), **({} if n is None else {"n": n})}
    if isinstance(policy, Policy):
        cls, given = type(policy), {**policy.params(), **given}
    else:
        cls = get(policy) if isinstance(policy, str) else _checked(policy, repr(policy))
    known = [f.name for f in fields(cls) if f.init]
    for name in given:
        if name not in known:
            raise InvalidRequest(f"policy {cls.name!r} has no parameter {name!r}; it has: {', '.join(known)}")
    return cls(**given)


def describe() -> list[dict[str, Any]]:
    """One object per policy: name, version, needs, cost, summary, params with their defaults."""
    policies = [(name, get(name)) for name in names()]
    return [{"name": name, "version": cls.version, "needs": sorted(cls.requires), "cost": cls.cost,
             "summary": cls.summary, "params": dict(cls().params())} for name, cls in policies]


def working_with(able: frozenset[Capability]) -> tuple[str, ...]:
    """The policies that need nothing beyond `able`."""
    return tuple(name for name in names() if get(name).requires <= able)


def _checked(found: object, where: str) -> type[Policy]:
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise BadPolicy(f"{where} is no policy: it must derive from reasoner.policies.base.Policy")
    if not found.name:
        raise BadPolicy(f"{where} has no name: set `name: ClassVar[str]`")
    return found


def _from_entry_point(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        raise BadPolicy(f"entry point {point.name!r} ({point.value}) cannot be imported: {error}") from error


def _from_file(path: Path, attribute: str) -> object:
    if not path.is_file():
        raise UnknownName("policy file", str(path), names())
    module_name = f"reasoner_policy_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise BadPolicy(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module      # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadPolicy(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if attribute not in vars(module):
        raise UnknownName("policy", f"{path}:{attribute}",
                          [f"{path}:{name}" for name, value in vars(module).items()
                           if isinstance(value, type) and issubclass(value, Policy) and value is not Policy])
    return vars(module)[attribute]
