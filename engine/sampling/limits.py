"""What a slot's path may spend: constants of the path, written when it is admitted."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from engine.types import SamplingParams

_NEVER = 2**62  # a limit that no count reaches
_NO_TOKEN = -1


class Limits(NamedTuple):
    """One row of the limit table per field, each [rows] int64."""

    max_tokens: Tensor  # of the path, all phases
    open_id: Tensor
    close_id: Tensor
    max_think: Tensor
    min_think: Tensor
    close_at: Tensor  # generated tokens at which only the close and the answer reserve still fit
    force_cycle: Tensor  # tokens of a forced close, plus one
    hold: Tensor  # 1: the path stands still when its thinking has ended


def limit_column(params: SamplingParams) -> list[int]:
    """The values of `Limits` for one path, in its order."""
    thinking = params.thinking
    if thinking is None:
        return [params.max_tokens, _NO_TOKEN, _NO_TOKEN, _NEVER, 0, _NEVER, 1, 0]
    length = len(thinking.close_ids)
    max_think = _NEVER if thinking.max_tokens is None else min(thinking.max_tokens, _NEVER)
    close_at = params.max_tokens - length - thinking.answer_reserve
    return [
        params.max_tokens,
        thinking.open_id,
        thinking.close_id,
        max_think,
        min(thinking.min_tokens, _NEVER),
        close_at,
        length + 1,
        int(thinking.hold),
    ]
