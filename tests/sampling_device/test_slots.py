"""The row that an admitted path gets, and what the admitted paths make a step compute."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from engine.errors import InvalidParameter
from engine.sampling.device.sampler import DeviceSampler
from engine.sampling.device.slots import CLOSE, CLOSE_IDS, ENDS, EOS_IDS, NEVER, STOP_IDS, WIDTH, Column
from engine.sampling.device.variant import Filters, Variant
from engine.sampling.stops import FinishCode
from engine.scheduler.plan import Admit
from engine.types import Phase, SamplingParams, Statistic, Thinking

OPEN, CLOSE_ID = 1, 2
PLAIN = SamplingParams(max_tokens=50)


def sampler(**how: object) -> DeviceSampler:
    settings: dict[str, object] = {"slots": 4, "vocab": 100, "eos_ids": (3, 4), "max_rows": 4}
    return DeviceSampler(device=torch.device("cpu"), **(settings | how))  # type: ignore[arg-type]


def admit(params: SamplingParams, slot: int = 0, prompt: tuple[int, ...] = (9, 9)) -> Admit:
    return Admit(slot, 3, 77, params, prompt, prompt[-1], len(prompt) - 1, 0, 0)


def test_a_row_holds_all_of_a_path() -> None:
    thinking = Thinking(
        OPEN, CLOSE_ID, (CLOSE_ID, 8), max_tokens=20, min_tokens=2, answer_reserve=5, hold=True
    )
    params = dataclasses.replace(PLAIN, temperature=0.5, top_k=7, top_p=0.9, min_p=0.1, stop_ids=(6, 5),
                                 presence_penalty=0.25, thinking=thinking, window=16)  # fmt: skip
    row = sampler().record(admit(params, prompt=(9, OPEN)))
    assert row.dtype == np.int32
    assert row.shape == (WIDTH,)
    whole = {
        Column.NEXT_ID: OPEN, Column.POSITION: 1, Column.GENERATED: 0, Column.THINK: 0, Column.FORCE: 0,
        Column.PHASE: Phase.THINKING, Column.FINISH: FinishCode.RUNNING, Column.MAX_TOKENS: 50, Column.OPEN_ID: OPEN,
        Column.CLOSE_ID: CLOSE_ID, Column.MAX_THINK: 20, Column.MIN_THINK: 2, Column.CLOSE_AT: 43,
        Column.FORCE_CYCLE: 3, Column.HOLD: 1, Column.TOP_K: 7, Column.PENALISED: 1, Column.BIASED: 0,
        Column.WINDOW: 16,
    }  # fmt: skip
    assert {column: row[column] for column in whole} == whole
    floats = row.view(np.float32)
    parts = {
        Column.TEMPERATURE: 0.5, Column.NOISE: 1, Column.TOP_P: np.float32(0.9), Column.PRESENCE: 0.25,
        Column.LOG_MIN_P: np.float32(math.log(0.1)), Column.REPETITION: 1, Column.FREQUENCY: 0, Column.LOWEST: math.inf,
    }  # fmt: skip
    assert {column: floats[column] for column in parts} == parts
    assert row[ENDS : ENDS + EOS_IDS].tolist() == [3, 4, *[-1] * (EOS_IDS - 2)]
    assert row[ENDS + EOS_IDS : CLOSE].tolist() == [6, 5, *[-1] * (STOP_IDS - 2)]
    assert row[CLOSE : CLOSE + 2].tolist() == [CLOSE_ID, 8]


def test_a_path_without_thinking_has_limits_that_no_count_reaches() -> None:
    row = sampler().record(admit(dataclasses.replace(PLAIN, max_tokens=2**40, ignore_eos=True)))
    for column in (Column.MAX_TOKENS, Column.MAX_THINK, Column.CLOSE_AT):
        assert row[column] == NEVER
    assert (row[ENDS:CLOSE] == -1).all()


def test_a_greedy_path_has_neither_noise_nor_filters() -> None:
    params = dataclasses.replace(PLAIN, temperature=0.0, top_k=5, top_p=0.2, min_p=0.3)
    row = sampler().record(admit(params))
    floats = row.view(np.float32)
    assert (floats[Column.TEMPERATURE], floats[Column.NOISE], floats[Column.TOP_P]) == (1, 0, 1)
    assert (row[Column.TOP_K], floats[Column.LOG_MIN_P]) == (0, -math.inf)


def test_ids_that_a_row_cannot_hold_are_refused() -> None:
    every = tuple(range(100))
    fits = dataclasses.replace(PLAIN, max_tokens=500, stop_ids=every[:STOP_IDS],
                               thinking=Thinking(OPEN, 0, every[:CLOSE_IDS]))  # fmt: skip
    assert sampler().record(admit(fits))[CLOSE + CLOSE_IDS - 1] == CLOSE_IDS - 1
    with pytest.raises(
        InvalidParameter, match=f"stop_ids must name at most {STOP_IDS} tokens on a GPU, got 57"
    ):
        sampler().record(admit(dataclasses.replace(PLAIN, stop_ids=every[: STOP_IDS + 1])))
    too_long = Thinking(OPEN, 0, every[: CLOSE_IDS + 1])
    with pytest.raises(InvalidParameter, match="close_ids"):
        sampler().record(admit(dataclasses.replace(fits, thinking=too_long)))
    with pytest.raises(InvalidParameter, match="outside the vocabulary"):
        sampler().record(admit(dataclasses.replace(PLAIN, stop_ids=(100,))))
    with pytest.raises(InvalidParameter, match="EOS"):
        sampler(eos_ids=every[: EOS_IDS + 1])


@pytest.mark.parametrize(
    ("change", "filters"),
    [
        ({}, Filters.NONE),
        ({"temperature": 0.0, "top_k": 5, "min_p": 0.1, "top_p": 0.5}, Filters.NONE),
        ({"top_k": 100}, Filters.NONE),
        ({"top_p": 0.9}, Filters.NUCLEUS),
        ({"top_p": 0.9, "top_k": 20}, Filters.FULL),
        ({"min_p": 0.1}, Filters.FULL),
        ({"temperature": 0.0, "frequency_penalty": 0.1}, Filters.FULL),
        ({"logit_bias": ((1, 1.0),)}, Filters.FULL),
        ({"thinking": Thinking(OPEN, CLOSE_ID, (CLOSE_ID,), min_tokens=1)}, Filters.FULL),
        ({"thinking": Thinking(OPEN, CLOSE_ID, (CLOSE_ID,), max_tokens=1)}, Filters.NONE),
    ],
)
def test_a_step_computes_what_some_admitted_path_needs(change: dict[str, object], filters: Filters) -> None:
    one = sampler()
    assert one.variant == Variant()
    one.admit(admit(PLAIN, slot=0))
    one.admit(admit(dataclasses.replace(PLAIN, **change), slot=1))  # type: ignore[arg-type]
    one.admit(admit(dataclasses.replace(PLAIN, **change), slot=2))  # type: ignore[arg-type]
    assert one.variant == Variant(filters)
    one.release(1)
    assert one.variant == Variant(filters)
    one.release(2)
    assert one.variant == Variant()


def test_statistics_and_log_probabilities_are_computed_where_somebody_asks() -> None:
    one = sampler()
    one.admit(admit(dataclasses.replace(PLAIN, statistics=(Statistic.ENTROPY,)), slot=0))
    assert one.variant == Variant(statistics=True)
    one.admit(admit(dataclasses.replace(PLAIN, logprobs=0), slot=1))
    assert one.variant == Variant(statistics=True, logprobs=True)


def test_a_slot_has_one_owner() -> None:
    one = sampler()
    one.admit(admit(PLAIN))
    with pytest.raises(ValueError, match="slot 0 is taken"):
        one.admit(admit(PLAIN))


def test_slots_without_an_owner_stand_still() -> None:
    one = sampler()
    assert (one.state[:, Column.FINISH] != 0).all()
    assert one.state.shape == (5, WIDTH)
