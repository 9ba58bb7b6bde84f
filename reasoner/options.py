"""The options of one problem: their names, types and defaults. docs/api.md explains each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from reasoner.policies.base import Policy
from verifiers.base import Verifier

VerifierLike = str | Verifier | Callable[..., Any]


class Options(TypedDict, total=False):
    """Every option may be left out; None means its default. Budgets are in generated tokens.

    policy: a name, `path.py:Name`, a Policy class or object; default first_verified with a verifier, else
    majority. n: paths; default the policy's, 16. policy_params: its other parameters. verifier: a name,
    `path.py:Name`, a Verifier or a function. verifier_timeout: seconds (60). answer: the gold answer.

    budget: of the whole problem (no bound). path_budget: of each path (what the model's folder recommends,
    4,096 for the embedded model, else 32,768; never more than the context holds). think_budget: tokens of
    thinking a path (no bound). min_think: thinking does not end before (0). answer_reserve: kept for a
    path's answer when thinking is closed by force (an eighth of a path's tokens, at least 32, at most
    1,024).

    seed: drawn and reported where it is None. temperature ... frequency_penalty: the model's recommended
    values. stop: strings that end an answer. enable_thinking: for the chat template. events: a file for the
    event log. progress_every: tokens of a path between two Progress events (32). keep_thinking: thoughts go
    into the result.
    """

    policy: str | type[Policy] | Policy | None
    n: int | None
    policy_params: Mapping[str, Any] | None
    verifier: VerifierLike | None
    verifier_timeout: float
    answer: str | None
    budget: int | None
    path_budget: int | None
    think_budget: int | None
    min_think: int
    answer_reserve: int | None
    seed: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    stop: str | Sequence[str]
    enable_thinking: bool | None
    events: str | Path | None
    progress_every: int
    keep_thinking: bool
