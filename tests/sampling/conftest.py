"""Helpers of the sampler tests: states with paths in them, and runs over fixed logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from engine.sampling import SamplerState
from engine.types import Phase, SamplingParams

MakeState = Callable[..., SamplerState]


@pytest.fixture
def make_state() -> MakeState:
    def make(
        params: Sequence[SamplingParams],
        vocab: int,
        *,
        seed: int = 1,
        eos_ids: tuple[int, ...] = (),
        prompt: Sequence[int] = (0,),
        slots: int | None = None,
        phase: Phase = Phase.UNDECIDED,
    ) -> SamplerState:
        state = SamplerState(slots or len(params), vocab, "cpu", eos_ids)
        for slot, each in enumerate(params):
            state.admit(slot, each, seed, slot, prompt, phase)
        return state

    return make


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(20)
