"""Typed errors of the token level. Each message is one line that says what to do."""

from __future__ import annotations


class EngineError(Exception):
    """Base of everything the engine raises on purpose."""


class InvalidParameter(EngineError, ValueError):
    """A sampling or engine parameter that is out of range or cannot be honoured."""


class DoesNotFit(EngineError, ValueError):
    """A group that can never run here; the message carries the numbers."""


class ModelLoadError(EngineError):
    """A model folder that cannot be loaded; names the file or tensor, expected and found."""


class EngineClosed(EngineError):
    """The engine was closed, or its loop died; the message carries the cause."""


def error_named(kind: str, message: str) -> EngineError:
    """The exception that crossed a process boundary as its class's name and its text."""
    known = (InvalidParameter, DoesNotFit, ModelLoadError, EngineClosed)
    return {cls.__name__: cls for cls in known}.get(kind, EngineError)(message)
