"""Trains the embedded model: `python -m scripts.embedded.train --minutes 8 --rounds 3 --out DIR`.

Nothing here imports torch at the top: the data workers import this file again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.embedded.documents import DataConfig
from scripts.embedded.feed import CHUNK, Feed

if TYPE_CHECKING:
    from scripts.embedded.measure import Scale
    from scripts.embedded.network import ModelConfig, Network, Weights

Log = Callable[[str], None]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, required=True, help="folder for the model")
    add("--report", type=Path, help="JSON file for what training and evaluation measured")
    add("--minutes", type=float, default=8.0, help="training on generated documents; 0 with --init skips it")
    add("--init", type=Path, help="model folder to start from")
    add("--rounds", type=int, default=2, help="rounds of refining on the model's own samples")
    add("--round-problems", type=int, default=2000)
    add("--round-passes", type=float, default=3.0, help="times that a round sees its samples")
    add("--seed", type=int, default=0)
    add("--device", choices=("cpu", "cuda"), help="default: cuda where there is one")
    add("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="data processes")
    add("--chunks", type=int, default=8, help=f"chunks of {CHUNK} tokens in a step")
    add("--measure", action="store_true", help="measure the result, two minutes of a large GPU")
    add("--tiny", action="store_true", help="a very small model and measurement: does it run?")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    began = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - began:6.1f}s] {line}", flush=True)

    data = DataConfig()
    feed = Feed(data, args.seed, args.workers)
    try:
        report = train_model(args, data, feed, log)
    finally:
        feed.close()
    if args.report:
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    log("done")


def train_model(args: argparse.Namespace, data: DataConfig, feed: Feed, log: Log) -> dict[str, Any]:
    """Trains, refines, saves after each stage so that no failure loses the one before, and measures."""
    import torch

    from scripts.embedded.export import load_model, save_model
    from scripts.embedded.measure import measure
    from scripts.embedded.network import initial_weights
    from scripts.embedded.optimiser import Optimiser, OptimiserConfig, pretraining_course
    from scripts.embedded.sampler import Sampler
    from scripts.embedded.training import Length, ready_network, train

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    config, scale = _sizes(args.tiny)
    if args.init:
        config, weights = load_model(args.init, device)
    else:
        weights = initial_weights(config, args.seed, device)
    parameters = sum(value.numel() for value in weights.values())
    machine = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    log(
        f"torch {torch.__version__} on {machine}, {parameters / 1e6:.2f} M parameters, {args.workers} workers"
    )
    report: dict[str, Any] = {"torch": torch.__version__, "machine": machine, "parameters": parameters}
    network = ready_network(config, weights, device, CHUNK * args.chunks, log)
    if args.minutes:
        optimiser = Optimiser(weights, OptimiserConfig())
        length = Length(60 * args.minutes)
        run = train(
            network, weights, optimiser, feed, length, pretraining_course, chunks=args.chunks, log=log
        )
        report["training"] = asdict(run) | {"fresh": feed.fresh, "repeated": feed.repeated}
        log(f"{run.steps} steps, {run.tokens} tokens, chunks fresh {feed.fresh} repeated {feed.repeated}")
        report["bytes"] = save_model(args.out, config, weights)
    for turn in range(args.rounds):
        report[f"round_{turn}"] = refine(args, data, feed, network, weights, turn, log)
        report["bytes"] = save_model(args.out, config, weights)
    if args.measure:
        _, stored = load_model(args.out, device)
        report["measured"] = measure(Sampler(config, stored, device), scale, log)
    if device == "cuda":
        report["peak_gigabytes"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
    return report


def refine(
    args: argparse.Namespace,
    data: DataConfig,
    feed: Feed,
    network: Network,
    weights: Weights,
    turn: int,
    log: Log,
) -> dict[str, Any]:
    """One round: sample, keep the good ones, train on them mixed half and half with generated documents."""
    from scripts.embedded.feed import Mixed
    from scripts.embedded.improve import RoundConfig, collect
    from scripts.embedded.optimiser import Optimiser, OptimiserConfig, refining_course
    from scripts.embedded.sampler import Sampler
    from scripts.embedded.training import Length, train

    config = RoundConfig(problems=args.round_problems, longest=128 if args.tiny else RoundConfig().longest)
    sampler = Sampler(network.config, weights, network.device)
    chunks = collect(sampler, data, config, f"{args.seed}/{turn}", log)
    if not chunks:
        return {"chunks": 0}
    steps = max(1, round(2 * args.round_passes * len(chunks) / args.chunks))
    optimiser = Optimiser(weights, OptimiserConfig())
    run = train(
        network,
        weights,
        optimiser,
        Mixed(chunks, feed),
        Length(600.0, steps),
        refining_course,
        chunks=args.chunks,
        log=log,
        log_every=5.0,
    )
    return {"chunks": len(chunks), **asdict(run)}


def _sizes(tiny: bool) -> tuple[ModelConfig, Scale]:
    from scripts.embedded.measure import Scale
    from scripts.embedded.network import ModelConfig

    if not tiny:
        return ModelConfig(), Scale()
    shape = ModelConfig(hidden=64, layers=2, heads=2, kv_heads=1, feed_forward=128)
    return shape, Scale(paths=2, seeds=1, fixed=4, longest=64, shorter=64, kinds=2, per_phrasing=1)


if __name__ == "__main__":
    main()
