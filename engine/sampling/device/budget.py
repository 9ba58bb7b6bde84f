"""The thinking budget and the stops of engine.sampling, for one path: scalars in, scalars out."""

from __future__ import annotations

import triton
import triton.language as tl

from engine.sampling.device import columns as c
from engine.sampling.stops import FinishCode
from engine.types import Phase

_UNDECIDED = tl.constexpr(int(Phase.UNDECIDED))
_THINKING = tl.constexpr(int(Phase.THINKING))
_ANSWER = tl.constexpr(int(Phase.ANSWER))

RUNNING = tl.constexpr(int(FinishCode.RUNNING))
_LENGTH = tl.constexpr(int(FinishCode.LENGTH))
_STOP_TOKEN = tl.constexpr(int(FinishCode.STOP_TOKEN))
_EOS = tl.constexpr(int(FinishCode.EOS))
HELD = tl.constexpr(int(FinishCode.HELD))


@triton.jit
def override(path, drawn):
    """(token, force): what the path commits, and its place in the close ids, 0 where it is the drawn one."""
    thinks = tl.load(path + c.PHASE) == _THINKING
    spent = tl.load(path + c.THINK) >= tl.load(path + c.MAX_THINK)
    spent |= tl.load(path + c.GENERATED) >= tl.load(path + c.CLOSE_AT)
    force = tl.maximum(tl.load(path + c.FORCE), (thinks & spent).to(tl.int32))
    forced = tl.load(path + c.CLOSE + tl.maximum(force - 1, 0))
    return tl.where(force > 0, forced, drawn), force


@triton.jit
def advance(path, token, force):
    """(think, phase, force, ended) after the token. ended: the thinking was closed, and the close is complete."""
    phase = tl.load(path + c.PHASE)
    thinks = phase == _THINKING
    closes = token == tl.load(path + c.CLOSE_ID)
    goes_on = thinks & (closes == 0)
    opens = (phase == _UNDECIDED) & (token == tl.load(path + c.OPEN_ID))
    think = tl.load(path + c.THINK) + goes_on.to(tl.int32)
    forced = force > 0
    next_force = (force + forced.to(tl.int32)) % tl.load(path + c.FORCE_CYCLE)
    ended = tl.where(forced, next_force == 0, thinks & closes)
    return think, tl.where(goes_on | opens, _THINKING, _ANSWER), next_force, ended


@triton.jit
def finish(path, token, force, generated, ended):
    """FinishCode after the token. The text behind a forced close marker ends nothing, the marker itself does."""
    at = tl.arange(0, c.END_IDS)
    codes = tl.where(at < c.EOS_IDS, _EOS, _STOP_TOKEN)
    ends = (tl.load(path + c.ENDS + at) == token) & (force <= 1)
    code = tl.max(tl.where(ends, codes, RUNNING), 0)
    spent = generated >= tl.load(path + c.MAX_TOKENS)
    code = tl.maximum(code, tl.where(spent, _LENGTH, RUNNING))
    held = (code == RUNNING) & ended & (tl.load(path + c.HOLD) != 0)
    return tl.where(held, HELD, code)
