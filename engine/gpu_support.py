"""Whether a GPU engine can run here at all. Imports nothing that only a GPU engine has."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from engine.errors import EngineError, InvalidParameter

FLASHINFER = "0.6.13"
_REMEDY = "pip install 'reasoner-serve[gpu]', or use device='cpu'"


def require_gpu() -> torch.device:
    """The device to use. Raises InvalidParameter without a GPU, EngineError without what its kernels need."""
    if not torch.cuda.is_available():
        raise InvalidParameter("device 'cuda': torch finds no CUDA device here; use device='cpu'")
    require_packages()
    return torch.device("cuda", torch.cuda.current_device())


def require_packages() -> None:
    """Raises EngineError, naming the remedy, unless Triton and the one FlashInfer are installed."""
    if not _importable("triton"):
        raise EngineError(f"a GPU engine needs Triton, which is not installed: {_REMEDY}")
    found = _installed("flashinfer-python")
    if found is None:
        raise EngineError(f"a GPU engine needs FlashInfer, which is not installed: {_REMEDY}")
    if found != FLASHINFER:
        raise EngineError(
            f"FlashInfer {found} is installed; the engine writes the schedules of its kernels itself, in the form of "
            f"{FLASHINFER}: pip install flashinfer-python=={FLASHINFER}, or use device='cpu'"
        )


def _importable(module: str) -> bool:
    """Triton comes in packages of more than one name."""
    return find_spec(module) is not None


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
