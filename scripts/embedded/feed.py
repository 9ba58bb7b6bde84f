"""Documents packed into chunks of equally long rows, made in worker processes ahead of training."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Iterable, Iterator
from multiprocessing.synchronize import Event
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scripts.embedded.documents import UNLEARNED, DataConfig, document
from scripts.embedded.tokenizer import vocabulary

LENGTHS = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
CHUNK = 12288  # tokens; a multiple of every length

Chunk = NDArray[np.uint16]  # [rows, length], rows * length = CHUNK


class Source(Protocol):
    def get(self) -> Chunk: ...


def pack(documents: Iterable[list[int]]) -> Iterator[Chunk]:
    """Chunks of documents of similar length, padded on the right with tokens that are not learned."""
    filling: dict[int, list[list[int]]] = {length: [] for length in LENGTHS}
    for ids in documents:
        length = next(length for length in LENGTHS if length >= len(ids))
        rows = filling[length]
        rows.append(ids)
        if len(rows) * length == CHUNK:
            yield _padded(rows, length)
            rows.clear()


def _padded(rows: list[list[int]], length: int) -> Chunk:
    chunk = np.full((len(rows), length), vocabulary().end_of_text | UNLEARNED, np.uint16)
    for row, ids in zip(chunk, rows, strict=True):
        row[: len(ids)] = ids
    return chunk


class Feed:
    """Chunks from `workers` processes. When they fall behind, an earlier chunk is used again."""

    def __init__(self, config: DataConfig, seed: int, workers: int, keep: int = 3000) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._queue: multiprocessing.Queue[Chunk] = spawn.Queue(maxsize=64 * workers)
        self._stop = spawn.Event()
        self._processes = [
            spawn.Process(target=_work, args=(config, f"{seed}/{i}", self._queue, self._stop), daemon=True)
            for i in range(workers)
        ]
        for process in self._processes:
            process.start()
        self._kept: list[Chunk] = []
        self._keep, self._rng = keep, Random(seed)
        self.fresh = self.repeated = 0

    def get(self) -> Chunk:
        """The next chunk. Raises RuntimeError if a worker has failed or none produces anything."""
        if failed := [process.exitcode for process in self._processes if process.exitcode]:
            raise RuntimeError(f"{len(failed)} data workers failed, see their errors above")
        try:
            chunk = self._queue.get(timeout=0.02 if self._kept else 120)
        except queue.Empty:
            if not self._kept:
                raise RuntimeError("the data workers produce nothing") from None
            self.repeated += 1
            return self._rng.choice(self._kept)
        self.fresh += 1
        if len(self._kept) < self._keep:
            self._kept.append(chunk)
        else:
            self._kept[self._rng.randrange(self._keep)] = chunk
        return chunk

    def close(self) -> None:
        """Ends the workers."""
        self._stop.set()
        for process in self._processes:
            process.join(timeout=2)
            if process.is_alive():
                process.terminate()


class Mixed:
    """The chunks of a list in turn, every second one from another source."""

    def __init__(self, chunks: list[Chunk], other: Source) -> None:
        self._chunks, self._other, self._turn = chunks, other, 0

    def get(self) -> Chunk:
        self._turn += 1
        return self._other.get() if self._turn % 2 else self._chunks[self._turn // 2 % len(self._chunks)]


def _work(config: DataConfig, seed: str, into: multiprocessing.Queue[Chunk], stop: Event) -> None:
    os.nice(5)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rng = Random(seed)
    endless = iter(lambda: document(rng, config), None)
    for chunk in pack(endless):
        while not stop.is_set():
            try:
                into.put(chunk, timeout=0.5)
                break
            except queue.Full:
                continue
        if stop.is_set():
            break
    into.cancel_join_thread()
