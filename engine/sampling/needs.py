"""Which parts of the sampler the admitted paths need, known on the host without asking the device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.sampling.filters import filter_width
from engine.sampling.penalties import is_penalised
from engine.sampling.statistics import CONFIDENT
from engine.types import SamplingParams


@dataclass(frozen=True, slots=True)
class Needs:
    """The union over all admitted slots. A part that is skipped would have changed no bit of any row."""

    noise: bool = False  # some path is not greedy
    greedy: bool = False  # some path is
    temperature: bool = False  # some temperature is neither 0 nor 1
    penalties: bool = False
    bias: bool = False
    filter_width: int = 0  # columns that the widest filter must see; 0: no filters
    nucleus: bool = False  # some path has top-p
    min_thinking: bool = False
    hold: bool = False  # some path is to be held when its thinking has ended
    logprobs: bool = False
    top_logprobs: int = 0
    statistics: bool = False
    top: int = 0  # most likely tokens that are looked at for these two

    @classmethod
    def of(cls, admitted: Iterable[SamplingParams], vocab_size: int) -> Needs:
        every = list(admitted)
        top_logprobs = min(max((params.logprobs or 0 for params in every), default=0), vocab_size)
        statistics = any(params.statistics for params in every)
        return cls(
            noise=any(params.temperature > 0 for params in every),
            greedy=any(params.temperature == 0 for params in every),
            temperature=any(params.temperature not in (0, 1) for params in every),
            penalties=any(is_penalised(params) for params in every),
            bias=any(params.logit_bias for params in every),
            filter_width=max((filter_width(params, vocab_size) for params in every), default=0),
            nucleus=any(params.top_p < 1 for params in every),
            min_thinking=any(
                params.thinking is not None and params.thinking.min_tokens > 0 for params in every
            ),
            hold=any(params.thinking is not None and params.thinking.hold for params in every),
            logprobs=any(params.logprobs is not None for params in every),
            top_logprobs=top_logprobs,
            statistics=statistics,
            top=max(top_logprobs, min(CONFIDENT, vocab_size)) if statistics else top_logprobs,
        )
