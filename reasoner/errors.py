"""Typed errors of the problem level. Each message is one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterable


class ReasonerError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidRequest(ReasonerError, ValueError):
    """A parameter that is out of range or cannot be honoured."""


class UnknownName(ReasonerError, KeyError):
    """A policy, verifier, task or model that is not registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(self.known)}")

    def __str__(self) -> str:
        return str(self.args[0])


class MissingCapability(ReasonerError, ValueError):
    """A policy that needs what this run does not have. `works`: the policies that need nothing more."""

    def __init__(self, policy: str, missing: Iterable[str], works: Iterable[str]) -> None:
        self.policy, self.missing, self.works = policy, tuple(sorted(missing)), tuple(sorted(works))
        super().__init__(
            f"policy {policy!r} needs {', '.join(self.missing)}, which this run does not have; "
            f"policies that would work: {', '.join(self.works) or 'none'}"
        )


class ModelError(ReasonerError):
    """A model that cannot be found or loaded; the message names it and what is wrong."""


class BackendFailed(ReasonerError, RuntimeError):
    """The engine or server behind a run stopped working; the message carries the cause."""


class BadPolicy(ReasonerError, TypeError):
    """A file, entry point or class that was found but is no policy."""


class BadRecord(ReasonerError, ValueError):
    """A stored event, action, log or result that cannot be read."""
