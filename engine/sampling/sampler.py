"""One step of sampling for all rows of a batch.

Order, and why:
 1. log-probabilities and statistics are of the raw logits, so they mean the same whatever a caller's settings are
 2. penalties, on logits as their definitions say; the bias behind them, so that none of it is scaled away
 3. minimum thinking: before the filters, so that top-k keeps k tokens that can be drawn; behind the bias, which
    cannot weaken it
 4. temperature, top-k, top-p, min-p: the order of Hugging Face
 5. the draw
 6. thinking budget last, so that nothing can weaken or replace a forced token
 7. stops and length, on the token that is really committed; a hold, where they end nothing

A slot whose path has finished or is held stands still: nothing of its state changes.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from engine.sampling.counters import Counters
from engine.sampling.limits import Limits
from engine.sampling.logprobs import log_probabilities
from engine.sampling.state import SamplerState
from engine.types import Statistic


class SampleOutput(NamedTuple):
    """What one step commits, each [rows] on the device of the logits, in the order of the rows.

    Of a row that stands still, phase, counts and finish are what they were, and the rest means nothing.
    """

    tokens: Tensor  # int64
    forced: Tensor  # bool: injected by the thinking budget
    phase: Tensor  # int64, engine.types.Phase after the token
    think_count: Tensor  # int64, so far, markers not counted
    generated: Tensor  # int64, so far, all
    finish: Tensor  # int64, stops.FinishCode
    logprob: Tensor  # float32, of the raw distribution; [0] where no slot asks for it or for statistics
    top_ids: Tensor  # int64 [rows, k], k the largest of all slots; [0, 0] where none asks
    top_logprobs: Tensor  # float32 [rows, k], best first
    statistics: Tensor  # float32 [rows, 4], in the order of engine.types.Statistic; [0, 4] where no slot asks


def sample(state: SamplerState, logits: Tensor, slots: Tensor) -> SampleOutput:
    """Draw one token for each row and advance the state of its slot.

    logits: [rows, vocab] float32 or bfloat16, left unchanged; slots: [rows] int64, distinct. Both on the
    device of the state. Nothing here waits for the device or branches on its values.
    """
    raw = logits.float()
    counters, limits = state.read(slots)
    stop_ids = state.stops.read(slots)
    thinking = state.thinking.active(counters)
    scores = _shape(state, raw, slots, thinking, counters, limits, stop_ids)
    drawn = _draw(state, scores, slots, counters.generated)
    force = state.thinking.force(thinking, counters, limits)
    tokens, forced = state.thinking.override(drawn, slots, force)

    think_count, phase, next_force = state.thinking.advance(tokens, thinking, force, forced, counters, limits)
    generated = counters.generated + 1
    finish = state.stops.finish(tokens, stop_ids, force, generated, limits)
    if state.needs.hold:
        ended = state.thinking.ended(thinking, phase, forced, next_force)
        finish = state.stops.hold(finish, ended, limits)
    running = state.stops.running(counters)
    after = state.write(slots, running, Counters(generated, think_count, phase, next_force, finish))
    if state.needs.penalties:
        state.penalties.count(slots, tokens, running)
    told = (after.phase, after.think_count, after.generated, after.finish)
    return SampleOutput(tokens, forced, *told, *_measure(state, raw, slots, tokens, running, forced))


def _shape(
    state: SamplerState,
    scores: Tensor,
    slots: Tensor,
    thinking: Tensor,
    counters: Counters,
    limits: Limits,
    stop_ids: Tensor,
) -> Tensor:
    """[rows, vocab] float32: the scores whose softmax is the distribution to draw from."""
    needs = state.needs
    if needs.penalties:
        scores = state.penalties.apply(scores, slots)
    if needs.bias:
        scores = state.bias.apply(scores, slots)
    if needs.min_thinking:
        scores = state.thinking.block_endings(scores, thinking, counters, limits, stop_ids)
    if needs.temperature:
        scores = state.temperature.scale(scores, slots)
    if needs.filter_width:
        scores = state.filters.apply(scores, slots, needs.filter_width, needs.nucleus)
    return scores


def _draw(state: SamplerState, scores: Tensor, slots: Tensor, positions: Tensor) -> Tensor:
    if not state.needs.noise:
        return scores.argmax(1)
    weight = state.temperature.noise_weight(slots) if state.needs.greedy else None
    return state.noise.draw(scores, slots, positions, weight)


def _measure(
    state: SamplerState, raw: Tensor, slots: Tensor, tokens: Tensor, running: Tensor, forced: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last four of a `SampleOutput`."""
    needs = state.needs
    nothing = raw.new_empty((0, len(Statistic)))
    if not (needs.logprobs or needs.statistics):
        return raw.new_empty(0), tokens.new_empty((0, 0)), raw.new_empty((0, 0)), nothing
    found = log_probabilities(raw, tokens, needs.top)
    statistics = nothing
    if needs.statistics:
        statistics = state.statistics.advance(slots, found, running & ~forced)
    best = slice(0, needs.top_logprobs)
    return found.chosen, found.top_ids[:, best], found.top[:, best], statistics
