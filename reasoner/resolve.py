"""From what the user said to a Plan, or to one clear error: nothing has run yet."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from reasoner import budget as budgets
from reasoner import sampling as samplings
from reasoner.backends.protocol import Backend, Prompt
from reasoner.checking import Checker
from reasoner.errors import InvalidRequest, MissingCapability, UnknownName
from reasoner.options import VerifierLike
from reasoner.plan import Plan
from reasoner.policies import registry
from reasoner.policies.base import Capabilities, Capability, Policy
from reasoner.problem import Problem
from verifiers.base import Verifier

SEEDS = 2**31                      # drawn seeds stay exact in every JSON reader
MAX_SEED = 2**63
SAMPLING_NAMES = frozenset(f.name for f in fields(samplings.Sampling))


def resolve(
    problem: Problem | str | Sequence[Mapping[str, str]],
    backend: Backend,
    *,
    policy: str | type[Policy] | Policy | None = None,
    n: int | None = None,
    policy_params: Mapping[str, Any] | None = None,
    verifier: VerifierLike | None = None,
    verifier_timeout: float = 60.0,
    answer: str | None = None,
    budget: int | None = None,
    path_budget: int | None = None,
    think_budget: int | None = None,
    min_think: int = 0,
    answer_reserve: int | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] = (),
    enable_thinking: bool | None = None,
    events: str | Path | None = None,
    progress_every: int = 32,
    keep_thinking: bool = True,
    **sampling: float | None,
) -> Plan:
    """Checks everything. Raises InvalidRequest, UnknownName, MissingCapability, BadPolicy; TypeError for an
    option that does not exist.
    """
    unknown = sorted(set(sampling) - SAMPLING_NAMES)
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}")
    asked = problem_of(problem, answer)
    judge = verifier_of(verifier)
    if judge is not None and judge.needs_gold and asked.answer is None:
        raise InvalidRequest(f"verifier {judge.name!r} compares with the known answer: give it (answer=...), or leave "
                             "the verifier out to vote without one")
    if not (isinstance(verifier_timeout, (int, float)) and math.isfinite(verifier_timeout) and verifier_timeout > 0):
        raise InvalidRequest(f"verifier_timeout must be a number of seconds > 0, got {verifier_timeout!r}")
    if progress_every < 1:
        raise InvalidRequest(f"progress_every must be >= 1, got {progress_every}")
    chosen = registry.create(policy or ("majority" if judge is None else "first_verified"), n, policy_params)
    prompt = prompt_of(asked, backend, enable_thinking)
    needs = budgets.Asked(budget, path_budget, think_budget, min_think, answer_reserve)
    return Plan(
        problem=asked,
        policy=chosen,
        capabilities=capabilities_of(chosen, backend, prompt, judge, needs),
        checker=Checker(asked, judge or default_extractor(), judge, float(verifier_timeout)),
        facts=backend.facts,
        prompt=prompt,
        sampling=samplings.resolve(backend.facts.sampling, sampling),
        seed=seed_of(seed),
        stop=stops_of(stop),
        events=path_of(events),
        progress_every=progress_every,
        keep_thinking=keep_thinking,
        warnings=warnings_of(answer, judge),
    )


def problem_of(problem: Problem | str | Sequence[Mapping[str, str]], answer: str | None) -> Problem:
    try:
        found = Problem.of(problem)
    except (KeyError, TypeError, AttributeError):
        raise InvalidRequest("a problem is a text, a Problem, or messages with `role` and `content`") from None
    return found if answer is None else replace(found, answer=answer)


def verifier_of(verifier: VerifierLike | None) -> Verifier | None:
    if verifier is None:
        return None
    from verifiers import registry as verifier_registry
    from verifiers.errors import UnknownVerifier, VerifierError

    try:
        return verifier_registry.get(verifier)
    except UnknownVerifier as error:
        raise UnknownName("verifier", error.name, error.known) from None
    except VerifierError as error:
        raise InvalidRequest(str(error)) from None


def default_extractor() -> Verifier:
    """Reads answers where no verifier was asked for."""
    from verifiers.math import Math

    return Math()


def prompt_of(problem: Problem, backend: Backend, enable_thinking: bool | None) -> Prompt:
    prompt = backend.prepare(problem.messages, enable_thinking)
    context = backend.facts.card.context_length
    if prompt.tokens >= context:
        raise InvalidRequest(f"the prompt has {prompt.tokens} tokens; the model's context holds {context}, prompt and "
                             "generated tokens together")
    return prompt


def capabilities_of(policy: Policy, backend: Backend, prompt: Prompt, judge: Verifier | None,
                    asked: budgets.Asked) -> Capabilities:
    """Raises MissingCapability where the policy needs more than this run has."""
    facts = backend.facts
    able = set(facts.able)
    if judge is not None:
        able.add(Capability.VERIFIER)
    if not prompt.thinks:
        able.discard(Capability.CLOSE_THINKING)
    missing = policy.requires - able
    if missing:
        raise MissingCapability(policy.name, missing, registry.working_with(frozenset(able)))
    room = budgets.Room(
        context_left=facts.card.context_length - prompt.tokens,
        path_default=facts.path_default,
        thinks=prompt.thinks,
        close=facts.close,
        margin=facts.margin,
        memory_left=None if facts.kv_tokens is None else facts.kv_tokens - prompt.tokens,
    )
    return Capabilities(frozenset(able), budgets.resolve(asked, room, policy.n))


def seed_of(seed: int | None) -> int:
    if seed is None:
        return secrets.randbelow(SEEDS)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < MAX_SEED:
        raise InvalidRequest(f"seed must be a whole number in [0, 2**63), got {seed!r}")
    return seed


def path_of(events: str | Path | None) -> Path | None:
    if events is None or isinstance(events, (str, Path)):
        return None if events is None else Path(events)
    raise InvalidRequest(f"events must name a file, got {events!r}")


def stops_of(stop: str | Sequence[str]) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop) if isinstance(stop, Sequence) else (None,)
    if any(not isinstance(text, str) or not text for text in stops):
        raise InvalidRequest("a stop string must be a text that is not empty")
    return stops


def warnings_of(answer: str | None, judge: Verifier | None) -> tuple[str, ...]:
    if answer is None:
        return ()
    if judge is None:
        raise InvalidRequest("a known answer was given, but no verifier to compare with it: name one")
    if judge.needs_gold:
        return ()
    return (f"the known answer was not used: verifier {judge.name!r} judges without one",)
