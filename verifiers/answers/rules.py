"""The named rules by which an answer is found, each a pure function of the text after the thinking."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from verifiers.answers.boxed import last_box
from verifiers.answers.plain import plain

TAIL_CHARS = 64_000
_MAX_LINE = 2_000


@dataclass(frozen=True, slots=True)
class Extraction:
    """rule: which one spoke. answer: what it found; None where it says that there is no answer at all."""

    rule: str
    answer: str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """find: the answer in a text, `None` for "not my case, ask the next rule"."""

    name: str
    find: Callable[[str], Extraction | None]


# Each pattern is linear in the text: a repetition never meets what may follow it.
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_HASHES = re.compile(r"^[ \t]*#{4}[ \t]*(\S[^\n]*)", re.MULTILINE)
_CUE = re.compile(
    r"\banswer\b(?:\s+(?:to|for)\s[^.\n:]{0,80}?)?(?:\s+(?:is|are|equals)\b|[*_ ]*[:=])"
    r"|答案(?:是|为)?|\bОтвет\s*:",
    re.IGNORECASE,
)
# A sentence ends at a full stop before a blank, or where the author starts to explain.
_SENTENCE_END = re.compile(
    r"[.!?](?=\s|$)|\s+(?:because|since|so that|which|where)\b|[,;]\s+(?:as|so|since)\b|\n"
)
_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?%?")
_EMPTY_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{\s*\}")
_EXPRESSION = re.compile(r"[-(\[0-9](?:[-+*/()\[\]0-9.=\s]|\\frac|[{}])*[)\]}0-9]")
_OPERATOR = re.compile(r"[)\]}0-9]\s*[-+*/(]|\\frac")
_MARKS = "*_`$ \t\r\n"


def _boxed(text: str) -> Extraction | None:
    box = last_box(text)
    if box is None:
        return None
    if box.content is None:
        return Extraction("unterminated_box", None)
    return Extraction("boxed", box.content.strip())


def _answer_tag(text: str) -> Extraction | None:
    tail, start, answer = text[-TAIL_CHARS:], None, None
    for tag in _TAG.finditer(tail):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            start, answer = None, tail[start : tag.start()].strip()
    return Extraction("answer_tag", answer) if answer else None


def _answer_is(text: str) -> Extraction | None:
    """Takes "The answer is 42.", "**Final answer:** 42"; a cue that ends its line means the next one."""
    tail = text[-TAIL_CHARS:].replace("：", ":")
    for cue in reversed(list(_CUE.finditer(tail))):
        rest = _EMPTY_BOX.sub("", tail[cue.end() : cue.end() + _MAX_LINE]).lstrip(":}" + _MARKS)
        answer = _SENTENCE_END.split(rest, maxsplit=1)[0].strip(_MARKS + ",;:")
        if answer:
            return Extraction("answer_is", answer)
    return None


def _hashes(text: str) -> Extraction | None:
    found = _HASHES.findall(text[-TAIL_CHARS:])
    return Extraction("hashes", found[-1].strip(_MARKS)) if found else None


def _last_number(text: str) -> Extraction | None:
    """The last number of the last line: a guess, so it never looks further up."""
    found = _NUMBER.findall(_last_written_line(text))
    return Extraction("last_number", found[-1]) if found else None


def _last_expression(text: str) -> Extraction | None:
    """The last arithmetic expression of the last line, with "= 56" where it is written."""
    found = [run for run in _EXPRESSION.findall(plain(_last_written_line(text))) if _OPERATOR.search(run)]
    return Extraction("last_expression", found[-1].strip()) if found else None


def _last_line(text: str) -> Extraction | None:
    line = _last_written_line(text).strip(_MARKS)
    return Extraction("last_line", line) if line else None


def _last_written_line(text: str) -> str:
    lines = text[-TAIL_CHARS:].strip().splitlines()
    return lines[-1][-_MAX_LINE:] if lines else ""


BOXED = Rule("boxed", _boxed)
ANSWER_TAG = Rule("answer_tag", _answer_tag)
ANSWER_IS = Rule("answer_is", _answer_is)
HASHES = Rule("hashes", _hashes)
LAST_NUMBER = Rule("last_number", _last_number)
LAST_EXPRESSION = Rule("last_expression", _last_expression)
LAST_LINE = Rule("last_line", _last_line)

EXPLICIT = (BOXED, ANSWER_TAG, HASHES, ANSWER_IS)
"""Only what the author marked as the answer."""
NUMERIC = (*EXPLICIT, LAST_NUMBER)
EXPRESSIVE = (*EXPLICIT, LAST_EXPRESSION)
TEXTUAL = (*EXPLICIT, LAST_LINE)
