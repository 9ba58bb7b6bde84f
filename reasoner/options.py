"""The options of one problem and of the engine: their names, types and defaults. docs/api.md explains each."""

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


class EngineOptions(TypedDict, total=False):
    """How a model is loaded. Every option may be left out; None means its default. `engine.config.EngineConfig` says
    what each means and what it refuses.

    device: cpu (the default) or cuda. dtype: auto, float32 (CPU only), bfloat16. threads: of the CPU. kv_tokens: that
    the KV cache holds, for all paths together. context_length: tokens, to lower the model's own. max_paths: that
    decode at once (64). step_tokens: of one step, decoding paths and prompts together. queue_steps: that are queued at
    once while nobody can act on a token. own_process: the step loop runs in a process of its own.

    On a GPU only. capture_sizes: numbers of rows, ascending, that are captured as CUDA graphs. enforce_eager: none is.
    batch_invariant: a path's tokens do not depend on what runs beside it. memory_share: of the card's memory (0.92).
    """

    device: str
    dtype: str
    threads: int | None
    kv_tokens: int | None
    context_length: int | None
    max_paths: int | None
    step_tokens: int | None
    queue_steps: int | None
    own_process: bool
    capture_sizes: tuple[int, ...] | None
    enforce_eager: bool
    batch_invariant: bool
    memory_share: float | None
