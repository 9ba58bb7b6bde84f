"""Training documents: a prompt, thinking and answer as token ids, with what is not learned marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from reasoner.evaluate.tasks import countdown, integer_math, phrasings
from reasoner.evaluate.tasks.countdown import Countdown
from reasoner.evaluate.tasks.heldout import is_held_out, is_held_out_countdown
from reasoner.evaluate.tasks.integer_math import IntegerProblem
from scripts.embedded import math_traces
from scripts.embedded.conversation import NO_THINKING, REPLY, SYSTEMS, chat_prompt, garble, small_talk
from scripts.embedded.replay import replay
from scripts.embedded.search_traces import Search, SearchStyle, compose, sum_of_all
from scripts.embedded.tokenizer import vocabulary

UNLEARNED = 1 << 15  # this bit of a uint16 token: it is context, it has no loss

Puzzle = Countdown | IntegerProblem


@dataclass(frozen=True, slots=True)
class DataConfig:
    """The mixture. mix: share of documents by kind. longest: tokens of a document. unthought: share with
    thinking switched off. cut: share whose thinking is closed early, so that a forced close works.
    wide: share of countdown problems with targets beyond the usual 10-99. replayed: share of countdown
    documents whose every line is replayed while training."""

    mix: tuple[tuple[str, float], ...] = (
        ("countdown2", 0.01),
        ("countdown3", 0.18),
        ("countdown4", 0.46),
        ("math", 0.34),
        ("chat", 0.01),
    )
    longest: int = 4096
    easy: float = 0.2
    unthought: float = 0.04
    cut: float = 0.05
    wide: float = 0.08
    garbled: float = 0.06
    with_system: float = 0.15
    replayed: float = 0.002
    styles: tuple[tuple[SearchStyle, float], ...] = field(
        default_factory=lambda: ((SearchStyle(), 0.7), (SearchStyle(leaf_bonus=4.0, inner_bonus=2.5), 0.3))
    )


def puzzle(rng: Random, kind: str, config: DataConfig) -> tuple[Puzzle, str]:
    """A random training problem and the text that asks it."""
    if kind == "math":
        problem = integer_math.generate(rng, held_out=False)
        assert not is_held_out(problem.key)
        return problem, problem.text
    targets = (1, 150) if rng.random() < config.wide else countdown.TARGETS
    size = int(kind.removeprefix("countdown"))
    found = countdown.generate(rng, size, held_out=False, easy=config.easy, targets=targets)
    assert not is_held_out_countdown(found.numbers)
    return found, phrasings.vary(rng, phrasings.choose(rng), found.numbers, found.target)


def document(rng: Random, config: DataConfig) -> list[int]:
    """One document: token ids, with UNLEARNED set on the prompt and on a forced end of thinking."""
    kind = rng.choices([kind for kind, _ in config.mix], [share for _, share in config.mix])[0]
    system = rng.choice(SYSTEMS) if rng.random() < config.with_system else None
    if kind == "chat":
        thinking = rng.random() < 0.5
        reply = (NO_THINKING if thinking else "") + f"{REPLY}<|im_end|>"
        return context(chat_prompt(small_talk(rng), system, thinking)) + vocabulary().encode(reply)
    problem, text = puzzle(rng, kind, config)
    if rng.random() < config.garbled:
        text = garble(rng, text)
    draw = rng.random()
    unthought = draw < config.unthought
    cut = not unthought and draw < config.unthought + config.cut
    prompt = context(chat_prompt(text, system, not unthought))
    answer: str | None
    if isinstance(problem, IntegerProblem):
        lines, answer = _math(rng, problem, cut), str(problem.answer)
    else:
        lines, answer = _countdown(rng, problem, config, cut, len(prompt))
    return _assemble(prompt, lines, answer, unthought, cut)[: config.longest]


def context(text: str) -> list[int]:
    """Ids that are read and not learned."""
    return [token | UNLEARNED for token in vocabulary().encode(text)]


def answer_text(answer: str) -> str:
    """The turn after the thinking, up to and with the end of turn."""
    return f"The answer is \\boxed{{{answer}}}.<|im_end|>"


def _math(rng: Random, problem: IntegerProblem, cut: bool) -> list[str]:
    lines = math_traces.thinking(problem)
    return lines[: rng.randint(1, len(lines))] if cut else lines


def _countdown(
    rng: Random, problem: Countdown, config: DataConfig, cut: bool, used: int
) -> tuple[list[str], str | None]:
    """(thinking, answer); no answer where the search outgrows the longest document."""
    room = config.longest - used
    most_lines = int(2 + rng.expovariate(1 / 25.0)) if cut else config.longest
    styles, shares = zip(*config.styles, strict=True)
    search = Search(rng, problem, rng.choices(styles, shares)[0])
    lines: list[str] = []
    for line in search.lines():
        lines.append(line)
        room -= len(line)  # about one token a character
        if room < 0 or len(lines) >= most_lines:
            break
    if rng.random() < config.replayed:
        check = replay(problem.numbers, problem.target, "".join(lines))
        stopped = len(lines) == most_lines or room < 0  # then the recap may be cut short
        assert check.clean or (stopped and set(check.errors) == {"recap"}), (problem, check)
    if search.solution is None and not cut:
        return lines, None
    path = search.solution or search.closest or sum_of_all(problem)
    return lines, compose(path)[-1][0]


def _assemble(
    prompt: list[int], lines: Sequence[str], answer: str | None, unthought: bool, cut: bool
) -> list[int]:
    encode = vocabulary().encode
    if unthought and answer is not None:
        return prompt + encode(answer_text(answer))
    body = prompt + encode("<think>\n" + "".join(lines))
    if answer is None:
        return body
    close = "</think>\n\n"  # whoever cuts a thought writes it, so the model does not learn when
    return body + (context(close) if cut else encode(close)) + encode(answer_text(answer))
