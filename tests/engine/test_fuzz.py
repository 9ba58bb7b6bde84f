"""Random histories against the device model: whatever is asked, whenever, the books balance."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.histories import Life, comes_to_rest


@pytest.mark.parametrize(("seed", "overlap"), [(855, 1), (1954, 0), (7935, 1)])
def test_a_group_that_comes_back_with_new_paths_does_not_stop_those_that_hold_its_room(seed, overlap):
    """Histories that a soak found."""
    comes_to_rest(seed, overlap)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**6), st.integers(0, 1))
def test_whatever_is_asked_the_loop_comes_to_rest_and_nobody_waits_beside_free_room(seed, overlap):
    comes_to_rest(seed, overlap)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**6), st.integers(1, 60))
def test_any_short_history_leaves_every_page_counted_and_every_stream_ended_once(seed, turns):
    Life(seed, turns).run()


def test_ten_thousand_steps_with_holds_resumes_cancels_and_queued_steps_break_no_fence():
    passes = 0
    for seed in range(32):
        life = Life(seed, 500)
        life.run()
        passes += life.passes
    assert passes > 10_000
