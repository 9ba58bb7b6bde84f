"""What the user asks, and the part of it that a policy may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reasoner.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str

    def to_json(self) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class Problem:
    """messages: the conversation that ends with the user's turn. answer: gold answer, if known.
    data: JSON values that a verifier needs (numbers and target, tests). id: for records and reports."""

    messages: tuple[Message, ...]
    answer: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    def __post_init__(self) -> None:
        if not self.messages or not self.messages[-1].content.strip():
            raise InvalidRequest("the problem is empty")
        for message in self.messages:
            try:
                message.content.encode()
            except UnicodeEncodeError:
                raise InvalidRequest("the problem is not valid Unicode text") from None

    @property
    def prompt(self) -> str:
        return self.messages[-1].content

    @classmethod
    def of(cls, problem: Problem | str | Sequence[Mapping[str, str]]) -> Problem:
        """A problem from itself, from the user's text, or from OpenAI-style messages."""
        if isinstance(problem, Problem):
            return problem
        if isinstance(problem, str):
            return cls((Message("user", problem),))
        return cls(tuple(Message(m["role"], m["content"]) for m in problem))


@dataclass(frozen=True, slots=True)
class Task:
    """A problem as a policy sees it: no gold answer, no hidden tests. Made only by `Task.of`."""

    messages: tuple[Message, ...]
    id: str = ""

    @classmethod
    def of(cls, problem: Problem) -> Task:
        return cls(problem.messages, problem.id)
