"""Task sets: names, seeds, the split, and sentences that the verifiers read as the data says."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from random import Random

import pytest

from reasoner.errors import InvalidRequest, UnknownName
from reasoner.evaluate import tasks
from reasoner.evaluate.tasks import countdown, integer_math, phrasings
from reasoner.evaluate.tasks.countdown_search import can_win, distance, results, steps, winning_steps
from reasoner.evaluate.tasks.expressions import random_expression, show, show_short, value
from reasoner.evaluate.tasks.heldout import bundled_countdown, is_held_out, is_held_out_countdown
from verifiers.arithmetic.evaluate import evaluate
from verifiers.arithmetic.parser import parse
from verifiers.base import Problem
from verifiers.countdown.statement import read_statement


def test_names_and_the_error_for_an_unknown_one() -> None:
    assert tasks.names() == ("countdown3", "countdown4", "countdown4_128", "countdown5", "integer_math")
    with pytest.raises(UnknownName, match="countdown4_128"):
        tasks.get("sudoku")


@pytest.mark.parametrize("name", tasks.names())
def test_same_seed_same_problems_and_a_larger_count_extends_them(name: str) -> None:
    chosen = tasks.get(name)
    few, more = list(chosen.problems(3, seed=7)), list(chosen.problems(5, seed=7))
    assert more[:3] == few
    assert list(islice(chosen.problems(seed=7), 3)) == few
    assert list(chosen.problems(5, seed=8)) != more
    assert len({problem.id for problem in more}) == 5
    with pytest.raises(InvalidRequest):
        chosen.problems(-1)


@pytest.mark.parametrize("name", [name for name in tasks.names() if name.startswith("countdown")])
def test_countdown_problems_are_held_out_and_solvable(name: str) -> None:
    for problem in tasks.get(name).problems(6, seed=1):
        numbers, target = problem.data["numbers"], problem.data["target"]
        assert is_held_out_countdown(numbers)
        assert can_win(tuple(sorted(numbers)), target, {})


def test_the_fixed_set_is_complete_and_refuses_more() -> None:
    fixed = tasks.get("countdown4_128")
    problems = list(fixed.problems())
    assert len(problems) == fixed.size == 128
    assert [problem.prompt for problem in problems] == [record["prompt"] for record in bundled_countdown()]
    assert {problem.id for problem in fixed.problems(seed=3)} == {problem.id for problem in problems}
    with pytest.raises(InvalidRequest, match="128"):
        fixed.problems(129)


@pytest.mark.parametrize("phrasing", phrasings.PHRASINGS, ids=lambda phrasing: phrasing.text[:40])
def test_verifiers_read_a_sentence_as_the_data_says(phrasing: phrasings.Phrasing) -> None:
    rng = Random(phrasing.text)
    for size in (3, 4, 5):
        puzzle = countdown.generate(rng, size, held_out=False)
        text = phrasings.phrase(phrasing, puzzle.numbers, puzzle.target)
        read = read_statement(Problem(text))
        assert sorted(read.numbers) == [Fraction(number) for number in puzzle.state], text
        assert read.target == puzzle.target, text
        assert read.use_all == phrasing.use_all, text


def test_known_sentences_are_among_the_phrasings() -> None:
    texts = {phrasings.phrase(p, (3, 7, 11, 25), 56) for p in phrasings.PHRASINGS}
    assert "Use 3, 7, 11 and 25 to make 56." in texts
    assert "Make 56 from 3, 7, 11 and 25." in texts
    assert "Numbers: 3 7 11 25. Target: 56." in texts
    first = phrasings.phrase(phrasings.PHRASINGS[0], (15, 21, 13), 23)
    assert first == "Using the numbers [15, 21, 13], create an equation that equals 23."


def test_steps_stay_positive_integers_and_distance_agrees() -> None:
    assert set(results(4, 8)) == {("+", 12), ("-", 4), ("*", 32), ("/", 2)}
    assert set(results(5, 5)) == {("+", 10), ("*", 25), ("/", 1)}
    assert results(1, 9) == [("+", 10), ("-", 8), ("*", 9)]
    rng = Random(0)
    for _ in range(300):
        small, large = sorted(rng.choices(range(1, 120), k=2))
        target = rng.randint(1, 200)
        hits = any(result == target for _, result in results(small, large))
        assert (distance((small, large), target) == 0) == hits
    assert all(min(step.after) > 0 for step in steps((3, 3, 8)))
    assert winning_steps((2, 3), 6) == 1


def test_expressions_have_the_value_of_both_ways_to_write_them() -> None:
    rng = Random(1)
    for _ in range(200):
        tree, expected = random_expression(rng, rng.randint(2, 5))
        assert value(tree) == expected
        for written in (show(tree), show_short(tree)):
            assert evaluate(parse(written)) == expected, written


@pytest.mark.parametrize("kind", integer_math.SENTENCES)
def test_integer_problems_are_split_by_their_parameters(kind: str) -> None:
    rng = Random(kind)
    for held_out in (True, False):
        for _ in range(20):
            problem = integer_math.generate(rng, held_out=held_out, kind=kind)
            assert problem.kind == kind
            assert problem.answer >= 0
            assert is_held_out(problem.key) == held_out


def test_integer_answers_solve_what_is_asked() -> None:
    rng = Random(2)
    for _ in range(50):
        a, b, c, m = (made := integer_math.generate(rng, held_out=False, kind="remainder")).values
        assert made.answer == (a * b + c) % m
        a, b, c, d = (made := integer_math.generate(rng, held_out=False, kind="equation")).values
        assert a * made.answer + b == c * made.answer + d
        a, m, r = (made := integer_math.generate(rng, held_out=False, kind="inverse")).values
        assert min(x for x in range(1, m) if a * x % m == r) == made.answer
