"""The last `\\boxed{...}` of a text, braces balanced, in time linear in the text."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:(?P<brace>\{(?!\s*\}))|(?P<bare>[-+]?\d+(?:\.\d+)?))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Box:
    """content: what the box holds, None where its brace is never closed."""

    content: str | None


def last_box(text: str) -> Box | None:
    """The last box of `text` (also `\\fbox{5}` and `\\boxed 5`), None where there is none.

    The macro named in passing ("I will put it in \\boxed{}") is no box. An unclosed last box is reported as
    such and does not fall back to an earlier one, which the author had moved on from.
    """
    boxes = deque(_BOX.finditer(text), maxlen=1)
    if not boxes:
        return None
    last = boxes[0]
    if last["bare"] is not None:
        return Box(last["bare"])
    return Box(_balanced(text, last.end()))


def _balanced(text: str, start: int) -> str | None:
    depth = 1
    for found in _BRACE.finditer(text, start):
        # Escaped braces are set brackets, and a doubled backslash escapes nothing after it.
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return text[start : found.start()]
    return None
