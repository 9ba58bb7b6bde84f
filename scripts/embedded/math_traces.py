"""The thinking of an integer-math problem: each line one small step that a reader can check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from reasoner.evaluate.tasks.expressions import Expression, Operation, show
from reasoner.evaluate.tasks.integer_math import IntegerProblem


def thinking(problem: IntegerProblem) -> list[str]:
    """The lines, each with its newline; the last one states the answer."""
    return _WRITERS[problem.kind](problem)


def product_line(a: int, b: int) -> str:
    """Long multiplication in one line; the last number is a * b."""
    if a >= 10 and b >= 10 and b % 10:
        tens, units = b // 10 * 10, b % 10
        return f"{a}*{b}={a}*{tens}+{a}*{units}={a * tens}+{a * units}={a * b}\n"
    return f"{a}*{b}={a * b}\n"


def remainder_line(a: int, m: int) -> str:
    """A remainder by its quotient; the last number is a mod m."""
    if a < m:
        return f"{a} mod {m}={a}\n"
    return f"{a} mod {m}: {m}*{a // m}={a // m * m}, {a}-{a // m * m}={a % m}\n"


def _expression(problem: IntegerProblem) -> list[str]:
    tree, lines = problem.expression, []
    while isinstance(tree, Operation):
        lines.append(show(tree) + "\n")
        tree, line = _reduce(tree)
        lines.append(line)
    return lines


def _reduce(tree: Operation) -> tuple[Expression, str]:
    """Computes the leftmost innermost operation: (what is left, the line that does it)."""
    if isinstance(tree.left, Operation):
        left, line = _reduce(tree.left)
        return tree._replace(left=left), line
    if isinstance(tree.right, Operation):
        right, line = _reduce(tree.right)
        return tree._replace(right=right), line
    a, b = tree.left, tree.right
    if tree.operator == "*":
        return a * b, product_line(b, a) if b > 99 else product_line(a, b)
    result = {"+": a + b, "-": a - b, "/": a // max(b, 1)}[tree.operator]
    return result, f"{a}{tree.operator}{b}={result}\n"


def _remainder(problem: IntegerProblem) -> list[str]:
    a, b, c, m = problem.values
    x, y = a % m, b % m
    u, v = x * y % m, c % m
    return [
        remainder_line(a, m),
        remainder_line(b, m),
        product_line(x, y),
        remainder_line(x * y, m),
        remainder_line(c, m),
        f"{u}+{v}={u + v}\n",
        remainder_line(u + v, m),
    ]


def _equation(problem: IntegerProblem) -> list[str]:
    a, b, c, d = problem.values
    x, k = problem.answer, a - c
    lines = [f"{a}*x+{b}={c}*x+{d}\n" if c else f"{a}*x+{b}={d}\n"]
    if c:
        lines += [f"{a}-{c}={k}\n", f"{k}*x+{b}={d}\n"]
    lines += [f"{d}-{b}={d - b}\n", f"{k}*x={d - b}\n", f"x={d - b}/{k}={x}\n", "check\n"]
    lines += [product_line(a, x), f"{a * x}+{b}={a * x + b}\n"]
    if c:
        lines += [f"{c}*{x}={c * x}\n", f"{c * x}+{d}={c * x + d} yes\n"]
    return lines


def _chain(problem: IntegerProblem) -> list[str]:
    value, n, a, b, m = problem.values
    lines = []
    for turn in range(1, n + 1):
        product = value * a
        lines += [f"{turn}: {value}*{a}={product}\n", f"{product}+{b}={product + b}\n"]
        lines.append(remainder_line(product + b, m))
        value = (product + b) % m
    return lines


def _inverse(problem: IntegerProblem) -> list[str]:
    a, m, r = problem.values
    tried = range(1, problem.answer + 1)
    verdicts = [f"{x} -> {a * x % m} {'yes' if x == problem.answer else 'no'}\n" for x in tried]
    return [f"{a}*x mod {m} to {r}\n", *verdicts]


_WRITERS: Mapping[str, Callable[[IntegerProblem], list[str]]] = MappingProxyType(
    {
        "expression": _expression,
        "remainder": _remainder,
        "equation": _equation,
        "chain": _chain,
        "inverse": _inverse,
    }
)
