"""What a result means in words, and as an exit code. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engine.types import FinishReason
from reasoner.cli import text
from reasoner.cli.codes import NOT_SOLVED, OK
from reasoner.result import Outcome, PathResult, Result

_ENDS = {
    FinishReason.EOS: "ended without an answer",
    FinishReason.STOP_TOKEN: "hit a stop token",
    FinishReason.STOP_STRING: "hit a stop string",
    FinishReason.LENGTH: "ran out of tokens",
    FinishReason.CANCELLED: "were cancelled",
    FinishReason.ERROR: "failed",
    None: "were lost with the engine",
}


def exit_code(result: Result) -> int:
    """0: verified, or answered where no verifier was asked for. 1: anything else."""
    if result.verifier is None:
        return OK if result.answer is not None else NOT_SOLVED
    return OK if result.verified else NOT_SOLVED


def summary(result: Result) -> list[str]:
    """The lines under the table: what came out, what it cost, what to know about it."""
    lines = [headline(result), cost(result)]
    if result.oracle:
        lines.append(
            "oracle run: the known answer took part in the selection, so this says nothing about the policy"
        )
    return lines + [f"warning: {warning}" for warning in result.warnings]


def headline(result: Result) -> str:
    if result.answer is None:
        return f"no answer: {'; '.join(_ends(result.paths)) or 'no path ran'} ({result.stop})"
    chosen = f"path {result.selected_path} of {len(result.paths)}"
    if result.verified:
        return f"verified by {result.verifier}: {chosen}"
    if result.outcome is Outcome.UNSOLVED:
        return f"not verified by {result.verifier}: {chosen}, {result.why}"
    votes = next((v.count for v in result.votes if result.selected_path in v.paths), 0)
    tie = ", a tie" if result.tie else ""
    unjudged = f"; {result.verifier} gave no verdict" if result.verifier is not None else ""
    return f"answered: {chosen}, {text.plural(votes, 'vote')}{tie}{unjudged}"


def _ends(paths: tuple[PathResult, ...]) -> Iterator[str]:
    for reason, count in Counter(path.finish_reason for path in paths if path.answer is None).most_common():
        yield f"{text.plural(count, 'path')} {_ENDS[reason]}"


def cost(result: Result) -> str:
    usage, timing = result.usage, result.timing
    parts = [f"{text.count(usage.completion_tokens)} tokens"]
    if usage.cancelled_tokens:
        parts.append(f"{text.count(usage.cancelled_tokens)} of them in cancelled paths")
    parts += [text.seconds(timing.total_s), f"{timing.tokens_per_s:,.0f} tok/s", f"seed {result.seed}"]
    return ", ".join(parts)
