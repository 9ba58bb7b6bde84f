"""What a problem came to: one frozen object that survives JSON. docs/api.md shows it field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from engine.types import FinishReason
from reasoner.budget import Budget
from reasoner.codec import decode, dumps, encode
from reasoner.errors import BadRecord
from reasoner.sampling import Sampling
from verifiers.base import Verdict

SCHEMA_VERSION = 1


class Outcome(StrEnum):
    VERIFIED = "verified"          # the selected answer passed the verifier
    ANSWERED = "answered"          # there is an answer, and nothing says that it is right or wrong
    UNSOLVED = "unsolved"          # no answer, or the verifier failed the selected one


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one path. generated = think + answer + injected.

    think: sampled inside the thinking. answer: every other sampled token, so the two thinking markers and
    the end token too. injected: forced by a closed thinking budget.
    """

    generated: int
    think: int
    answer: int
    injected: int


@dataclass(frozen=True, slots=True)
class PathResult:
    """One path. seed and index determine it. finish_reason None: the backend died under it.

    answer and key: None where it gave no answer. verdict: None where it was not judged. Seconds since the
    start.
    """

    index: int
    seed: int
    finish_reason: FinishReason | None
    tokens: Tokens
    answer: str | None
    key: str | None
    text: str
    thinking: str | None
    closed: bool
    forced: bool
    verdict: Verdict | None
    cancelled: bool
    started_s: float
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class Vote:
    """One class of equal answers among the paths that ended by themselves. answer: as its first path wrote
    it.
    """

    key: str
    answer: str
    count: int
    paths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the problem: completion_tokens = think + answer + injected tokens of all paths, cancelled
    included.

    prompt_tokens: length of the prompt, once. prefilled_tokens: prompt tokens that were computed.
    cancelled_tokens: the part of completion_tokens that went into cancelled paths. critical_path_tokens: the
    longest chain of tokens that had to be decoded one after the other. after_stop_tokens: the part that
    arrived after the policy had stopped. verifier_seconds: summed over all verdicts.
    """

    prompt_tokens: int
    prefilled_tokens: int
    completion_tokens: int
    think_tokens: int
    answer_tokens: int
    injected_tokens: int
    cancelled_tokens: int
    critical_path_tokens: int
    after_stop_tokens: int
    verifier_seconds: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds since the problem started; None where it never happened. tokens_per_s: of all generated
    tokens.
    """

    total_s: float
    first_answer_s: float | None
    first_verified_s: float | None
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    name: str
    version: int
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """answer: as extracted; text: the selected path's whole answer. None and "" where there is none.

    verified: a verifier passed the selected answer. oracle: the gold answer took part in the selection, so
    the run says nothing about what the policy is worth. stop: why the problem ended, a word of the policy or
    the driver; why: why this answer. tie: another class has as many votes as the selected one.
    """

    answer: str | None
    text: str
    outcome: Outcome
    verified: bool
    oracle: bool
    selected_path: int | None
    stop: str
    why: str
    tie: bool
    votes: tuple[Vote, ...]
    paths: tuple[PathResult, ...]
    usage: Usage
    timing: Timing
    policy: PolicyRecord
    verifier: str | None
    model: Mapping[str, Any]
    seed: int
    sampling: Sampling
    budget: Budget
    problem_id: str = ""
    warnings: tuple[str, ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)

    def to_json(self) -> dict[str, Any]:
        return encode(self)  # type: ignore[no-any-return]

    def to_line(self) -> str:
        """The same as one line of text."""
        return dumps(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Result:
        """Raises BadRecord for another schema version, or a field too many or too few."""
        version = raw.get("schema_version")
        if version != SCHEMA_VERSION:
            raise BadRecord(f"a result of schema version {version}; this program reads {SCHEMA_VERSION}")
        return decode(cls, raw)

    def without_bodies(self) -> Result:
        """The same without the texts of the paths, which are most of its size."""
        return replace(self, paths=tuple(replace(p, text="", thinking=None) for p in self.paths))
