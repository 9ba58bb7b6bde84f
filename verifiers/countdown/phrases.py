"""Which sentences say that every number must be used. `docs/verifiers.md` lists them for users."""

from __future__ import annotations

import re

_NUMBERS = r"(?:numbers?|integers?|digits?|cards?|ones?|operands?|values?)"
_ALL = r"(?:all|every|each)"
# "numbers", "the numbers", "of the four given numbers".
_OF_THE_NUMBERS = rf"(?: \w+){{0,4}} {_NUMBERS}\b"

EXACTLY = re.compile(r"\bexactly (?:once|one time|1 time)\b", re.IGNORECASE)

MUST = re.compile(
    r"\b(?:use[sd]?|using|with|combin(?:e|es|ing)|includ(?:e|es|ing))"
    rf" (?:up )?{_ALL}(?:{_OF_THE_NUMBERS}| of (?:them|\[?\d))"
    rf"|\b{_ALL}{_OF_THE_NUMBERS} (?:must|has to|have to|needs? to|should|shall) (?:all )?be used\b"
    r"|\b(?:must|have to|should) all be used\b"
    rf"|\b(?:each|every)(?: \w+)? {_NUMBERS} (?:once|one time)\b|\bonce each\b|\beach(?: \w+)? once\b",
    re.IGNORECASE,
)
"""A duty: "use each number once", "use all the numbers", "every number must be used", "once each"."""

LIMIT = re.compile(
    r"\bat most\b|\bno more than\b|\bmaximum of\b|\bup to (?:once|one time)\b"
    r"|\b(?:only|just) (?:once|one time)\b|\bonly be used\b"
    r"|\b(?:can|may|could) (?:each )?(?:only |just )?be used (?:once|one time)\b"
    rf"|\b(?:can|may|could)(?: only)? use {_ALL}\b|\bsome or all\b|\bany of\b"
    rf"|(?:\bnot|n['’]t)\b(?: (?:have|need|needed|required|necessary|be|to|use|using))* {_ALL}\b",
    re.IGNORECASE,
)
"""No duty: "each number can only be used once", "at most once", "some or all of", "need not use all"."""

_SENTENCE = re.compile(r"[.!?](?=\s|$)|\n|;|, (?:but|and|though)\b")


def uses_all(text: str) -> bool:
    """Whether a sentence of `text` says that each number must be used.

    "exactly once" always does; any other duty does unless the same sentence speaks of a limit.
    """
    return any(_is_duty(sentence) for sentence in _SENTENCE.split(text))


def _is_duty(sentence: str) -> bool:
    if EXACTLY.search(sentence):
        return True
    return MUST.search(sentence) is not None and LIMIT.search(sentence) is None
