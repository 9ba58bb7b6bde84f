"""Exact numbers in the ways people write them: 1,234 · -0.50 · \\frac{3}{4} · 2\\frac{1}{2} · 3.5e-7 · 50%.

Policies:
- A comma or blank groups digits only in exact groups of three: "1,234" is a number, "0,1" and "1,23" are not.
- "50%" is the value 1/2, marked as a percentage (`percent`), so that a comparison can be lenient about it.
- A constant expression counts by its value ("1/2+1/3", "2^{10}", "6.02\\times10^{23}").
- Words around the number are read as an assignment before it ("x = 5") or a unit behind it ("12 cm",
  "42 apples"); one letter behind it is no unit, since "5x" is no number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from verifiers.answers.plain import plain
from verifiers.arithmetic.evaluate import evaluate
from verifiers.arithmetic.parser import WITH_POWERS, parse
from verifiers.arithmetic.tokens import ExpressionError

MAX_EXPONENT = 1_000
MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Quantity:
    """value: exact; 1/2 for "50%". percent: whether a percent sign was written. unit: the words behind."""

    value: Fraction
    percent: bool = False
    unit: str = ""


_DECIMAL = (
    r"[-+]?\s?(?=\.?[0-9])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?\.?"
)
_PLAIN = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(_DECIMAL)
_SCIENTIFIC = re.compile(rf"(?P<base>{_DECIMAL})\s*[eE]\s*\{{?(?P<exponent>[-+]?[0-9]{{1,6}})\}}?")
_MIXED = re.compile(
    r"(?P<sign>[-+]?)\s?(?P<whole>[0-9]+)\s?"
    r"(?:\\frac\{\s?(?P<a>[0-9]+)\s?\}\{\s?(?P<b>[0-9]+)\s?\}|(?<=\s)(?P<c>[0-9]+)/(?P<d>[0-9]+))"
)
_GROUPED = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_CONSTANT = re.compile(r"(?:[-+*/^(){}0-9.,\s]|\\frac(?![a-zA-Z]))+")
_ASSIGNMENT = re.compile(r"^(?:\\?[A-Za-z]+(?:_\{?\w+\}?)?\s*=\s*)+")
_PERCENT = re.compile(r"\s*(?:%|\bper\s?cent\b|\bpercent\b)$", re.IGNORECASE)
_UNIT = re.compile(r"^(?P<number>.*?[0-9}).])\s*(?P<unit>[A-Za-z]{2,}[A-Za-z /.^{}23-]*)$")
_NO_BRACES = str.maketrans("", "", "{}")
# Words that change the value, and so are no unit.
_NO_UNIT = re.compile(
    r"\b(?:or|and|mod|to|by|of|times|plus|minus|over|pi|sin|cos|tan|log|ln|exp|sqrt|choose|base|factorial"
    r"|hundred|thousand|million|billion|trillion|dozen|percent|per\s?cent)\b",
    re.IGNORECASE,
)


def read_number(text: str) -> Quantity | None:
    """The number that `text` is, None where it is none or not only one. Never raises."""
    if len(text) > MAX_CHARS:
        return None
    if _PLAIN.fullmatch(text):
        return Quantity(Fraction(text))
    return _read(_ASSIGNMENT.sub("", plain(text)))


def _read(text: str) -> Quantity | None:
    percent = _PERCENT.search(text)
    if percent:
        value = _value(text[: percent.start()])
        return None if value is None else Quantity(value / 100, percent=True)
    value = _value(text)
    if value is not None:
        return Quantity(value)
    unit = _UNIT.match(text)
    if unit is None or _NO_UNIT.search(unit["unit"]):
        return None
    value = _value(unit["number"])
    return None if value is None else Quantity(value, unit=_unit_text(unit["unit"]))


def _unit_text(words: str) -> str:
    return " ".join(words.strip(" .").lower().translate(_NO_BRACES).replace(" ^", "^").split())


def _value(text: str) -> Fraction | None:
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return _decimal(text)
    scientific = _SCIENTIFIC.fullmatch(text)
    if scientific:
        exponent = int(scientific["exponent"])
        return (
            _decimal(scientific["base"]) * Fraction(10) ** exponent if abs(exponent) <= MAX_EXPONENT else None
        )
    mixed = _MIXED.fullmatch(text)
    if mixed:
        return _mixed(mixed)
    if not _CONSTANT.fullmatch(text):
        return None
    try:
        return evaluate(parse(_GROUPED.sub(lambda group: group[0].replace(",", ""), text), WITH_POWERS))
    except ExpressionError:
        return None


def _decimal(text: str) -> Fraction:
    return Fraction(text.replace(",", "").replace(" ", "").rstrip("."))


def _mixed(found: re.Match[str]) -> Fraction | None:
    whole, top, bottom = int(found["whole"]), int(found["a"] or found["c"]), int(found["b"] or found["d"])
    # 2 5/3 is a typing error or a product, not a mixed number.
    if not 0 < top < bottom:
        return None
    value = whole + Fraction(top, bottom)
    return -value if found["sign"] == "-" else value
