"""Whatever a caller may put into the parameters is taken as it is meant, or refused as InvalidParameter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import InvalidParameter
from engine.types import MAX_BIAS, MAX_WINDOW, Group, SamplingParams, Statistic, Thinking

NO_NUMBERS: list[object] = ["1", b"1", (1,), [1], {1: 1}, True, object(), float("nan"), float("inf"), 10**400]

WRONG: dict[str, list[object]] = {
    "logit_bias": [
        *[
            None,
            1,
            "ab",
            [(1, 1.0)],
            {1: 1.0},
            (1, 2.0),
            ("ab",),
            ([1, 2.0],),
            ((1,),),
            ((1, 2.0, 3),),
            ({1, 2},),
        ],
        *[((token, 1.0),) for token in (1.0, True, None, "1", (1,), [1])],
        *[((1, value),) for value in (*NO_NUMBERS, None, 100.5, -101)],
        ((1, 1.0), (1, -1.0)),
        tuple((token, 1.0) for token in range(MAX_BIAS + 1)),
    ],
    "statistics": [
        *[None, 1, "entropy", Statistic.ENTROPY, [Statistic.ENTROPY], {Statistic.ENTROPY}],
        *[("entropy",), (0,), ([],), (None,), (Statistic.ENTROPY, Statistic.ENTROPY)],
    ],
    "window": [*NO_NUMBERS, None, 0, -1, 1.0, MAX_WINDOW + 1],
    "thinking": [1, "think", (1, 2), True, (1, 2, (2,))],
    "ignore_eos": [0, 1, None, "yes"],
    "temperature": [*NO_NUMBERS, None],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
    ids=lambda v: repr(v)[:40],
)
def test_a_value_of_the_wrong_shape_or_size_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidParameter, match=name):
        SamplingParams(50, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thinking(1, 2, (2,), hold=1),  # type: ignore[arg-type]
        lambda: Thinking(1, 2, (2,), hold=None),  # type: ignore[arg-type]
        lambda: Thinking(1, True, (1,)),
        lambda: Thinking(1, 2, [2]),  # type: ignore[arg-type]
        lambda: Thinking(1, 2, (2,), max_tokens="9"),  # type: ignore[arg-type]
        lambda: Group(None, 1, SamplingParams(5)),  # type: ignore[arg-type]
        lambda: Group((1,), 1, None),  # type: ignore[arg-type]
        lambda: Group((1,), 1, SamplingParams(5), stays_open=1),  # type: ignore[arg-type]
        lambda: Group((1,), 1, SamplingParams(5), watched=None),  # type: ignore[arg-type]
    ],
)
def test_thinking_or_a_group_of_the_wrong_shape_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter):
        make()


def test_the_widest_values_are_taken_and_can_be_told_apart() -> None:
    """Params are keys: all of their fields hash."""
    every = [
        SamplingParams(50, logit_bias=tuple((token, -100) for token in range(MAX_BIAS))),
        SamplingParams(50, logit_bias=((0, 100.0), (2**31, 0))),
        SamplingParams(50, statistics=tuple(Statistic), window=MAX_WINDOW),
        SamplingParams(50, statistics=(Statistic.CONFIDENCE,), window=1),
        SamplingParams(50, thinking=Thinking(1, 2, (2, 2), hold=True)),
    ]
    assert len(set(every)) == len(every)
