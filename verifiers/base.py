"""What every verifier sees and what it says: Problem, Candidate, Verdict, and the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


class Outcome(StrEnum):
    """`unknown` says that nothing was learnt (unusable gold, a fault of ours); it is never a fail."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem as a verifier sees it.

    prompt: the user's text. answer: the gold answer, where there is one. data: what a task knows beyond it
    (numbers and target of a countdown problem, tests of a program); JSON values only.
    """

    prompt: str
    answer: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One path's output as a verifier sees it.

    text: what follows the closed thinking (all of the output where the model does not think).
    thinking: the text inside it. closed: False where thinking never ended, and then there is no answer.
    """

    text: str
    thinking: str = ""
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """outcome, score in [0, 1] (None exactly where the outcome is unknown), and why.

    status: a short machine-readable word for the reason (`ok`, `wrong`, `no_answer`, `bad_gold`, `error`).
    reason: one sentence for people. answer: what was extracted. elapsed: seconds.
    """

    outcome: Outcome
    score: float | None
    status: str
    reason: str
    answer: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    elapsed: float = 0.0

    def __post_init__(self) -> None:
        if (self.score is None) != (self.outcome is Outcome.UNKNOWN):
            raise ValueError("score is None exactly where the outcome is unknown")
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            raise ValueError(f"score must lie in [0, 1], got {self.score}")

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASS

    def with_elapsed(self, seconds: float) -> Verdict:
        return replace(self, elapsed=seconds)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"outcome": self.outcome.value, "details": dict(self.details)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Verdict:
        return cls(**{**raw, "outcome": Outcome(raw["outcome"])})


def passed(reason: str, *, answer: str | None = None, status: str = "ok", **details: Any) -> Verdict:
    return Verdict(Outcome.PASS, 1.0, status, reason, answer, details)


def failed(reason: str, *, answer: str | None = None, status: str = "wrong", **details: Any) -> Verdict:
    return Verdict(Outcome.FAIL, 0.0, status, reason, answer, details)


def unknown(reason: str, *, answer: str | None = None, status: str = "error", **details: Any) -> Verdict:
    return Verdict(Outcome.UNKNOWN, None, status, reason, answer, details)


@runtime_checkable
class Verifier(Protocol):
    """Scores candidates of one problem. Never raises for what a candidate contains.

    `extract` gives the answer string that votes and verdicts are about (None: no answer).
    `canonical` maps an extracted answer to its vote class: equal answers, equal strings.
    `needs_gold`: True where a verdict is impossible without the gold answer (an oracle run when it selects).
    """

    name: str
    needs_gold: bool

    def extract(self, problem: Problem, candidate: Candidate) -> str | None: ...

    def canonical(self, problem: Problem, answer: str) -> str: ...

    async def verify(self, problem: Problem, candidate: Candidate) -> Verdict: ...

    async def verify_many(self, problem: Problem, candidates: Sequence[Candidate]) -> list[Verdict]: ...
