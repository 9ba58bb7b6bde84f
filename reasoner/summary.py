"""From what a problem left behind to its Result: pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from engine.types import FinishReason
from reasoner.codec import encode
from reasoner.paths import PathTable
from reasoner.plan import Plan
from reasoner.result import Outcome, PolicyRecord, Result, Timing, Usage
from reasoner.view import PathView, View
from reasoner.votes import tally, tied
from verifiers.base import Outcome as Judgement


@dataclass
class Ending:
    """How a problem ended. tokens_at_stop: what all paths had generated when the policy stopped."""

    stop: str = "cancelled"
    selected: int | None = None
    why: str = ""
    tokens_at_stop: int | None = None
    oracle: bool = False
    prompt_tokens: int | None = None
    prefilled_tokens: int = 0
    total_s: float = 0.0
    first_answer_s: float | None = None
    first_verified_s: float | None = None


def summarise(plan: Plan, table: PathTable, view: View, ending: Ending, warnings: tuple[str, ...]) -> Result:
    selected = None if ending.selected is None else view.paths[ending.selected]
    votes = tally(view)
    budget = plan.capabilities.budget
    verifier = plan.checker.verifier
    return Result(
        answer=selected.answer if selected else None,
        text=table[selected.index].text if selected else "",
        outcome=outcome_of(selected),
        verified=selected is not None and selected.passed,
        oracle=ending.oracle,
        selected_path=ending.selected,
        stop=ending.stop,
        why=ending.why,
        tie=selected is not None and tied(votes, selected.key),
        votes=votes,
        paths=tuple(r.result(view.paths[r.index], plan.keep_thinking) for r in table),
        usage=usage_of(plan, table, ending),
        timing=timing_of(table, ending),
        policy=PolicyRecord(plan.policy.name, plan.policy.version, dict(plan.policy.params())),
        verifier=verifier.name if verifier else None,
        model=encode(plan.facts.card),
        seed=plan.seed,
        sampling=plan.sampling,
        budget=budget,
        problem_id=plan.problem.id,
        warnings=warnings,
    )


def outcome_of(selected: PathView | None) -> Outcome:
    if selected is None:
        return Outcome.UNSOLVED
    if selected.verdict is None or selected.verdict.outcome is Judgement.UNKNOWN:
        return Outcome.ANSWERED
    return Outcome.VERIFIED if selected.passed else Outcome.UNSOLVED


def usage_of(plan: Plan, table: PathTable, ending: Ending) -> Usage:
    records = list(table)
    total = sum(r.generated for r in records)
    at_stop = total if ending.tokens_at_stop is None else ending.tokens_at_stop
    return Usage(
        prompt_tokens=plan.prompt.tokens if ending.prompt_tokens is None else ending.prompt_tokens,
        prefilled_tokens=ending.prefilled_tokens,
        completion_tokens=total,
        think_tokens=sum(r.think for r in records),
        answer_tokens=sum(r.generated - r.think - r.injected for r in records),
        injected_tokens=sum(r.injected for r in records),
        cancelled_tokens=sum(r.generated for r in records if r.finish_reason is FinishReason.CANCELLED),
        critical_path_tokens=max((r.depth + r.generated for r in records), default=0),
        after_stop_tokens=total - at_stop,
        verifier_seconds=round(sum(r.verdict.elapsed for r in records if r.verdict is not None), 6),
    )


def timing_of(table: PathTable, ending: Ending) -> Timing:
    total = sum(r.generated for r in table)
    rate = round(total / ending.total_s, 3) if ending.total_s > 0 else 0.0
    return Timing(ending.total_s, ending.first_answer_s, ending.first_verified_s, rate)
