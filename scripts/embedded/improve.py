"""Refining on the model's own samples: keep the right, clean and short ones, and train on them.

Rejection sampling as in STaR (Zelikman et al., 2022), with a preference for short paths: what succeeds
early teaches the model which steps of a search pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from reasoner.evaluate.tasks.base import countdown_problem
from reasoner.evaluate.tasks.countdown import Countdown
from reasoner.problem import Message, Problem
from scripts.embedded.conversation import chat_prompt
from scripts.embedded.documents import DataConfig, Puzzle, context, puzzle
from scripts.embedded.feed import LENGTHS, Chunk, pack
from scripts.embedded.grading import Sample
from scripts.embedded.measure import Measured, sample_all, thinking_text
from scripts.embedded.replay import replay
from scripts.embedded.sampler import Sampler, Tokens


@dataclass(frozen=True, slots=True)
class RoundConfig:
    """One round. best: samples kept of a problem at most, the shorter half of the right ones."""

    problems: int = 2000
    paths: int = 8
    best: int = 4
    longest: int = 2048
    batch: int = 8192
    mix: tuple[tuple[str, float], ...] = (("countdown3", 0.1), ("countdown4", 0.8), ("math", 0.1))


def collect(
    sampler: Sampler, data: DataConfig, config: RoundConfig, seed: str, log: Callable[[str], None]
) -> list[Chunk]:
    """Chunks of the model's own good samples on fresh training problems."""
    rng = Random(seed)
    data = replace(data, wide=0.0)
    kinds, shares = zip(*config.mix, strict=True)
    made = [puzzle(rng, rng.choices(kinds, shares)[0], data) for _ in range(config.problems)]
    problems = [as_problem(found, text) for found, text in made]
    run = sample_all(
        sampler,
        problems,
        config.paths,
        longest=config.longest,
        seed=rng.randrange(1 << 20),
        batch=config.batch,
    )
    documents = [
        context(chat_prompt(problem.prompt)) + tokens.tolist()
        for problem, samples, ids in zip(problems, run.graded, run.ids, strict=True)
        for tokens in _chosen(problem, samples, ids, config.best)
    ]
    documents = [ids for ids in documents if len(ids) <= LENGTHS[-1]]
    rng.shuffle(documents)
    chunks = list(pack(documents))
    rng.shuffle(chunks)
    log(f"collected {_summary(run)}, {len(documents)} documents, {len(chunks)} chunks")
    return chunks


def as_problem(found: Puzzle, text: str) -> Problem:
    """A training puzzle in the form that grading takes."""
    if isinstance(found, Countdown):
        return countdown_problem(text, list(found.numbers), found.target, True, "")
    return Problem((Message("user", text),), answer=str(found.answer))


def _chosen(problem: Problem, samples: list[Sample], ids: list[Tokens], best: int) -> list[Tokens]:
    """The shorter half of the right samples, without those that have a wrong line."""
    right = sorted((sample.tokens, i) for i, sample in enumerate(samples) if sample.right)
    half = right[: min(best, (len(right) + 1) // 2)]
    return [ids[i] for _, i in half if _is_clean(problem, ids[i])]


def _is_clean(problem: Problem, ids: Tokens) -> bool:
    if "target" not in problem.data:
        return True
    check = replay(problem.data["numbers"], problem.data["target"], thinking_text(ids))
    return check.clean and check.solved


def _summary(run: Measured) -> dict[str, Any]:
    flat = [sample for samples in run.graded for sample in samples]
    tokens = sum(sample.tokens for sample in flat)
    return {"samples": len(flat), "right": round(sum(s.right for s in flat) / len(flat), 4), "tokens": tokens}
