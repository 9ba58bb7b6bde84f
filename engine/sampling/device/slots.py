"""One row of 32-bit integers a slot: all that the sampler knows of a path, and the layout of that row.

Floats are stored as their bits. The row is built on the host when a slot is admitted and copied in one piece; from
then on the last kernel of each step advances it. Row `slots` belongs to padded rows: it is frozen for ever.
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from engine.errors import InvalidParameter
from engine.sampling.hashing import path_key
from engine.sampling.limits import limit_column
from engine.sampling.penalties import is_penalised
from engine.sampling.stops import FinishCode
from engine.scheduler.plan import Admit
from engine.text.markers import opening_phase
from engine.types import SamplingParams

NEVER = 2**31 - 1  # a limit that no count reaches
NO_TOKEN = -1
_LEAST_TEMPERATURE = 2.0**-100


class Column(IntEnum):
    """Places of the scalars in a row: counters, limits in the order of limits.Limits, constants, statistics."""

    NEXT_ID = 0  # the path's next input token
    POSITION = 1  # the position that it takes
    GENERATED = 2
    THINK = 3
    PHASE = 4  # engine.types.Phase
    FORCE = 5  # 1-based place in the close ids of the next forced token; 0: none is due
    FINISH = 6  # stops.FinishCode; a slot whose finish is not 0 stands still
    MAX_TOKENS = 7
    OPEN_ID = 8
    CLOSE_ID = 9
    MAX_THINK = 10
    MIN_THINK = 11
    CLOSE_AT = 12
    FORCE_CYCLE = 13
    HOLD = 14  # 1: the path stands still when its thinking has ended
    KEY_0 = 15  # the name of the path in its noise
    KEY_1 = 16
    TEMPERATURE = 17  # float: divisor of the logits
    NOISE = 18  # float: factor of the noise, 0 for a greedy path
    TOP_K = 19  # 0 is off
    TOP_P = 20  # float, 1 is off
    LOG_MIN_P = 21  # float, -inf is off
    PENALISED = 22  # 1 where any of the next three has an effect
    REPETITION = 23  # float
    PRESENCE = 24  # float
    FREQUENCY = 25  # float
    BIASED = 26  # entries of the slot's logit bias
    WINDOW = 27  # tokens of a confidence window
    SAMPLED = 28  # tokens that counted in a confidence so far
    LOGPROB_SUM = 29  # float
    LOGPROB_LOST = 30  # float: what rounding took from the sum (Kahan)
    LOWEST = 31  # float: smallest mean of a full window so far, inf before the first


SCALARS = 32
EOS_IDS = 8
STOP_IDS = 56
CLOSE_IDS = 64
ENDS = SCALARS  # first of the ids that end a path: EOS ids, then stop ids, NO_TOKEN where unused
CLOSE = ENDS + EOS_IDS + STOP_IDS  # first of the ids of a forced close
WIDTH = CLOSE + CLOSE_IDS


def check_widths(params: SamplingParams) -> None:
    """Raises InvalidParameter where a list of ids is longer than a row has room for."""
    close_ids = () if params.thinking is None else params.thinking.close_ids
    for name, ids, most in (("stop_ids", params.stop_ids, STOP_IDS), ("close_ids", close_ids, CLOSE_IDS)):
        if len(ids) > most:
            raise InvalidParameter(f"{name} must name at most {most} tokens on a GPU, got {len(ids)}")


def check_eos(eos_ids: tuple[int, ...]) -> None:
    """Raises InvalidParameter for a model with more EOS ids than a row has room for."""
    if len(eos_ids) > EOS_IDS:
        raise InvalidParameter(f"a GPU engine has room for {EOS_IDS} EOS ids, the model names {len(eos_ids)}")


def frozen_row() -> NDArray[np.int32]:
    """int32 [WIDTH]: a slot that never moves."""
    row = np.zeros(WIDTH, dtype=np.int32)
    row[Column.FINISH] = FinishCode.LENGTH
    row[ENDS:CLOSE] = NO_TOKEN
    return row


def slot_row(admit: Admit, shared: NDArray[np.int32]) -> NDArray[np.int32]:
    """int32 [WIDTH]: the slot of a path before its first token. shared: `params_row` of its parameters."""
    row = shared.copy()
    row[Column.NEXT_ID] = admit.first_id
    row[Column.POSITION] = admit.position
    row[Column.PHASE] = opening_phase(admit.prompt_ids, admit.sampling.thinking)
    row[Column.KEY_0 : Column.KEY_1 + 1] = path_key(admit.seed, admit.index)
    return row


def params_row(params: SamplingParams, vocab: int, eos_ids: tuple[int, ...]) -> NDArray[np.int32]:
    """int32 [WIDTH]: what all paths of a group have in common. Raises what `check_widths` raises."""
    check_widths(params)
    row = np.zeros(WIDTH, dtype=np.int32)
    limits = limit_column(params)
    row[Column.MAX_TOKENS : Column.MAX_TOKENS + len(limits)] = [min(limit, NEVER) for limit in limits]
    row[Column.PENALISED] = is_penalised(params)
    row[Column.BIASED] = len(params.logit_bias)
    row[Column.WINDOW] = params.window
    row[ENDS:CLOSE] = NO_TOKEN
    if not params.ignore_eos:
        row[ENDS : ENDS + len(eos_ids)] = eos_ids
    row[ENDS + EOS_IDS : ENDS + EOS_IDS + len(params.stop_ids)] = params.stop_ids
    if params.thinking is not None:
        row[CLOSE : CLOSE + len(params.thinking.close_ids)] = params.thinking.close_ids
    _write_floats(row.view(np.float32), row, params, vocab)
    return row


def _write_floats(
    floats: NDArray[np.float32], row: NDArray[np.int32], params: SamplingParams, vocab: int
) -> None:
    """No filter removes the best token, so that a greedy path has none. Below the least temperature a path is greedy
    in all but name, and the reciprocal would overflow."""
    noisy = params.temperature > 0
    floats[Column.TEMPERATURE] = max(params.temperature, _LEAST_TEMPERATURE) if noisy else 1.0
    floats[Column.NOISE] = noisy
    row[Column.TOP_K] = params.top_k if noisy and params.top_k < vocab else 0
    floats[Column.TOP_P] = params.top_p if noisy else 1.0
    floats[Column.LOG_MIN_P] = math.log(params.min_p) if noisy and params.min_p > 0 else -math.inf
    floats[Column.REPETITION] = params.repetition_penalty
    floats[Column.PRESENCE] = params.presence_penalty
    floats[Column.FREQUENCY] = params.frequency_penalty
    floats[Column.LOWEST] = math.inf
