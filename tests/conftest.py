"""`--soak N`: only the property tests, with N times their examples, and what is marked `soak`.

Tests marked `gpu` need a CUDA device and FlashInfer. Kernels in Triton run anywhere: without a device in Triton's
interpreter, which has to be asked for before the first kernel is defined.
"""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
from hypothesis import is_hypothesis_test, settings

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", type=int, default=0, metavar="N", help="property tests with N times the examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    without = _no_gpu()
    for item in items:
        if without and item.get_closest_marker("gpu") is not None:
            item.add_marker(pytest.mark.skip(reason=without))
    times = config.getoption("--soak")
    chosen, left = [], []
    for item in items:
        marked = item.get_closest_marker("soak") is not None
        wanted = marked or (_is_property(item) if times else False)
        (chosen if wanted == bool(times) else left).append(item)
    if times:
        for item in chosen:
            if _is_property(item):
                _multiply(item, times)
    items[:] = chosen
    config.hook.pytest_deselected(items=left)


def _no_gpu() -> str:
    """Why the tests marked `gpu` cannot run here; empty where they can."""
    if not torch.cuda.is_available():
        return "needs a CUDA device: torch finds none here"
    if importlib.util.find_spec("flashinfer") is None:
        return "needs FlashInfer: pip install 'reasoner-serve[gpu]'"
    return ""


def _is_property(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)


def _multiply(item: pytest.Item, times: int) -> None:
    assert isinstance(item, pytest.Function)
    # Hypothesis refuses a second @settings; this is the attribute that the first one has set.
    function = getattr(item.obj, "__func__", item.obj)
    parent = getattr(function, "_hypothesis_internal_use_settings", None) or settings.default
    # Parametrised items share one function, so that it may be here already.
    if not getattr(function, "soaks", False):
        function.soaks = True
        function._hypothesis_internal_use_settings = settings(parent, max_examples=parent.max_examples * times)
