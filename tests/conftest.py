"""`--soak N`: only the property tests, with N times their examples, and what is marked `soak`."""

from __future__ import annotations

import pytest
from hypothesis import is_hypothesis_test, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", type=int, default=0, metavar="N", help="property tests with N times the examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
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
