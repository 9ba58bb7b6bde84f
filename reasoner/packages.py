"""Finds packages of other projects that carry the names of ours.

The package index has another `verifiers`, and `engine` is no rare name. Either can hide ours, or overwrite
its files in the same folder; what then fails is an import or an attribute far away from the cause.
"""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from reasoner.errors import ReasonerError

DISTRIBUTION = "reasoner-serve"
SIBLINGS = ("engine", "verifiers")


class ForeignPackage(ReasonerError, ImportError):
    """`engine` or `verifiers` on the path is not the one that belongs to this package."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One of our packages that cannot be used, in a sentence that says what to do."""

    name: str
    message: str


def findings(
    root: Path | None = None,
    find: Callable[[str], ModuleSpec | None] = find_spec,
    record: Callable[[Path], str] | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with our sibling packages; empty where all is well. Imports none of them."""
    root = (root or Path(__file__).parent.parent).resolve()
    overwritten = set(_overwritten(root, (record or _record)(root)))
    return tuple(
        Finding(name, message)
        for name in SIBLINGS
        if (message := _judge(name, root, find(name), overwritten))
    )


def check(root: Path | None = None) -> None:
    """Raises ForeignPackage where a package of another project stands in the place of ours."""
    for finding in findings(root):
        raise ForeignPackage(finding.message)


def _judge(name: str, root: Path, spec: ModuleSpec | None, overwritten: set[str]) -> str:
    remedy = (
        f"run `pip uninstall {name}` and reinstall {DISTRIBUTION}, or use a virtual environment of its own"
    )
    if spec is None:
        return f"the package {name!r} of {DISTRIBUTION} is missing; reinstall {DISTRIBUTION}"
    place = _folder(spec)
    if place != root / name:
        return f"another package named {name!r} at {place} hides the one of {DISTRIBUTION}: {remedy}"
    if name in overwritten:
        return f"another package named {name!r} has overwritten {place}: {remedy}"
    return ""


def _folder(spec: ModuleSpec) -> Path | None:
    if spec.origin is not None:
        origin = Path(spec.origin).resolve()
        return origin.parent if origin.name == "__init__.py" else origin
    places = list(spec.submodule_search_locations or ())
    return Path(places[0]).resolve() if places else None


def _record(root: Path) -> str:
    """The installer's list of files and hashes; empty where the project runs from its source folder."""
    if not {"site-packages", "dist-packages"} & set(root.parts):
        return ""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(DISTRIBUTION).read_text("RECORD") or ""
    except PackageNotFoundError:
        return ""


def _overwritten(root: Path, record: str) -> Iterator[str]:
    """Names of our packages whose `__init__.py` is not the one that was installed with us."""
    for path, expected, *_ in _rows(record.splitlines()):
        parts = Path(path).parts
        if len(parts) == 2 and parts[0] in SIBLINGS and parts[1] == "__init__.py" and (root / path).exists():
            digest = hashlib.sha256((root / path).read_bytes()).digest()
            if expected != "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("="):
                yield parts[0]


def _rows(lines: Iterable[str]) -> Iterator[list[str]]:
    return (row for row in csv.reader(lines) if len(row) >= 2)
