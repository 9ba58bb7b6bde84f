"""The thinking budget and the stops in plain Python: what the tensor version must equal."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.sampling import FinishCode
from engine.types import Phase, SamplingParams


@dataclass
class Oracle:
    """One path, token by token."""

    params: SamplingParams
    eos_ids: tuple[int, ...]
    phase: Phase
    think: int = 0
    generated: int = 0
    requested: bool = False
    queue: list[int] = field(default_factory=list)
    """Forced tokens that are due."""

    def request_close(self) -> None:
        self.requested = self.phase != Phase.ANSWER

    def blocked(self) -> set[int]:
        """Tokens that cannot be drawn now."""
        thinking = self.params.thinking
        if thinking is None or self.phase != Phase.THINKING or self.think >= thinking.min_tokens:
            return set()
        return {thinking.close_id, *self.ends()}

    def ends(self) -> set[int]:
        return {*self.params.stop_ids, *(() if self.params.ignore_eos else self.eos_ids)}

    def step(self, drawn: int) -> tuple[int, bool, FinishCode]:
        """(token, forced, finish) where the sampler would have drawn `drawn`."""
        if not self.queue and self.must_close():
            assert self.params.thinking is not None
            self.queue = list(self.params.thinking.close_ids)
        marker = self.phase == Phase.THINKING  # a forced token that comes now is the marker itself
        forced = bool(self.queue)
        token = self.queue.pop(0) if forced else drawn
        self.generated += 1
        self.move(token)
        ended = not self.queue and (forced or (marker and self.phase == Phase.ANSWER))
        return token, forced, self.finish(token, not forced or marker, ended)

    def must_close(self) -> bool:
        thinking = self.params.thinking
        if thinking is None or self.phase != Phase.THINKING:
            return False
        spent = thinking.max_tokens is not None and self.think >= thinking.max_tokens
        left = self.params.max_tokens - self.generated
        return self.requested or spent or left <= len(thinking.close_ids) + thinking.answer_reserve

    def move(self, token: int) -> None:
        thinking = self.params.thinking
        if self.phase == Phase.UNDECIDED:
            opens = thinking is not None and token == thinking.open_id
            self.phase = Phase.THINKING if opens else Phase.ANSWER
        elif self.phase == Phase.THINKING:
            if thinking is not None and token == thinking.close_id:
                self.phase = Phase.ANSWER
            else:
                self.think += 1

    def finish(self, token: int, counts: bool, ended: bool) -> FinishCode:
        """counts: whether the token can end the path. ended: whether it ended the thinking."""
        if counts and token in self.eos_ids and not self.params.ignore_eos:
            return FinishCode.EOS
        if counts and token in self.params.stop_ids:
            return FinishCode.STOP_TOKEN
        if self.generated >= self.params.max_tokens:
            return FinishCode.LENGTH
        holds = ended and self.params.thinking is not None and self.params.thinking.hold
        return FinishCode.HELD if holds else FinishCode.RUNNING
