"""A plan's changes as they arrive on the device: state, tables, pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.device_changes import DeviceChanges
from engine.kv.device_pool import DevicePool
from engine.kv.edits import PageCopy, PageEdit
from engine.sampling.device.sampler import DeviceSampler
from engine.sampling.device.slots import Column
from engine.sampling.stops import FinishCode
from engine.scheduler.plan import Admit, StepPlan
from engine.types import SamplingParams, Thinking

SLOTS, PAGES, WIDTH, VOCAB = 4, 10, 8, 50
NOTHING = StepPlan(0, (), (), (), (), (), (), (), (), ())
THINKING = SamplingParams(9, thinking=Thinking(1, 2, (2,), max_tokens=5))


class Direct:
    """An upload without pinned memory, which only a GPU has; counts what travelled."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.sent = device, 0

    def send(self, arrays: list[np.ndarray]) -> list[torch.Tensor]:
        self.sent += 1
        return [torch.from_numpy(np.array(array).reshape(-1)).to(self.device) for array in arrays]


class Device:
    def __init__(self, device: torch.device) -> None:
        self.pool = DevicePool(
            layers=1, kv_heads=1, head_dim=4, pages=PAGES, page_size=2, dtype=torch.bfloat16, device=device
        )
        self.pool.data.copy_(torch.arange(PAGES + 1).view(-1, 1, 1, 1, 1, 1).expand(self.pool.data.shape))
        self.table = torch.full((2 * SLOTS + 1, WIDTH), PAGES, dtype=torch.int32, device=device)
        self.sampler = DeviceSampler(slots=SLOTS, vocab=VOCAB, eos_ids=(0,), device=device, max_rows=SLOTS)
        self.upload = Direct(device)
        self.changes = DeviceChanges(self.pool, self.table, self.sampler, self.upload, SLOTS)  # type: ignore[arg-type]

    def apply(self, **parts: object) -> None:
        self.changes.apply(replace(NOTHING, **parts))  # type: ignore[arg-type]

    def cell(self, slot: int, column: Column) -> int:
        return int(self.sampler.state[slot, column])


@pytest.fixture
def on_device(device: torch.device) -> Device:
    return Device(device)


def admit(slot: int, sampling: SamplingParams = THINKING, shared: int = 0) -> Admit:
    return Admit(slot, slot, 7, sampling, (5, 6, 7), 7, 2, SLOTS, shared)


def test_a_path_gets_its_state_and_the_prompts_pages_which_lie_behind_the_row_of_padding(on_device):
    place = on_device.pool.place
    prompt = tuple(PageEdit(SLOTS, at, page) for at, page in enumerate((4, 6, 8)))
    on_device.apply(edits=prompt)
    on_device.apply(admits=(admit(1, shared=2), admit(3)), edits=(PageEdit(1, 2, 9),))
    assert on_device.table[SLOTS + 1, :3].tolist() == [place(4), place(6), place(8)]
    assert on_device.table[1].tolist() == [place(4), place(6), place(9), *[PAGES] * (WIDTH - 3)]
    assert on_device.table[3].tolist() == [PAGES] * WIDTH
    assert on_device.table[SLOTS].tolist() == [PAGES] * WIDTH, "padded rows name no page of anybody"
    assert [on_device.cell(1, c) for c in (Column.NEXT_ID, Column.POSITION, Column.FINISH)] == [7, 2, 0]


def test_a_copied_page_is_where_the_table_says(on_device):
    on_device.apply(admits=(admit(0),), edits=(PageEdit(0, 0, 3),), copies=(PageCopy(5, 3, 1),))
    pool = on_device.pool
    assert float(pool.data[int(on_device.table[0, 0])].mean()) == pool.place(5)


def test_closing_takes_the_thinking_budget_and_only_where_there_is_thinking(on_device):
    on_device.apply(admits=(admit(0), admit(1, SamplingParams(9))))
    before = on_device.cell(1, Column.MAX_THINK)
    on_device.apply(closes=(0, 1))
    assert on_device.cell(0, Column.MAX_THINK) == 0
    assert on_device.cell(1, Column.MAX_THINK) == before


def test_a_resumed_path_runs_again(on_device):
    on_device.apply(admits=(admit(2),))
    on_device.sampler.state[2, Column.FINISH] = int(FinishCode.HELD)
    on_device.apply(resumes=(2,))
    assert on_device.cell(2, Column.FINISH) == FinishCode.RUNNING


def test_a_plan_that_changes_nothing_uploads_nothing(on_device):
    on_device.apply(admits=(admit(0),))
    sent = on_device.upload.sent
    on_device.apply(slots=(0,), positions=(2,))
    assert on_device.upload.sent == sent


def test_a_slot_can_be_released_and_taken_in_one_plan(on_device):
    on_device.apply(admits=(admit(0),))
    on_device.apply(releases=(0, SLOTS), admits=(admit(0, SamplingParams(3)),))
    assert on_device.cell(0, Column.MAX_TOKENS) == 3
