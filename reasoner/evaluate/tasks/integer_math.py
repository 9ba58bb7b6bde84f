"""Integer mathematics with one exact answer: expressions, remainders, equations, chains, inverses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count as counter
from random import Random
from types import MappingProxyType

from reasoner.errors import InvalidRequest
from reasoner.evaluate.tasks.expressions import Expression, random_expression, show, show_short
from reasoner.evaluate.tasks.heldout import is_held_out
from reasoner.problem import Message, Problem

SENTENCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "expression": ("Compute {e}.", "What is {e}?", "Calculate {e}.", "Evaluate {e}.", "{e} = ?"),
        "remainder": ("Compute ({e}) mod {m}.", "What is the remainder of {e} divided by {m}?"),
        "equation": ("Solve {e} for x.", "Find x such that {e}."),
        "chain": (
            "Start with {s}. Repeat {n} times: multiply by {a}, add {b}, take the result mod {m}. "
            "What is the final number?",
        ),
        "inverse": ("Find the smallest positive x with {a}*x mod {m} = {r}.",),
    }
)
SUFFIXES = ("", " Put the final answer in \\boxed{}.")
PRIMES = (23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


@dataclass(frozen=True, slots=True)
class IntegerProblem:
    """kind: a key of SENTENCES. values: its parameters in the order of the maker. key: decides the split.
    expression: the tree, for the kind "expression" alone."""

    kind: str
    text: str
    answer: int
    key: str
    values: tuple[int, ...] = ()
    expression: Expression = 0


def generate(rng: Random, *, held_out: bool, kind: str | None = None) -> IntegerProblem:
    """A random problem of the wanted side of the split; of any kind, expressions twice as often, if None."""
    kinds = ("expression", *SENTENCES)
    while True:
        problem = _MAKERS[kind or rng.choice(kinds)](rng)
        if is_held_out(problem.key) == held_out:
            return problem


def _expression(rng: Random) -> IntegerProblem:
    tree, answer = random_expression(rng, rng.randint(2, 5))
    written = show(tree) if rng.random() < 0.5 else show_short(tree)
    if rng.random() < 0.2:
        for operator in "+-*/":
            written = written.replace(operator, f" {operator} ")
    text = _sentence(rng, "expression").format(e=written)
    return IntegerProblem("expression", text + _suffix(rng), answer, f"expr {show(tree)}", expression=tree)


def _remainder(rng: Random) -> IntegerProblem:
    a, b, c, m = rng.randint(11, 99), rng.randint(11, 99), rng.randint(11, 999), rng.randint(7, 31)
    text = _sentence(rng, "remainder").format(e=f"{a}*{b}+{c}", m=m)
    key = f"mod {a}*{b}+{c} mod {m}"
    return IntegerProblem("remainder", text + _suffix(rng), (a * b + c) % m, key, (a, b, c, m))


def _equation(rng: Random) -> IntegerProblem:
    x, c = rng.randint(2, 60), rng.randint(0, 9)
    a, b = c + rng.randint(2, 20), rng.randint(1, 99)
    d = (a - c) * x + b
    right = f"{c}*x+{d}" if c else f"{d}"
    text = _sentence(rng, "equation").format(e=f"{a}*x+{b}={right}")
    return IntegerProblem("equation", text + _suffix(rng), x, f"lin {a} {b} {c} {d}", (a, b, c, d))


def _chain(rng: Random) -> IntegerProblem:
    m = rng.randint(7, 50)
    s, n, a, b = rng.randint(1, m - 1), rng.randint(3, 8), rng.randint(2, 9), rng.randint(1, m - 1)
    answer = s
    for _ in range(n):
        answer = (answer * a + b) % m
    text = _sentence(rng, "chain").format(s=s, n=n, a=a, b=b, m=m)
    key = f"chain {s} {n} {a} {b} {m}"
    return IntegerProblem("chain", text + _suffix(rng), answer, key, (s, n, a, b, m))


def _inverse(rng: Random) -> IntegerProblem:
    m = rng.choice(PRIMES)
    a, x = rng.randint(2, m - 1), rng.randint(2, min(m - 1, 60))
    r = a * x % m
    text = _sentence(rng, "inverse").format(a=a, m=m, r=r)
    return IntegerProblem("inverse", text + _suffix(rng), x, f"inv {a} {m} {r}", (a, m, r))


def _sentence(rng: Random, kind: str) -> str:
    return rng.choice(SENTENCES[kind])


def _suffix(rng: Random) -> str:
    return rng.choice(SUFFIXES)


_MAKERS: Mapping[str, Callable[[Random], IntegerProblem]] = MappingProxyType(
    {
        "expression": _expression,
        "remainder": _remainder,
        "equation": _equation,
        "chain": _chain,
        "inverse": _inverse,
    }
)


@dataclass(frozen=True, slots=True)
class IntegerMathTasks:
    """Held-out problems whose gold answer is a non-negative integer; graded by the verifier "math"."""

    name: str = "integer_math"
    verifier: str = "math"
    size: int | None = None

    def problems(self, count: int | None = None, *, seed: int = 0) -> Iterator[Problem]:
        if count is not None and count < 0:
            raise InvalidRequest(f"count must be 0 or more, not {count}")
        return self._generate(count, seed)

    def _generate(self, count: int | None, seed: int) -> Iterator[Problem]:
        rng = Random(f"{self.name}/{seed}")
        for index in counter() if count is None else range(count):
            made = generate(rng, held_out=True)
            yield Problem(
                (Message("user", made.text),),
                answer=str(made.answer),
                data={"kind": made.kind},
                id=f"{self.name}/{seed}/{index}",
            )
