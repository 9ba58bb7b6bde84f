"""A scripted reasoner in the place of a loaded one: the commands run for real, the tokens cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from reasoner import Reasoner
from reasoner.backends.scripted import ScriptedBackend, ScriptedPath

TEXT = "Use 3, 7 and 11 to make 56."
RIGHT = ScriptedPath(answer="The answer is \\boxed{7*(11-3)}.", think_tokens=20)
WRONG = ScriptedPath(answer="The answer is \\boxed{7*11-3}.", think_tokens=10)
SILENT = ScriptedPath(answer="I do not know.", think_tokens=5)
ENDLESS = ScriptedPath(answer="The answer is \\boxed{7*(11-3)}.", think_tokens=900)

Scripted = Callable[..., ScriptedBackend]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """scripted([paths], step_seconds=...) makes every `Reasoner.load` return those paths."""

    def put(
        paths: Sequence[ScriptedPath], *, step_seconds: float = 0.0, path_default: int = 1024
    ) -> ScriptedBackend:
        backend = ScriptedBackend(paths, step_seconds=step_seconds, path_default=path_default)
        monkeypatch.setattr(Reasoner, "load", lambda *_, **__: Reasoner(backend))
        return backend

    return put
