import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.pages import PageAllocator, PageError


def test_neighbouring_pages_are_given_to_a_holder_that_claimed_them():
    pages = PageAllocator(32)
    pages.claim(0, 4)
    pages.claim(1, 4)
    first = pages.allocate(0, None)
    other = pages.allocate(1, None)
    second = pages.allocate(0, first)
    assert (first, second, other) == (0, 1, 4)


def test_a_holder_never_steps_into_the_claim_of_another():
    pages = PageAllocator(16)
    pages.claim(1, 2)
    last = pages.allocate(1, None)
    pages.claim(2, 4)
    for _ in range(3):
        last = pages.allocate(1, last)
    assert [pages.allocate(2, None)] == [2], "the run of the second holder is whole"
    third = pages.allocate(3, None)
    pages.release([third])
    pages.claim(3, 2)
    assert pages.allocate(2, 2) == 3


def test_a_page_freed_inside_a_foreign_claim_stays_claimed():
    pages = PageAllocator(4)
    pages.claim(0, 4)
    guest = pages.allocate(9, None)
    pages.release([guest])
    pages.claim(1, 2)
    assert [pages.allocate(0, None), pages.allocate(0, 0)] == [0, 1]


def test_a_claim_gives_way_when_nothing_else_is_free():
    pages = PageAllocator(4)
    pages.claim(0, 4)
    assert sorted(pages.allocate(9, None) for _ in range(4)) == [0, 1, 2, 3]
    with pytest.raises(PageError, match="no page is free"):
        pages.allocate(0, None)


def test_a_shared_page_is_free_only_when_its_last_holder_lets_go():
    pages = PageAllocator(2)
    page = pages.allocate(0, None)
    pages.retain([page])
    pages.release([page])
    assert pages.used == 1
    pages.release([page])
    assert pages.used == 0
    with pytest.raises(PageError, match="more often"):
        pages.release([page])


def test_a_free_page_cannot_gain_a_holder():
    with pytest.raises(PageError, match="is free"):
        PageAllocator(2).retain([0])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 7)), max_size=60))
def test_counts_equal_holders_after_any_sequence(operations):
    pages = PageAllocator(12)
    tables: dict[int, list[int]] = {h: [] for h in range(6)}
    for kind, holder, size in operations:
        table = tables[holder]
        if kind == 0 and pages.free:
            table.append(pages.allocate(holder, table[-1] if table else None))
        elif kind == 1:
            pages.release(table)
            pages.unclaim(holder)
            table.clear()
        elif kind == 2 and not table:
            pages.unclaim(holder)
            pages.claim(holder, size + 1)
        elif kind == 3:
            source = tables[(holder + size) % 6]
            pages.retain(source)
            table += source
        pages.check(tables.values())
        assert pages.free + pages.used == pages.total


def test_check_finds_a_leaked_page():
    pages = PageAllocator(4)
    pages.allocate(0, None)
    with pytest.raises(PageError, match="0 tables name it"):
        pages.check([])
