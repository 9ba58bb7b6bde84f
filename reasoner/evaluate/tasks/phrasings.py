"""How people ask a countdown problem. Every sentence here is trained; the first is the data set's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Phrasing:
    """text: a format string with {target} and one of the list slots below. weight: relative frequency.
    use_all: True where the sentence says that every number must be used."""

    text: str
    weight: float = 4.0
    use_all: bool = False


PHRASINGS = (
    Phrasing("Using the numbers {bracket}, create an equation that equals {target}.", 25.0),
    Phrasing(
        "Using the numbers {bracket}, create an equation that equals {target}. You can use basic arithmetic "
        "operations (+, -, *, /) and each number can only be used once.",
        8.0,
    ),
    Phrasing(
        "Use {comma} and the operations + - * / to make {target}. Use each number once.", 8.0, use_all=True
    ),
    Phrasing("Countdown: numbers {space}, target {target}."),
    Phrasing("Use {words} to make {target}.", 8.0),
    Phrasing("Make {target} from {words}."),
    Phrasing("Combine the numbers {words} to get {target}."),
    Phrasing("Find an expression with {comma} that equals {target}."),
    Phrasing("Numbers: {space}. Target: {target}."),
    Phrasing("Use the numbers {words} to make {target}."),
    Phrasing("Make {target} using {words}."),
    Phrasing("Can you make {target} from {words}?"),
    Phrasing("How can I get {target} from {words}?"),
    Phrasing("Reach {target} with {words}, using each number exactly once.", use_all=True),
    Phrasing("Write an expression that uses each of {comma} exactly once and equals {target}.", use_all=True),
    Phrasing("Using {words}, get {target}."),
    Phrasing("Numbers: {comma}\nTarget: {target}"),
    Phrasing("Given the numbers {bracket}, find a way to reach {target}."),
)


def number_slots(numbers: Sequence[int]) -> dict[str, str]:
    """The ways to write a list of two or more numbers, by the slot's name."""
    texts = [str(number) for number in numbers]
    head = ", ".join(texts[:-1])
    return {
        "bracket": f"[{', '.join(texts)}]",
        "comma": ", ".join(texts),
        "space": " ".join(texts),
        "words": f"{head} and {texts[-1]}",
        "oxford": f"{head}, and {texts[-1]}" if len(texts) > 2 else f"{head} and {texts[-1]}",
    }


def phrase(phrasing: Phrasing, numbers: Sequence[int], target: int) -> str:
    """The sentence exactly as the phrasing has it."""
    return phrasing.text.format(target=target, **number_slots(numbers))


def choose(rng: Random) -> Phrasing:
    """A phrasing by weight."""
    return rng.choices(PHRASINGS, [phrasing.weight for phrasing in PHRASINGS])[0]


def vary(rng: Random, phrasing: Phrasing, numbers: Sequence[int], target: int) -> str:
    """The sentence with the small liberties that users take: another way to write the list, no capital,
    no final period."""
    slots = number_slots(numbers)
    if rng.random() < 0.2:
        slots = dict.fromkeys(slots, rng.choice(list(slots.values())))
    text = phrasing.text.format(target=target, **slots)
    if rng.random() < 0.15:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.2:
        text = text.rstrip(".?")
    return text
