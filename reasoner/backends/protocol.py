"""What the driver asks of whatever generates tokens: a prompt, a session of N paths, and its events.

A backend adapts a model; a session is one problem inside it. The session's events follow the engine's
promises: each path ends in exactly one PathEnded, cancelled ones included, and SessionEnded is the last
event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.types import EngineStats, FinishReason, Phase
from reasoner.policies.base import Capability
from reasoner.problem import Message
from reasoner.sampling import Sampling


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The model behind a backend. context_length in tokens, prompt and generation together."""

    name: str
    family: str = ""
    context_length: int = 0
    dtype: str = ""
    device: str = ""
    parameters: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change while a backend lives.

    able: what its sessions can do. sampling: the model's recommended values. path_default: tokens of a path
    that are recommended for the model, None where nobody says. close: tokens that a forced close injects.
    margin: tokens a path may still commit after a command was sent. kv_tokens: what one path's prompt and
    generation may hold in memory, None for no bound below the context.
    """

    card: ModelCard
    able: frozenset[Capability]
    sampling: Sampling
    path_default: int | None = None
    close: int = 0
    margin: int = 1
    kv_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation, ready for the model. tokens: its length. ids: empty where the backend counts elsewhere.

    thinks: the model may think after this prompt, and its thinking can be closed.
    """

    messages: tuple[Message, ...]
    tokens: int
    thinks: bool
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """n paths over one prompt. Budgets in generated tokens of one path; see reasoner.budget.Budget. watched: what
    comes out may lead to an action before the path has ended; where it cannot, a backend may deliver several tokens at
    once."""

    prompt: Prompt
    n: int
    seed: int
    sampling: Sampling
    path_budget: int
    think_budget: int | None = None
    min_think: int = 0
    answer_reserve: int = 0
    stop: tuple[str, ...] = ()
    watched: bool = True


@dataclass(frozen=True, slots=True)
class PathAdvanced:
    """One path after new tokens. Counts are totals so far; thinking and text are what these tokens added."""

    index: int
    phase: Phase
    think: int
    generated: int
    injected: int
    thinking: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Advanced:
    """New tokens, at most one entry per path."""

    paths: tuple[PathAdvanced, ...]


@dataclass(frozen=True, slots=True)
class PathEnded:
    """The last word on a path. thinking, text: all of it. closed: False where its thinking never ended."""

    index: int
    reason: FinishReason
    think: int
    generated: int
    injected: int
    thinking: str
    text: str
    closed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """Every path has ended and everything that the session held is free. prefilled: prompt tokens computed.
    """

    prompt_tokens: int
    prefilled_tokens: int


SessionEvent = Advanced | PathEnded | SessionEnded


class Session(Protocol):
    """One problem inside a backend."""

    def events(self) -> AsyncIterator[SessionEvent]:
        """Single consumer; ends after SessionEnded. Raises BackendFailed if the backend dies first."""
        ...

    async def add_paths(self, n: int) -> range:
        """Starts n more paths and returns their indices. Raises InvalidRequest, BackendFailed."""
        ...

    async def cancel(self, indices: Sequence[int]) -> int:
        """Ends these paths and returns the tokens they had generated; what they held is free on return. No
        Advanced for them follows. Unknown and ended paths count nothing."""
        ...

    async def close_thinking(self, indices: Sequence[int]) -> None:
        """Closes the thinking of those of these paths that think now; nothing on others."""
        ...

    async def close(self) -> None:
        """Ends whatever lives and frees everything; SessionEnded follows. Idempotent, never raises."""
        ...


class Backend(Protocol):
    """A model that sessions can be opened on."""

    @property
    def facts(self) -> Facts: ...

    def prepare(self, messages: tuple[Message, ...], enable_thinking: bool | None) -> Prompt:
        """Applies the chat template; enable_thinking None leaves the choice to it. Raises InvalidRequest."""
        ...

    async def open(self, request: SessionRequest) -> Session:
        """Starts the first paths. Raises InvalidRequest where they can never run here, BackendFailed."""
        ...

    def stats(self) -> EngineStats: ...

    async def close(self) -> None: ...
