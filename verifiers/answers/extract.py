"""Applies the rules in order; the first that speaks decides."""

from __future__ import annotations

from collections.abc import Sequence

from verifiers.answers.rules import Extraction, Rule
from verifiers.answers.trace import answer_text
from verifiers.base import Candidate

MAX_ANSWER_CHARS = 2_000


def extract(candidate: Candidate, rules: Sequence[Rule]) -> Extraction:
    """The answer of a candidate and the rule that found it.

    Where there is none the rule says why: `unclosed_thinking`, `unterminated_box`, `too_long` (above
    MAX_ANSWER_CHARS: no final answer, and costly to read) or `nothing_found`. Never raises.
    """
    text = answer_text(candidate)
    if text is None:
        return Extraction("unclosed_thinking", None)
    for rule in rules:
        found = rule.find(text)
        if found is None:
            continue
        if found.answer is not None and len(found.answer) > MAX_ANSWER_CHARS:
            return Extraction("too_long", None)
        if found.answer != "":
            return found
    return Extraction("nothing_found", None)
