"""Events of what a step committed: from one column a row to one entry a path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

from engine.scheduler.columns import Slots
from engine.scheduler.outcome import Outcome
from engine.scheduler.plan import StepResult
from engine.scheduler.state import GroupEntry
from engine.types import (
    Committed,
    GroupFinished,
    PathTokens,
    PathUsage,
    Phase,
    Statistic,
    TokenLogprobs,
)

PHASES = tuple(Phase)
STATISTICS = {statistic: column for column, statistic in enumerate(Statistic)}


def committed(result: StepResult, outcome: Outcome) -> Iterator[tuple[int, Committed]]:
    """(group id, event) for each group that the step gave tokens to."""
    rows = outcome.rows
    columns = (
        outcome.indices.tolist(),
        token_ids(result, rows),
        [PHASES[phase] for phase in result.phase[rows].tolist()],
        result.think[rows].tolist(),
        result.generated[rows].tolist(),
        result.injected[rows].tolist(),
    )
    measured = [] if result.statistics is None else result.statistics.T[:, rows].tolist()
    for share in outcome.shares:
        mine = slice(share.start, share.stop)
        sampling = share.entry.group.sampling
        logprobs = token_logprobs(result, rows[mine], sampling.logprobs)
        asked = [measured[STATISTICS[statistic]][mine] for statistic in sampling.statistics]
        statistics: Iterable[tuple[float, ...]] = zip(*asked, strict=True) if asked else repeat(())
        paths = map(PathTokens, *[column[mine] for column in columns], logprobs, statistics)
        yield share.entry.id, Committed(result.step, tuple(paths))


def token_ids(result: StepResult, rows: Slots) -> list[tuple[int, ...]]:
    ids = list(zip(*result.tokens[:, rows].tolist(), strict=True))
    count = result.count[rows]
    for i in (count < len(result.tokens)).nonzero()[0].tolist():
        ids[i] = ids[i][: count[i]]
    return ids


def token_logprobs(result: StepResult, rows: Slots, k: int | None) -> Iterable[tuple[TokenLogprobs, ...]]:
    """k: as the group asked for them; the step may have computed more for a neighbour."""
    if k is None:
        return repeat(())
    assert result.logprobs is not None
    assert result.top_ids is not None
    assert result.top_logprobs is not None
    chosen = result.logprobs.T[rows].tolist()
    ids = result.top_ids.swapaxes(0, 1)[rows, :, :k].tolist()
    values = result.top_logprobs.swapaxes(0, 1)[rows, :, :k].tolist()
    return [
        tuple(
            TokenLogprobs(chosen[i][at], tuple(zip(ids[i][at], values[i][at], strict=True)))
            for at in range(count)
        )
        for i, count in enumerate(result.count[rows].tolist())
    ]


def group_finished(entry: GroupEntry) -> GroupFinished:
    usages = [path.usage for path in entry.paths.values()]
    total = PathUsage(
        sum(u.generated for u in usages), sum(u.think for u in usages), sum(u.injected for u in usages)
    )
    return GroupFinished(len(entry.group.prompt_ids), entry.prefilled, total)
