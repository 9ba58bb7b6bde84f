"""The training loop: a course over wall time or steps, batches prepared ahead in a thread."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from scripts.embedded.documents import UNLEARNED
from scripts.embedded.feed import Chunk, Source
from scripts.embedded.network import Batch, ModelConfig, Network, Weights
from scripts.embedded.optimiser import Optimiser
from scripts.embedded.tokenizer import vocabulary


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What a run did. tokens include padding. losses: (seconds, nats per learned token)."""

    steps: int
    seconds: float
    tokens: int
    learned: int
    losses: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Length:
    """How long to train: seconds, or steps where given, whichever ends first."""

    seconds: float
    steps: int | None = None

    def done(self, elapsed: float, step: int) -> float:
        """The share that is over, 0..1."""
        by_steps = step / self.steps if self.steps else 0.0
        return min(1.0, max(elapsed / self.seconds, by_steps))


def train(
    network: Network,
    weights: Weights,
    optimiser: Optimiser,
    source: Source,
    length: Length,
    course: Callable[[float], float],
    *,
    chunks: int = 8,
    log: Callable[[str], None] = print,
    log_every: float = 20.0,
) -> TrainingRun:
    """Trains the weights in place; `chunks` chunks a step. Raises FloatingPointError on a loss that is none."""
    ahead = _Ahead(lambda: batch_of([source.get() for _ in range(chunks)], network.device))
    run, started = TrainingRun(0, 0.0, 0, 0, ()), time.monotonic()
    total, learned, reported = torch.zeros((), device=network.device), 0, 0.0
    try:
        while (done := length.done(time.monotonic() - started, run.steps)) < 1.0:
            batch = ahead.get()
            loss = network.loss_sum(weights, batch)
            (loss / max(1, batch.learned)).backward()  # type: ignore[no-untyped-call]
            optimiser.step(course(done))
            total, learned = total + loss.detach(), learned + batch.learned
            run = replace(
                run,
                steps=run.steps + 1,
                tokens=run.tokens + batch.tokens.numel(),
                learned=run.learned + batch.learned,
            )
            elapsed = time.monotonic() - started
            if elapsed - reported >= log_every:
                mean, reported = float(total) / learned, elapsed
                total, learned = torch.zeros((), device=network.device), 0
                if not math.isfinite(mean):
                    raise FloatingPointError(f"the loss is {mean} after {run.steps} steps")
                run = replace(run, losses=(*run.losses, (round(elapsed, 1), round(mean, 4))))
                log(f"step {run.steps} loss {mean:.4f} {run.tokens / elapsed / 1e3:.0f}k tokens/s")
    finally:
        ahead.close()
    if network.device == "cuda":
        torch.cuda.synchronize()
    return replace(run, seconds=round(time.monotonic() - started, 1))


def batch_of(chunks: list[Chunk], device: str) -> Batch:
    """One batch of the chunks, equally long ones side by side."""
    tokens, positions, targets, segments = [], [], [], list[tuple[int, int]]()
    for chunk in sorted(chunks, key=lambda chunk: chunk.shape[1]):
        rows, length = chunk.shape
        ids = (chunk & (UNLEARNED - 1)).astype(np.int64)
        target = np.full_like(ids, -100)
        target[:, :-1] = np.where(chunk[:, 1:] & UNLEARNED, -100, ids[:, 1:])
        tokens.append(ids.ravel())
        targets.append(target.ravel())
        positions.append(np.tile(np.arange(length), rows))
        if segments and segments[-1][1] == length:
            rows += segments.pop()[0]
        segments.append((rows, length))
    learned = int(sum((target >= 0).sum() for target in targets))
    parts = [torch.from_numpy(np.concatenate(part)) for part in (tokens, positions, targets)]
    if device == "cuda":
        parts = [part.pin_memory().to(device, non_blocking=True) for part in parts]
    return Batch(parts[0], parts[1], parts[2], tuple(segments), learned)


def ready_network(
    config: ModelConfig, weights: Weights, device: str, tokens: int, log: Callable[[str], None]
) -> Network:
    """A network that has run once on `tokens` tokens: compiled on a GPU where that works, else plain."""
    cuda = device == "cuda"
    dtype = torch.bfloat16 if cuda else torch.float32
    rows = tokens // 128
    chunk = np.full((rows, 128), vocabulary().newline, np.uint16)
    for compiled in (True, False) if cuda else (False,):
        network = Network(config, device, dtype, compiled)
        try:
            network.loss_sum(weights, batch_of([chunk], device)).backward()  # type: ignore[no-untyped-call]
        except Exception as error:
            if not compiled:
                raise
            log(f"torch.compile failed, going on without: {str(error)[:300]}")
            continue
        finally:
            for weight in weights.values():
                weight.grad = None
        log(f"network ready, compiled: {compiled}")
        return network
    raise AssertionError("unreachable")


class _Ahead:
    """Calls `make` in a thread, a few results ahead."""

    def __init__(self, make: Callable[[], Batch], depth: int = 4) -> None:
        self._queue: queue.Queue[Batch | Exception] = queue.Queue(depth)
        self._make, self._open = make, True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._open:
            try:
                made: Batch | Exception = self._make()
            except Exception as error:
                made = error
            while self._open:
                try:
                    self._queue.put(made, timeout=0.5)
                    break
                except queue.Full:
                    continue

    def get(self) -> Batch:
        made = self._queue.get(timeout=180)
        if isinstance(made, Exception):
            raise made
        return made

    def close(self) -> None:
        self._open = False
        self._thread.join(timeout=5)
