"""Problem level: one problem, N long paths, one verified answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reasoner.api import Reasoner
    from reasoner.errors import ReasonerError
    from reasoner.problem import Problem
    from reasoner.result import Result

__all__ = ["Problem", "Reasoner", "ReasonerError", "Result"]


def __getattr__(name: str) -> object:
    """Imported on first use: every subcommand and submodule passes through this file."""
    if name not in __all__:
        raise AttributeError(f"module 'reasoner' has no attribute {name!r}")
    from reasoner import api, errors, problem, result

    homes = {"Problem": problem, "Reasoner": api, "ReasonerError": errors, "Result": result}
    return vars(homes[name])[name]
