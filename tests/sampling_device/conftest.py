"""Kernels run on a GPU where there is one, else in Triton's interpreter on CPU tensors."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: the device sampler cannot run here")

from triton.runtime import interpreter


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session", autouse=True)
def quick_interpreter():
    """The interpreter prepares triton.language again for each call of a function inside a kernel, and checks each
    sum of integers for overflow: two thirds of its time. Once a module is enough; the hash overflows on purpose."""
    prepared: set[str] = set()

    def call(function, *args, **kwargs):
        if function.fn.__module__ not in prepared:
            prepared.add(function.fn.__module__)
            interpreter._patch_lang(function.fn)
        return function.rewrite()(*args, **kwargs)

    options = dataclasses.replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    before = np.seterr(invalid="ignore")  # infinite scores, which a kernel sets aside behind the operation
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.InterpretedFunction, "__call__", call)
        patch.setattr(interpreter.interpreter_builder, "options", options)
        yield
    np.seterr(**before)
