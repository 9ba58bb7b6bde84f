"""What a step must compute for the paths that are admitted: known on the host without asking the device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from engine.sampling.penalties import is_penalised
from engine.types import SamplingParams


class Filters(StrEnum):
    """How much of the distribution some path cuts off or changes. Each serves the paths of those before it, too."""

    NONE = "none"
    NUCLEUS = "nucleus"  # top-p and nothing else
    FULL = "full"  # top-k, min-p, penalties, bias, a minimum of thinking


@dataclass(frozen=True, slots=True)
class Variant:
    """One sequence of launches. What it leaves out would have changed no token."""

    filters: Filters = Filters.NONE
    statistics: bool = False
    logprobs: bool = False

    @classmethod
    def of(cls, admitted: Iterable[SamplingParams], vocab: int) -> Variant:
        every = list(admitted)
        if any(_is_shaped(params, vocab) for params in every):
            filters = Filters.FULL
        elif any(params.top_p < 1 and params.temperature > 0 for params in every):
            filters = Filters.NUCLEUS
        else:
            filters = Filters.NONE
        return cls(
            filters,
            statistics=any(params.statistics for params in every),
            logprobs=any(params.logprobs is not None for params in every),
        )


def _is_shaped(params: SamplingParams, vocab: int) -> bool:
    """A greedy path takes the best token, which no filter removes."""
    filtered = params.temperature > 0 and (0 < params.top_k < vocab or params.min_p > 0)
    bounded = params.thinking is not None and params.thinking.min_tokens > 0
    return filtered or bounded or bool(params.logit_bias) or is_penalised(params)
