"""Grades sampled token sequences and estimates pass@k within token budgets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reasoner.problem import Problem
from scripts.embedded.arithmetic import evaluate
from scripts.embedded.sampler import Tokens
from scripts.embedded.tokenizer import vocabulary

_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Sample:
    """tokens: all generated ones, thinking and answer. thinking: those up to and with </think>.
    answer: None where the path was cut before it answered."""

    tokens: int
    thinking: int
    answer: str | None
    right: bool

    def right_within(self, budget: int) -> bool:
        """True if a budget of that many generated tokens, answer included, would have sufficed."""
        return self.right and self.tokens <= budget


def grade(problem: Problem, ids: Tokens, thinking: bool = True) -> Sample:
    """thinking: whether the sequence starts inside the assistant's turn or after a closed thought."""
    v = vocabulary()
    ends = np.flatnonzero(ids == v.end_think)
    if thinking and not len(ends):
        return Sample(len(ids), len(ids), None, False)
    thought = int(ends[0]) + 1 if thinking else 0
    boxed = _BOXED.findall(v.decode(ids[thought:].tolist()))
    answer = boxed[-1].strip() if boxed and ids[-1] == v.end_of_turn else None
    return Sample(len(ids), thought, answer, answer is not None and is_right(problem, answer))


def is_right(problem: Problem, answer: str) -> bool:
    """Countdown: the target, with every number used exactly once. Otherwise: the gold answer."""
    if "target" not in problem.data:
        return answer == problem.answer
    made = evaluate(answer)
    if made is None:
        return False
    value, used = made
    return value == problem.data["target"] and sorted(used) == sorted(problem.data["numbers"])


def pass_at(k: int, samples: int, right: int) -> float:
    """Unbiased chance that one of k of the samples is right (Chen et al., 2021, eq. 1). k <= samples."""
    if samples - right < k:
        return 1.0
    missing = math.comb(samples - right, k) / math.comb(samples, k)
    return 1.0 - missing


def curve(
    graded: Sequence[Sequence[Sample]], budgets: Iterable[int], ks: Sequence[int]
) -> dict[str, dict[str, float]]:
    """pass@k by budget and k, the mean over problems. graded: per problem, its samples."""
    table = {}
    for budget in budgets:
        right = [sum(sample.right_within(budget) for sample in samples) for samples in graded]
        table[str(budget)] = {
            str(k): round(
                sum(pass_at(k, len(samples), n) for samples, n in zip(graded, right, strict=True))
                / len(graded),
                4,
            )
            for k in ks
        }
    return table


def solved(graded: Sequence[Sequence[Sample]], budget: int) -> int:
    """Problems with at least one right sample within the budget."""
    return sum(any(sample.right_within(budget) for sample in samples) for samples in graded)


def pass_rate(graded: Sequence[Sequence[Sample]], budget: int) -> float:
    """Share of right samples within the budget."""
    flat = [sample.right_within(budget) for samples in graded for sample in samples]
    return sum(flat) / len(flat)
