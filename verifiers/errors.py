"""Typed errors of this package: misuse by the caller, never the content of a candidate."""

from __future__ import annotations

from collections.abc import Iterable


class VerifierError(Exception):
    """Base of everything this package raises on purpose. Each message is one line."""


class UnknownVerifier(VerifierError, KeyError):
    """A name that no built-in verifier and no entry point has. `known`: the names that would have worked."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"unknown verifier {name!r}; known: {', '.join(self.known)}")

    def __str__(self) -> str:
        # KeyError would print the quoted repr of the message.
        return str(self.args[0])


class BadVerifier(VerifierError, ValueError):
    """A file, entry point or function that was found but is no verifier."""
