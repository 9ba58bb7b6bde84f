"""Compiles the XQA attention kernel for a model, so that an engine's start can time it beside the others.

    python -m scripts.build_xqa MODEL        # a model folder, or a shape by name (engine/models/shapes.py)

Needs a GPU of compute capability 9.x, 10.x or 12.x, nvcc and half a minute; the result stays in FlashInfer's cache.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from engine.attention.decode_kernels import xqa_obstacle, xqa_spec
from engine.attention.flashinfer import Heads
from engine.config import GPU_PAGE
from engine.models.shapes import SHAPES, shape_folder
from engine.models.spec import ModelSpec


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    model = parser.parse_args().model
    with tempfile.TemporaryDirectory() as scratch:
        folder = shape_folder(model, 65_536, Path(scratch)) if model in SHAPES else Path(model)
        spec = ModelSpec.read(folder)
    heads = Heads(spec.heads, spec.kv_heads, spec.head_dim, programmatic=True)
    obstacle = xqa_obstacle(heads, GPU_PAGE, torch.cuda.get_device_capability()[0])
    if "not compiled" in obstacle:
        begun = time.perf_counter()
        xqa_spec(heads, GPU_PAGE).build_and_load()
        print(f"XQA for {model}: compiled in {time.perf_counter() - begun:.0f} s")
    else:
        print(f"XQA for {model}: {obstacle or 'compiled already'}")


if __name__ == "__main__":
    main()
