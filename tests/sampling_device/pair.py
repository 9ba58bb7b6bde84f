"""The device sampler and the CPU's, which is its specification, side by side over the same paths and logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.sampling import SamplerState, opening_phase, sample
from engine.sampling.device.result import out_width
from engine.sampling.device.sampler import DeviceSampler
from engine.sampling.sampler import SampleOutput
from engine.scheduler.plan import Admit, StepResult
from engine.types import SamplingParams

PROMPT = (1, 2, 5)
FIRST_ID, POSITION = 5, 2


class Pair:
    """Slots are handed out in order. close_calls: tokens in which both differed because nothing decides between them
    at the precision of a float32."""

    def __init__(
        self,
        device: torch.device,
        vocab: int,
        *,
        slots: int = 8,
        eos_ids: tuple[int, ...] = (3,),
        tile: int = 512,
    ) -> None:
        self.on_device = DeviceSampler(
            slots=slots, vocab=vocab, eos_ids=eos_ids, device=device, max_rows=slots + 4, tile=tile
        )
        self.on_cpu = SamplerState(slots, vocab, "cpu", eos_ids)
        self.device, self.vocab, self.slots = device, vocab, slots
        self.close_calls = 0

    def admit(
        self,
        slot: int,
        params: SamplingParams,
        *,
        on_cpu: SamplingParams | None = None,
        seed: int = 9,
        prompt: Sequence[int] = PROMPT,
    ) -> None:
        """on_cpu: what the CPU's path gets instead."""
        admit = Admit(slot, slot, seed, params, tuple(prompt), FIRST_ID, POSITION, 0, 0)
        self.on_device.admit(admit)
        self.on_device.state[slot] = torch.from_numpy(self.on_device.record(admit)).to(self.device)
        self.on_cpu.admit(slot, on_cpu or params, seed, slot, prompt, opening_phase(prompt, params.thinking))

    def admit_all(self, params: Sequence[SamplingParams], **how: object) -> None:
        for slot, each in enumerate(params):
            self.admit(slot, each, **how)  # type: ignore[arg-type]

    def release(self, slot: int) -> None:
        self.on_device.release(slot)
        self.on_cpu.release(slot)

    def step(
        self,
        logits: Tensor,
        slots: Sequence[int],
        *,
        on_cpu: Tensor | None = None,
    ) -> tuple[StepResult, SampleOutput]:
        """One step of both over the same logits [rows, vocab], tokens compared. on_cpu: what the CPU gets instead."""
        before = self.on_cpu.counters.clone()
        result = launch(self.on_device, logits.to(self.device), slots)
        wanted = sample(self.on_cpu, logits if on_cpu is None else on_cpu, torch.tensor(slots))
        for row in np.flatnonzero((result.tokens[0] != wanted.tokens.numpy()) & (result.count > 0)):
            found, token = int(result.tokens[0, row]), int(wanted.tokens[row])
            assert self._is_close(logits[row], slots[row], before[:, slots[row]], found, token), (
                f"row {row}, slot {slots[row]}: {found} instead of {token}"
            )
            self.close_calls += 1
            self._align(slots[row], token)
        return result, wanted

    def _is_close(self, logits: Tensor, slot: int, counters: Tensor, found: int, token: int) -> bool:
        """Whether the race between the two tokens, or whether one of them is inside the nucleus, is undecided. Of the
        settings that change no order: not for penalties, bias, or a minimum of thinking."""
        params = self.on_cpu._admitted[slot]
        at = torch.tensor([slot])
        scores = logits.double() / (params.temperature or 1.0)
        race = (
            scores - (params.temperature > 0) * self.on_cpu.noise.exponentials(at, counters[:1])[0].double()
        )
        if abs(race[found] - race[token]) < 1e-5:
            return True
        shares = scores.softmax(0)
        better = [float(shares[scores > scores[each]].sum()) for each in (found, token)]
        return any(abs(mass - params.top_p) < 1e-6 for mass in better)

    def _align(self, slot: int, token: int) -> None:
        """Lets the device go on with the CPU's token."""
        self.on_device.state[slot, 0] = token


def launch(sampler: DeviceSampler, logits: Tensor, slots: Sequence[int], *, repeat: int = 1) -> StepResult:
    """`repeat` launches over the same logits, unpacked."""
    rows = torch.tensor(slots, dtype=torch.int32, device=logits.device)
    variant = sampler.variant
    out = torch.zeros(repeat, len(slots), out_width(variant), dtype=torch.int32, device=logits.device)
    for turn in range(repeat):
        sampler.launch(logits, rows, variant, out[turn])
    return sampler.unpack(0, out.cpu().numpy(), variant)
