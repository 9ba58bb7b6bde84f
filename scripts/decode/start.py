"""Seconds from nothing to a ready engine, each in a process of its own: first with empty kernel caches, then warm.

    python -m scripts.decode.start --model qwen3-8b --device cuda      # one start; prints a line of JSON

Kernels that FlashInfer's package brings along compiled are no cache and stay.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts.decode.record import Record, Row

ROOT = Path(__file__).parents[2]
CACHES = ("TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR")
PATHS = 64
LIMIT_S = 540


def starts(record: Record, name: str, device: str) -> None:
    """Two rows of the list `startup`."""
    with tempfile.TemporaryDirectory() as caches:
        for cache in ("cold", "warm"):
            record.add(
                "startup",
                {"model": name, "device": device, "cache": cache} | in_process(name, device, caches),
            )


def in_process(name: str, device: str, caches: str) -> Row:
    """process_s counts from the start of the interpreter, ready_s from `AsyncEngine.start`."""
    begun = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "scripts.decode.start", "--model", name, "--device", device],
        env=os.environ | {variable: f"{caches}/{variable.lower()}" for variable in CACHES},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return {"process_s": float(row.pop("ready_at")) - begun} | row  # type: ignore[arg-type]


async def start(name: str, device: str) -> Row:
    """One start in this process, with the engine's own choice of everything."""
    from engine.async_engine import AsyncEngine
    from engine.config import EngineConfig
    from scripts.decode.subject import Subject

    with tempfile.TemporaryDirectory() as scratch:
        subject = Subject.find(name, Path(scratch))
        config = EngineConfig(
            subject.folder,
            device=device,
            weights=subject.weights,
            context_length=subject.context,
            max_paths=PATHS,
        )
        begun = time.perf_counter()
        engine = await AsyncEngine.start(config)
        ready = time.perf_counter() - begun
    ready_at = time.time()
    report = engine.model.start
    await engine.close()
    return {
        "ready_at": ready_at,
        "ready_s": ready,
        "phases": {phase: round(seconds, 2) for phase, seconds in report.seconds.items()},
        "graphs": report.graphs,
        "graph_s": report.graph_seconds,
        "graph_mb": report.graph_bytes / 2**20,
        "kv_tokens": report.kv_tokens,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    args = parser.parse_args()
    print(json.dumps(asyncio.run(start(args.model, args.device))))


if __name__ == "__main__":
    main()
