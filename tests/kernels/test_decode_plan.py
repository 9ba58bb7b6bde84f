"""The device's schedule of split attention against what it has to be."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from engine.attention.decode_plan import DecodePlan, StateView

PAGE, WIDTH, SLOTS = 64, 1024, 12


def planned(device: torch.device, lengths: list[int], capacity: int, fixed: int = 0):
    """A plan for slots in scrambled order, one row of them the scratch slot: (plan, block table, slots)."""
    draw = random.Random(sum(lengths))
    state = torch.zeros(SLOTS + 1, 5, dtype=torch.int32)
    order = draw.sample(range(SLOTS), len(lengths) - 1)
    slots = [*order, SLOTS]
    for slot, length in zip(slots, lengths, strict=True):
        state[slot, 2], state[slot, 4] = length - 1, 1000 + slot
    table = torch.arange((SLOTS + 1) * WIDTH, dtype=torch.int32).view(SLOTS + 1, WIDTH)
    plan = DecodePlan(len(lengths), capacity, PAGE, WIDTH, device, fixed)
    plan.workspace[:] = -1
    view = StateView(state.to(device), next_id=4, position=2)
    plan.write(torch.tensor(slots, dtype=torch.int32, device=device), view, table.to(device))
    return plan, table, slots


@pytest.mark.parametrize("capacity", [1, 9, 33, 132])
@pytest.mark.parametrize(
    "lengths", [[1, 1], [1, 63, 64, 65, 1], [2048, 50_000, 777, 64, 1], [30_000] * 8 + [1], [60_000, 1]]
)
def test_every_page_of_every_path_is_read_exactly_once(device, lengths, capacity):
    plan, table, slots = planned(device, lengths, capacity)
    pages = [-(-length // PAGE) for length in lengths]
    indptr = plan.kv_indptr.tolist()
    assert [b - a for a, b in itertools.pairwise(indptr)] == pages
    for row, slot in enumerate(slots):
        own = plan.kv_indices[indptr[row] : indptr[row + 1]].tolist()
        assert own == table[slot, : pages[row]].tolist()
    assert plan.last_page_len.tolist() == [(length - 1) % PAGE + 1 for length in lengths]
    assert plan.positions.tolist() == [length - 1 for length in lengths]
    assert plan.ids.tolist() == [1000 + slot for slot in slots[:-1]] + [1000 + SLOTS]

    chunk = int(plan.part["chunk"][0]) // PAGE
    chunks = [-(-count // chunk) for count in pages]
    total = sum(chunks)
    assert total <= plan.capacity
    first = plan.part["indptr"][: len(lengths) + 1].tolist()
    assert first == [sum(chunks[:row]) for row in range(len(lengths) + 1)]
    assert plan.part["request"][:total].tolist() == [row for row, n in enumerate(chunks) for _ in range(n)]
    assert plan.part["tile"][:total].tolist() == [i for n in chunks for i in range(n)]
    valid = plan.part["valid"].view(torch.int8)[: plan.capacity].tolist()
    assert valid == [1] * total + [0] * (plan.capacity - total)


@pytest.mark.parametrize("lengths", [[50_000, 9_000, 40, 1], [2_000] * 7 + [1]])
def test_chunks_are_the_smallest_that_fit_the_grid(device, lengths):
    plan, _, _ = planned(device, lengths, 20)
    chunk = int(plan.part["chunk"][0]) // PAGE
    pages = [-(-length // PAGE) for length in lengths]
    assert chunk == 2 or sum(-(-count // (chunk - 1)) for count in pages) > 20


def test_a_fixed_chunk_does_not_depend_on_the_neighbours(device):
    alone, _, _ = planned(device, [50_000, 1], 1, fixed=64)
    crowd, _, _ = planned(device, [50_000, 60_000, 9_000, 1], 1, fixed=64)
    assert int(alone.part["chunk"][0]) == int(crowd.part["chunk"][0]) == 64 * PAGE
    assert crowd.capacity >= 4 * WIDTH // 64
