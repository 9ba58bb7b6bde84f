"""Countdown and the Game of 24: an expression over the given numbers that equals the target, checked exactly.

`statement` reads the problem, `check` decides on an expression, `verifier` is what the registry offers.
"""

from verifiers.countdown.verifier import Countdown

__all__ = ["Countdown"]
