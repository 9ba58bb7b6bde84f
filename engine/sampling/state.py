"""The sampler's state: one column or row per slot, written when a slot changes owner, advanced by each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.errors import InvalidParameter
from engine.sampling.bias import Bias
from engine.sampling.counters import Counters
from engine.sampling.filters import Filters
from engine.sampling.gumbel import Noise
from engine.sampling.limits import Limits, limit_column
from engine.sampling.needs import Needs
from engine.sampling.penalties import Penalties
from engine.sampling.statistics import Statistics
from engine.sampling.stops import FinishCode, Stops
from engine.sampling.temperature import Temperature
from engine.sampling.thinking import ThinkingBudget
from engine.types import Phase, SamplingParams

_MAX_THINK = Limits._fields.index("max_think")
_FINISH = Counters._fields.index("finish")


def check_ids(params: SamplingParams, vocab_size: int) -> None:
    """Raise InvalidParameter where a token id of `params` is not in the vocabulary."""
    named = {"stop_ids": params.stop_ids, "logit_bias": tuple(token for token, _ in params.logit_bias)}
    if params.thinking is not None:
        named["thinking"] = (params.thinking.open_id, *params.thinking.close_ids)
    for name, ids in named.items():
        for token in ids:
            if not 0 <= token < vocab_size:
                raise InvalidParameter(f"{name}: token {token} is outside the vocabulary of {vocab_size}")


class SamplerState:
    """State of up to `slots` paths. counters: [5, slots] int64, see `Counters`; limits: [8, slots]
    int64, see `Limits`.

    A slot belongs to one path from `admit` to `release`. `admit` may replace the tensors of penalties, bias,
    close ids, stop ids and statistics by larger ones; nothing else allocates.
    """

    def __init__(
        self, slots: int, vocab_size: int, device: torch.device | str, eos_ids: tuple[int, ...]
    ) -> None:
        device = torch.device(device)
        self.vocab_size = vocab_size
        self.counters = torch.zeros((len(Counters._fields), slots), dtype=torch.int64, device=device)
        self.limits = torch.zeros((len(Limits._fields), slots), dtype=torch.int64, device=device)
        self.noise = Noise(slots, vocab_size, device)
        self.temperature = Temperature(slots, device)
        self.filters = Filters(slots, vocab_size, device)
        self.penalties = Penalties(slots, vocab_size, device)
        self.bias = Bias(slots, device)
        self.thinking = ThinkingBudget(slots, device)
        self.stops = Stops(slots, tuple(i for i in eos_ids if i < vocab_size), device)
        self.statistics = Statistics(slots, device)
        self._admitted: dict[int, SamplingParams] = {}
        # The paths of a group share one SamplingParams: what is needed is a question to a few distinct values.
        self._distinct: Counter[SamplingParams] = Counter()
        self._needs: Needs | None = Needs()

    @property
    def needs(self) -> Needs:
        if self._needs is None:
            self._needs = Needs.of(self._distinct, self.vocab_size)
        return self._needs

    def admit(
        self,
        slot: int,
        params: SamplingParams,
        seed: int,
        index: int,
        prompt_ids: Sequence[int],
        phase: Phase,
    ) -> None:
        """Give a slot to the path `index` of the group with this seed, before its first token.

        prompt_ids are read only for a repetition penalty. phase: see `thinking.opening_phase`.
        """
        if slot in self._admitted:
            raise ValueError(f"slot {slot} is taken")
        if phase == Phase.THINKING and params.thinking is None:
            raise ValueError("a path without thinking markers cannot start inside the thinking")
        check_ids(params, self.vocab_size)
        opening = {"phase": int(phase), "finish": int(FinishCode.RUNNING)}
        self.counters[:, slot] = torch.tensor([opening.get(name, 0) for name in Counters._fields])
        self.limits[:, slot] = torch.tensor(limit_column(params))
        self.noise.admit(slot, seed, index)
        self.temperature.admit(slot, params.temperature)
        self.filters.admit(slot, params)
        self.penalties.admit(slot, params, prompt_ids)
        self.bias.admit(slot, params)
        self.thinking.admit(slot, params.thinking)
        self.stops.admit(slot, params)
        self.statistics.admit(slot, params)
        self._admitted[slot] = params
        self._distinct[params] += 1
        self._needs = None

    def request_close(self, slot: int) -> None:
        """Close the thinking of a path by force at its next step, or as soon as it opens; nothing in an answer."""
        if self._admitted[slot].thinking is not None:
            self.limits[_MAX_THINK, slot] = 0

    def resume(self, slot: int) -> None:
        """A held path goes on, with the tokens that it would have had. Raises ValueError where it is not held."""
        if self.counters[_FINISH, slot] != FinishCode.HELD:
            raise ValueError(f"the path of slot {slot} is not held")
        self.counters[_FINISH, slot] = FinishCode.RUNNING

    def release(self, slot: int) -> None:
        """The slot's path has left. Its tensors keep their values until the next `admit`."""
        params = self._admitted.pop(slot)
        self._distinct[params] -= 1
        if not self._distinct[params]:
            del self._distinct[params]
        self._needs = None

    def read(self, slots: Tensor) -> tuple[Counters, Limits]:
        return (
            Counters(*self.counters.index_select(1, slots).unbind(0)),
            Limits(*self.limits.index_select(1, slots).unbind(0)),
        )

    def write(self, slots: Tensor, running: Tensor, counters: Counters) -> Counters:
        """Moves the running slots on to `counters`, each [rows] int64. Returns what every row has now."""
        before = self.counters.index_select(1, slots)
        after = torch.where(running, torch.stack(counters), before)
        self.counters.index_copy_(1, slots, after)
        return Counters(*after.unbind(0))
