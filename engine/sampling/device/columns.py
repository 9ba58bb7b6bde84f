"""The layout of `slots.py` as constants of the compiler, which takes no others into a kernel."""

from __future__ import annotations

import triton.language as tl

from engine.sampling.device import slots
from engine.sampling.device.slots import Column

NEXT_ID = tl.constexpr(int(Column.NEXT_ID))
POSITION = tl.constexpr(int(Column.POSITION))
GENERATED = tl.constexpr(int(Column.GENERATED))
THINK = tl.constexpr(int(Column.THINK))
PHASE = tl.constexpr(int(Column.PHASE))
FORCE = tl.constexpr(int(Column.FORCE))
FINISH = tl.constexpr(int(Column.FINISH))
MAX_TOKENS = tl.constexpr(int(Column.MAX_TOKENS))
OPEN_ID = tl.constexpr(int(Column.OPEN_ID))
CLOSE_ID = tl.constexpr(int(Column.CLOSE_ID))
MAX_THINK = tl.constexpr(int(Column.MAX_THINK))
MIN_THINK = tl.constexpr(int(Column.MIN_THINK))
CLOSE_AT = tl.constexpr(int(Column.CLOSE_AT))
FORCE_CYCLE = tl.constexpr(int(Column.FORCE_CYCLE))
HOLD = tl.constexpr(int(Column.HOLD))
KEY_0 = tl.constexpr(int(Column.KEY_0))
KEY_1 = tl.constexpr(int(Column.KEY_1))
TEMPERATURE = tl.constexpr(int(Column.TEMPERATURE))
NOISE = tl.constexpr(int(Column.NOISE))
TOP_K = tl.constexpr(int(Column.TOP_K))
TOP_P = tl.constexpr(int(Column.TOP_P))
LOG_MIN_P = tl.constexpr(int(Column.LOG_MIN_P))
PENALISED = tl.constexpr(int(Column.PENALISED))
REPETITION = tl.constexpr(int(Column.REPETITION))
PRESENCE = tl.constexpr(int(Column.PRESENCE))
FREQUENCY = tl.constexpr(int(Column.FREQUENCY))
BIASED = tl.constexpr(int(Column.BIASED))
WINDOW = tl.constexpr(int(Column.WINDOW))
SAMPLED = tl.constexpr(int(Column.SAMPLED))
LOGPROB_SUM = tl.constexpr(int(Column.LOGPROB_SUM))
LOGPROB_LOST = tl.constexpr(int(Column.LOGPROB_LOST))
LOWEST = tl.constexpr(int(Column.LOWEST))

EOS_IDS = tl.constexpr(slots.EOS_IDS)
ENDS = tl.constexpr(slots.ENDS)
END_IDS = tl.constexpr(slots.EOS_IDS + slots.STOP_IDS)
CLOSE = tl.constexpr(slots.CLOSE)
WIDTH = tl.constexpr(slots.WIDTH)
