"""Decides whether an answer agrees with a gold answer, by the type that the gold has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from verifiers.answers.boxed import last_box
from verifiers.answers.canonical import choice_letter, normal_text
from verifiers.answers.numbers import Quantity, read_number
from verifiers.base import Verdict, failed, passed, unknown

# A value may hide in these, which only symbolic work can tell.
_SYMBOLIC = re.compile(
    r"\\(?:sqrt|pi|ln|log|lg|exp|sin|cos|tan|cot|sec|csc|arc\w+|binom|sum|prod|int|lim|infty|bmod|circ|max|min|gcd|overline)\b"
    r"|[√π∞°!_]|\b(?:sqrt|pi|log|ln|exp|sin|cos|tan|i|e)\b"
)
_WORDS = re.compile(r"[^\W\d_]+(?:[ '-][^\W\d_]+)*")
_CHOICES = "ABCDEFGHIJ"
_GSM8K = re.compile(r"####\s*(\S[^\n]*)")


@dataclass(frozen=True, slots=True)
class NumberGold:
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class ChoiceGold:
    letter: str


@dataclass(frozen=True, slots=True)
class WordsGold:
    """words: "even", "no real solution": another word is another answer."""

    words: str


@dataclass(frozen=True, slots=True)
class FormulaGold:
    """text: what only passes when written the same way; a difference teaches nothing."""

    text: str


Gold = NumberGold | ChoiceGold | WordsGold | FormulaGold


def read_gold(raw: str) -> Gold | None:
    """The typed gold; None where nothing is in it. A box and a GSM8K solution with "####" are unpacked."""
    box = last_box(raw)
    marked = _GSM8K.findall(raw)
    text = (box.content if box else marked[-1] if marked else raw) or ""
    number = read_number(text)
    if number is not None:
        return NumberGold(number)
    normal = normal_text(text)
    if len(normal) == 1 and normal in _CHOICES:
        return ChoiceGold(normal)
    if _WORDS.fullmatch(normal):
        return WordsGold(normal)
    return FormulaGold(normal) if normal else None


def compare(gold: Gold, answer: str) -> Verdict:
    """pass or fail where the types allow an exact comparison, else `unknown` with status `unsupported`."""
    if isinstance(gold, NumberGold):
        return _compare_number(gold.quantity, answer)
    if isinstance(gold, ChoiceGold):
        letter = choice_letter(answer)
        return _said(
            letter == gold.letter, f"chooses {letter}" if letter else "chooses no option", gold.letter
        )
    text = normal_text(answer)
    if isinstance(gold, WordsGold):
        return _said(text == gold.words, f"says {_short(text)}", gold.words)
    if text == gold.text:
        return passed(f"equals {_short(gold.text)} as written")
    return unknown(
        f"comparing {_short(text)} with {_short(gold.text)} is not supported", status="unsupported"
    )


def _compare_number(gold: Quantity, answer: str) -> Verdict:
    quantity = read_number(answer)
    if quantity is None:
        return _not_a_number(answer)
    if quantity.unit and gold.unit and quantity.unit != gold.unit:
        reason = f"comparing the unit {_short(quantity.unit)} with {_short(gold.unit)} is not supported"
        return unknown(reason, status="unsupported")
    reason = f"equals {_shown(quantity)}"
    return _said(same_value(gold, quantity), reason, _shown(gold))


def same_value(gold: Quantity, other: Quantity) -> bool:
    """Exact equality. A percent sign on one side only may be the unit of the question: "20%" also agrees
    with "20", but never with a number below 1, which says that a fraction was meant."""
    if gold.value == other.value:
        return True
    if gold.percent == other.percent:
        return False
    percent, bare = (gold, other) if gold.percent else (other, gold)
    return abs(bare.value) >= 1 and percent.value * 100 == bare.value


def _not_a_number(answer: str) -> Verdict:
    if _SYMBOLIC.search(answer):
        return unknown(f"the value of {_short(answer)} needs symbolic work", status="unsupported")
    return failed(f"{_short(answer)} is not a number", status="not_a_number")


def _said(right: bool, reason: str, gold: str) -> Verdict:
    return passed(reason) if right else failed(f"{reason}, not {_short(gold)}")


def _shown(quantity: Quantity) -> str:
    text = f"{quantity.value * 100}%" if quantity.percent else str(quantity.value)
    return _short(f"{text} {quantity.unit}".strip())


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
