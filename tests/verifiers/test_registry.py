"""Verifiers by name, entry point, file and function."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from verifiers import registry
from verifiers.base import Candidate, Outcome, Problem, Verdict, Verifier, passed
from verifiers.countdown import Countdown
from verifiers.errors import BadVerifier, UnknownVerifier
from verifiers.function import FunctionVerifier, verdict_of

PROBLEM = Problem("What is 6 * 7?", answer="42")
RIGHT, WRONG = Candidate(r"\boxed{42}", thinking="6*7=42"), Candidate(r"\boxed{41}")


def test_every_built_in_name_gives_a_verifier_of_that_name() -> None:
    assert registry.names() == tuple(sorted(registry.names()))
    for name in registry.BUILT_IN:
        verifier = registry.get(name)
        assert isinstance(verifier, Verifier)
        assert verifier.name == name
    assert not registry.get("countdown").needs_gold
    assert registry.get("math").needs_gold


def test_an_unknown_name_is_one_line_with_the_known_ones() -> None:
    with pytest.raises(UnknownVerifier) as caught:
        registry.get("maths")
    assert isinstance(caught.value, KeyError)
    assert str(caught.value) == "unknown verifier 'maths'; known: countdown, exact, math"
    assert caught.value.known == ("countdown", "exact", "math")


def test_a_verifier_is_itself() -> None:
    countdown = Countdown()
    assert registry.get(countdown) is countdown


@pytest.mark.parametrize(
    ("name", "outcome"), [("is_42", Outcome.PASS), ("Always", Outcome.PASS), ("half", Outcome.FAIL)]
)
async def test_a_file_offers_functions_classes_and_instances(
    tmp_path: Path, name: str, outcome: Outcome
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from verifiers.exact import Exact\n"
        "@dataclass\nclass Note:\n    text: str\n"
        "def is_42(answer): return answer == '42'\n"
        "class Always(Exact):\n    name = 'always'\n"
        "async def half(text): return 0.5\n"
    )
    verifier = registry.get(f"{file}:{name}")
    assert (await verifier.verify(PROBLEM, RIGHT)).outcome is outcome


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("x = 1", "missing", "has no 'missing'"),
        ("x = 1", "x", "neither a verifier nor a function"),
        ("import nothing_of_that_name", "x", "does not load: ModuleNotFoundError"),
        ("class x:\n    def __init__(self, a): pass", "x", "class x cannot be made"),
    ],
)
def test_a_file_that_is_no_verifier_says_why(tmp_path: Path, source: str, name: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(BadVerifier, match=message):
        registry.get(f"{file}:{name}")


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadVerifier, match=r"none\.py does not exist"):
        registry.get(f"{tmp_path}/none.py:x")


def _offering(points: EntryPoints) -> Callable[..., EntryPoints]:
    return lambda **select: points.select(**select)


def test_entry_points_are_known_and_shadow_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        EntryPoint(name, value, registry.ENTRY_POINTS)
        for name, value in (
            ("spelling", "verifiers.exact:Exact"),
            ("math", "verifiers.exact:Exact"),
            ("broken", "no_such_module:x"),
        )
    )
    monkeypatch.setattr(registry, "entry_points", _offering(points))
    assert registry.names() == ("broken", "countdown", "exact", "math", "spelling")
    assert registry.get("spelling").name == "exact"
    assert registry.get("math").name == "math"
    with pytest.raises(BadVerifier, match=r"'broken' .* does not load"):
        registry.get("broken")


async def test_argument_names_choose_what_a_function_sees() -> None:
    seen: dict[str, object] = {}

    def look(problem: Problem, thinking: str, text: str, answer: str) -> bool:
        seen.update(problem=problem, thinking=thinking, text=text, answer=answer)
        return True

    assert (await registry.get(look).verify(PROBLEM, RIGHT)).passed
    assert seen == {"problem": PROBLEM, "thinking": "6*7=42", "text": r"\boxed{42}", "answer": "42"}


async def test_a_function_that_names_the_gold_answer_is_an_oracle() -> None:
    def same(answer: str, gold: str) -> bool:
        return answer == gold

    verifier = registry.get(same)
    assert verifier.needs_gold
    assert (await verifier.verify(PROBLEM, RIGHT)).passed
    assert (await verifier.verify(Problem("?"), RIGHT)).status == "no_gold"
    assert not registry.get(lambda answer: True).needs_gold


async def test_a_default_beside_the_inputs_is_kept() -> None:
    def close(answer: str, tolerance: float = 1.5) -> bool:
        return abs(float(answer) - 42) < tolerance

    assert (await registry.get(close).verify(PROBLEM, WRONG)).passed


def test_a_function_that_needs_something_else_is_refused() -> None:
    def needs_model(answer: str, model: object) -> bool:
        return True

    with pytest.raises(BadVerifier, match="needs_model asks for model; it may take: answer, text"):
        registry.get(needs_model)
    with pytest.raises(BadVerifier, match="looks at nothing"):
        registry.get(lambda: True)


async def test_async_functions_are_awaited() -> None:
    async def is_42(answer: str) -> bool:
        return answer == "42"

    right, wrong = await registry.get(is_42).verify_many(PROBLEM, [RIGHT, WRONG])
    assert right.passed
    assert wrong.outcome is Outcome.FAIL
    assert right.elapsed > 0


async def test_a_function_of_the_answer_is_called_once_for_equal_answers_and_never_without() -> None:
    calls: list[str] = []

    def count(answer: str) -> bool:
        calls.append(answer)
        return True

    verifier = registry.get(count)
    candidates = [RIGHT, Candidate(r"So: \boxed{42}"), WRONG, Candidate("", closed=False)]
    verdicts = await verifier.verify_many(PROBLEM, candidates)
    assert calls == ["42", "41"]
    assert [verdict.status for verdict in verdicts] == ["ok", "ok", "ok", "no_answer"]


async def test_a_function_of_the_text_sees_every_different_text() -> None:
    verifier = registry.get(lambda text: "So" in text)
    verdicts = await verifier.verify_many(PROBLEM, [RIGHT, Candidate(r"So: \boxed{42}")])
    assert [verdict.passed for verdict in verdicts] == [False, True]


async def test_what_a_function_raises_is_unknown() -> None:
    def breaks(answer: str) -> bool:
        raise RuntimeError("no network")

    verdict = await registry.get(breaks).verify(PROBLEM, RIGHT)
    assert (verdict.outcome, verdict.status) == (Outcome.UNKNOWN, "error")
    assert verdict.reason == "breaks raised RuntimeError: no network"


@pytest.mark.parametrize(
    ("result", "outcome", "score", "status"),
    [
        (True, Outcome.PASS, 1.0, "ok"),
        (False, Outcome.FAIL, 0.0, "wrong"),
        (1, Outcome.PASS, 1.0, "ok"),
        (0.25, Outcome.FAIL, 0.25, "partial"),
        (None, Outcome.UNKNOWN, None, "unknown"),
        (passed("mine", status="mine"), Outcome.PASS, 1.0, "mine"),
    ],
)
def test_results_become_verdicts(result: object, outcome: Outcome, score: float | None, status: str) -> None:
    verdict = verdict_of(result, "42")
    assert (verdict.outcome, verdict.score, verdict.status) == (outcome, score, status)


@pytest.mark.parametrize("result", ["yes", 1.5, -0.5, float("nan"), [1]])
async def test_a_result_that_is_no_verdict_is_unknown(result: object) -> None:
    verdict = await FunctionVerifier(lambda answer: result).verify(PROBLEM, RIGHT)  # type: ignore[arg-type, return-value]
    assert (verdict.outcome, verdict.status) == (Outcome.UNKNOWN, "error")


def test_verdicts_survive_json() -> None:
    verdict = passed("equals 42", answer="42", rule="boxed").with_elapsed(0.5)
    assert Verdict.from_json(verdict.to_json()) == verdict
