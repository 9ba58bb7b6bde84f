"""Verifiers by name: built in, from entry points, from a file, or from a plain function."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType

from verifiers.base import Verifier
from verifiers.countdown import Countdown
from verifiers.errors import BadVerifier, UnknownVerifier
from verifiers.exact import Exact
from verifiers.function import FunctionVerifier, VerifierFunction
from verifiers.math import Math

ENTRY_POINTS = "reasoner.verifiers"

BUILT_IN: Mapping[str, Callable[[], Verifier]] = MappingProxyType(
    {"countdown": Countdown, "exact": Exact, "math": Math}
)


def names() -> tuple[str, ...]:
    """Every name that `get` knows, sorted: built in or offered by an installed package."""
    return tuple(sorted({*BUILT_IN, *entry_points(group=ENTRY_POINTS).names}))


def get(verifier: str | Verifier | VerifierFunction) -> Verifier:
    """The verifier that is meant: by name, as `file.py:Name`, as a function, or as itself.

    A name is looked up among the built-in ones first, so that no package shadows them. What a file or an
    entry point names may be a verifier, a class that makes one without arguments, or a function.

    Raises UnknownVerifier for a name nobody has, BadVerifier for a thing that is found and is no verifier.
    """
    if not isinstance(verifier, str):
        return _as_verifier(verifier, None)
    if verifier in BUILT_IN:
        return BUILT_IN[verifier]()
    path, colon, attribute = verifier.rpartition(":")
    if colon and path.endswith(".py"):
        return _from_file(Path(path), attribute)
    for point in entry_points(group=ENTRY_POINTS, name=verifier):
        return _from_entry_point(point)
    raise UnknownVerifier(verifier, names())


def _from_entry_point(point: EntryPoint) -> Verifier:
    try:
        found = point.load()
    except Exception as fault:
        raise BadVerifier(f"verifier {point.name!r} ({point.value}) does not load: {fault}") from fault
    return _as_verifier(found, point.name)


def _from_file(path: Path, attribute: str) -> Verifier:
    module = _load(path)
    if attribute not in vars(module):
        raise BadVerifier(f"verifier file {path} has no {attribute!r}")
    return _as_verifier(vars(module)[attribute], attribute)


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadVerifier(f"verifier file {path} does not exist")
    name = f"_verifier_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadVerifier(f"verifier file {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up while it is executed.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        raise BadVerifier(f"verifier file {path} does not load: {type(fault).__name__}: {fault}") from fault
    return module


def _as_verifier(found: object, name: str | None) -> Verifier:
    if isinstance(found, type):
        found = _made(found)
    if isinstance(found, Verifier):
        return found
    if not callable(found):
        raise BadVerifier(f"{name or repr(found)[:60]} is neither a verifier nor a function")
    return FunctionVerifier(found, name)


def _made(factory: type) -> object:
    try:
        return factory()
    except Exception as fault:
        raise BadVerifier(f"verifier class {factory.__name__} cannot be made: {fault}") from fault
