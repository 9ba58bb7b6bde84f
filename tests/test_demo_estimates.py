"""The demo's figures equal brute force over every subset of the recorded paths."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoner.demo import RecordedPath, pass_at, scaling, tokens_all_end, tokens_first_verified

recordings = st.lists(st.builds(RecordedPath, st.integers(1, 30), st.booleans()), min_size=1, max_size=7)


def spent_by(paths: tuple[RecordedPath, ...]) -> int:
    """What a run of exactly these paths spends: all stop when the first solved one ends."""
    end = min((path.tokens for path in paths if path.solved), default=10**9)
    return sum(min(path.tokens, end) for path in paths)


@given(recordings, st.data())
def test_tokens_of_first_verified_are_the_mean_over_all_subsets(
    paths: list[RecordedPath], data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, len(paths)))
    subsets = list(combinations(paths, n))
    assert tokens_first_verified(n, paths) == pytest.approx(sum(map(spent_by, subsets)) / len(subsets))


@given(recordings, st.data())
def test_pass_rate_is_the_share_of_subsets_that_hold_a_solved_path(
    paths: list[RecordedPath], data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, len(paths)))
    subsets = list(combinations(paths, n))
    expected = sum(any(path.solved for path in subset) for subset in subsets) / len(subsets)
    assert pass_at(n, len(paths), sum(path.solved for path in paths)) == pytest.approx(expected)


@given(recordings)
def test_stopping_early_never_costs_more_than_letting_all_paths_end(paths: list[RecordedPath]) -> None:
    for n in range(1, len(paths) + 1):
        assert tokens_first_verified(n, paths) <= tokens_all_end(n, paths) + 1e-9


def test_one_path_always_runs_to_its_end() -> None:
    paths = [RecordedPath(10, True), RecordedPath(30, False)]
    assert tokens_first_verified(1, paths) == 20


def test_each_problem_weighs_the_same() -> None:
    solved, unsolved = [RecordedPath(4, True)] * 4, [RecordedPath(8, False)] * 4
    one, two, four = scaling([solved, unsolved])
    assert [e.n for e in (one, two, four)] == [1, 2, 4]
    assert one.pass_rate == two.pass_rate == 0.5
    assert four.tokens_first_verified == four.tokens_all_end == 24
    assert four.saved == 0


def test_more_paths_than_were_recorded_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n must lie in \[1, 4\], got 5"):
        pass_at(5, 4, 1)
