"""Runs one order: the race of N paths for one verified answer."""

from __future__ import annotations

from reasoner.cli.solve import Order


def run(order: Order) -> int:
    raise NotImplementedError
