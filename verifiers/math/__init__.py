"""Grades a final mathematical answer against a gold answer: exact, without evaluating code.

`compare` decides, `verifier` is what the registry offers.
"""

from verifiers.math.verifier import Math

__all__ = ["Math"]
