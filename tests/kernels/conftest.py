"""Kernels run on a GPU where there is one, else in Triton's interpreter on CPU tensors."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot run here")


@pytest.fixture
def device() -> torch.device:
    torch.manual_seed(7)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
