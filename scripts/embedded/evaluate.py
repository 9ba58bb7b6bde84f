"""Measures a model folder: `python -m scripts.embedded.evaluate --report FILE [FOLDER]`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from scripts.embedded.export import DEFAULT_FOLDER, load_model
from scripts.embedded.measure import Scale, measure
from scripts.embedded.sampler import Sampler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=DEFAULT_FOLDER)
    parser.add_argument("--report", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is one")
    parser.add_argument("--paths", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", type=int, default=128, help="of the fixed set")
    parser.add_argument("--longest", type=int, default=4096, help="generated tokens of a path")
    args = parser.parse_args()
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    began = time.monotonic()
    config, weights = load_model(args.folder, device)
    scale = Scale(paths=args.paths, seeds=args.seeds, fixed=args.problems, longest=args.longest)
    measured = measure(
        Sampler(config, weights, device),
        scale,
        lambda line: print(f"[{time.monotonic() - began:6.1f}s] {line}"),
    )
    args.report.parent.mkdir(parents=True, exist_ok=True)
    args.report.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
