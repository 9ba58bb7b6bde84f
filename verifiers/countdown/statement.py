"""Numbers, target and rule of a countdown problem, from its data or read from its sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from verifiers.answers.plain import plain
from verifiers.base import Problem
from verifiers.countdown.phrases import uses_all

MAX_CHARS = 8_000


class BadProblem(ValueError):
    """A problem that cannot be read as countdown; the message is a reason for people."""


@dataclass(frozen=True, slots=True)
class Statement:
    """numbers: each may be used once. use_all: each must be used once."""

    numbers: tuple[Fraction, ...]
    target: Fraction
    use_all: bool


_NUMBER = r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?![\w])(?!\.[0-9])"
_SEPARATOR = r"(?:\s*[,;]\s*(?:and\s+|&\s*)?|[ \t]+(?:(?:and|&)[ \t]+)?)"
_RUN = re.compile(rf"{_NUMBER}(?:{_SEPARATOR}{_NUMBER})+")
_ONE = re.compile(_NUMBER)
_CUE = re.compile(
    r"(?:\b(?:equal(?:s|ling|ing)?|evaluat(?:es?|ing)|results?|resulting|makes?|making|gets?|getting|reach(?:es|ing)?"
    r"|obtain(?:s|ing)?|form(?:s|ing)?|produc(?:es?|ing)|giv(?:es?|ing)|yield(?:s|ing)?|hit(?:s|ting)?"
    r"|total(?:s|ling)?|com(?:es|ing)|adds? up|sums?|value|values|target|goal|write|express|build|create"
    r"|construct|compute|achieve|arrive|into|is|to)\b|=>|->|→|=)"
    r"(?:\s*(?:\b(?:the|a|an|exactly|target|goal|number|integer|value|result|total|of|is|in|at|to|as|be|equal)\b|[:=]))*"
    r"\s*(?P<target>-?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])|[0-9]+(?:\.[0-9]+)?)(?:/[0-9]+)?)"
    r"(?!\w|\.[0-9]|,[0-9]|\s*[-+*/^%=](?!\s*[A-Za-z(])|\s+times?\b)",
    re.IGNORECASE,
)
_GAME_OF_24 = re.compile(r"\b(?:game\s+of\s+24|24[\s-]+(?:point\s+)?(?:game|puzzle))\b", re.IGNORECASE)
# What shows the form of an answer is no part of the statement.
_EXAMPLE = re.compile(
    r"<answer>.*?</answer>|<think>.*?</think>|\b(?:for example|e\.g\.|for instance)[^\n]*", re.I | re.DOTALL
)
_EMPHASIS = re.compile(r"\*\*|__|`")


def read_statement(problem: Problem) -> Statement:
    """The statement of `problem`: `data["numbers"]`, `data["target"]` and `data["use_all"]` where given, the
    prompt for what they leave open. Raises BadProblem with the reason.
    """
    text = _tidy(problem.prompt)
    numbers, target = _given_numbers(problem.data), _given_target(problem.data)
    use_all = problem.data.get("use_all")
    if use_all is not None and not isinstance(use_all, bool):
        raise BadProblem(f"data['use_all'] is {use_all!r}, not true or false")
    if target is None:
        target = _read_target(text)
    if numbers is None:
        numbers = _read_numbers(text)
    game = _GAME_OF_24.search(text) is not None
    return Statement(numbers, target, use_all if use_all is not None else game or uses_all(text))


def _tidy(prompt: str) -> str:
    if len(prompt) > MAX_CHARS:
        raise BadProblem(f"the text is longer than {MAX_CHARS} characters")
    text = _EXAMPLE.sub(" ", _EMPHASIS.sub("", prompt))
    return "\n".join(plain(line) for line in text.splitlines())


def _given_numbers(data: Mapping[str, Any]) -> tuple[Fraction, ...] | None:
    raw = data.get("numbers")
    if raw is None:
        return None
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        raise BadProblem("data['numbers'] is no list of numbers")
    return tuple(_exact(value, "numbers") for value in raw)


def _given_target(data: Mapping[str, Any]) -> Fraction | None:
    raw = data.get("target")
    return None if raw is None else _exact(raw, "target")


def _exact(raw: Any, key: str) -> Fraction:
    """The decimal a person wrote: 0.1 is one tenth, not the nearest binary fraction."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str | Fraction):
        raise BadProblem(f"data[{key!r}] holds {raw!r:.40}, which is no number")
    try:
        return Fraction(str(raw))
    except (ValueError, ZeroDivisionError):
        raise BadProblem(f"data[{key!r}] holds {raw!r:.40}, which is no number") from None


def _read_target(text: str) -> Fraction:
    found = [Fraction(cue["target"].replace(",", "")) for cue in _target_cues(text)]
    if not found and _GAME_OF_24.search(text):
        return Fraction(24)
    if not found:
        raise BadProblem("no target was found in the problem")
    if len(set(found)) > 1:
        raise BadProblem(
            f"the target is ambiguous: {', '.join(str(value) for value in dict.fromkeys(found))}"
        )
    return found[0]


def _target_cues(text: str) -> list[re.Match[str]]:
    """Each cue whose number does not stand in a list of numbers; "make 1,000" names one number, no list."""
    lists = [run.span() for run in _RUN.finditer(text)]

    def in_list(cue: re.Match[str]) -> bool:
        start, end = cue.span("target")
        return any(first <= start < last and last != end for first, last in lists)

    return [cue for cue in _CUE.finditer(text) if not in_list(cue)]


def _read_numbers(text: str) -> tuple[Fraction, ...]:
    targets = {cue.span("target") for cue in _target_cues(text)}
    runs = [run for run in _RUN.finditer(text) if run.span() not in targets]
    lists = list(dict.fromkeys(tuple(Fraction(one[0]) for one in _ONE.finditer(run[0])) for run in runs))
    if not lists:
        raise BadProblem("no list of numbers was found in the problem")
    if len(lists) > 1:
        raise BadProblem(f"{len(lists)} different lists of numbers were found in the problem")
    return lists[0]
