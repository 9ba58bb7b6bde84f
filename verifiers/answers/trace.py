"""The text in which an answer may be looked for: what follows the closed thinking."""

from __future__ import annotations

from verifiers.base import Candidate

OPEN, CLOSE = "<think>", "</think>"


def answer_text(candidate: Candidate) -> str | None:
    """What follows the last closed thinking; None where thinking was opened and never closed.

    A candidate made from raw output still carries the tags, so they are honoured here too. A closing tag
    without an opening one is usual: chat templates put `<think>` at the end of the prompt.
    """
    if not candidate.closed:
        return None
    text = candidate.text.rpartition(CLOSE)[2]
    return None if OPEN in text else text
