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
