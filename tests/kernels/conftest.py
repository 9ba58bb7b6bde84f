"""Kernels run on a GPU where there is one, else in Triton's interpreter on CPU tensors."""

from __future__ import annotations

import os

import pytest
import torch

# Read by Triton when a kernel is defined: before any of ours is imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot run here")


@pytest.fixture
def device() -> torch.device:
    torch.manual_seed(7)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
