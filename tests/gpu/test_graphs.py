"""Captured decode steps against the same steps launched kernel by kernel."""

from __future__ import annotations

import pytest
import torch

from engine.build_device import build_device
from engine.config import EngineConfig
from engine.device_executor import DeviceExecutor
from engine.gpu_support import require_gpu
from engine.kv.edits import PageEdit
from engine.models.spec import ModelSpec
from engine.sampling.device.slots import Column
from engine.scheduler.plan import Admit, Chunk, StepPlan, StepResult
from engine.types import SamplingParams

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

PATHS, LENGTH = 11, 90


@pytest.fixture(scope="module")
def executor(folder) -> DeviceExecutor:
    config = EngineConfig(
        folder, device="cuda", kv_tokens=100_000, max_paths=32, capture_sizes=(1, 8, 16, 32)
    )
    backend = build_device(config, ModelSpec.read(folder), 8192, require_gpu())
    assert isinstance(backend.runner, DeviceExecutor)
    return backend.runner


def plan(step: int, slots: tuple[int, ...] = (), **parts: object) -> StepPlan:
    empty: dict[str, object] = dict.fromkeys(
        ("releases", "admits", "edits", "copies", "closes", "resumes", "chunks"), ()
    )
    return StepPlan(step=step, slots=slots, positions=(LENGTH,) * len(slots), **(empty | parts))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def running(executor) -> DeviceExecutor:
    """Eleven paths with prompts of their own in the cache."""
    sampling = SamplingParams(500, temperature=0.8, top_p=0.95, logprobs=1, ignore_eos=True)
    ids = [tuple((7 * i + 13 * slot) % 500 for i in range(LENGTH + 1)) for slot in range(PATHS)]
    prompts = tuple(Chunk(slot, 0, ids[slot][:-1]) for slot in range(PATHS))
    pages = [(slot, at, 8 * slot + at) for slot in range(PATHS) for at in range(8)]
    edits = tuple(PageEdit(*edit) for edit in pages)
    admits = tuple(
        Admit(slot, slot, 5, sampling, ids[slot], ids[slot][-1], LENGTH, slot, 0) for slot in range(PATHS)
    )
    executor.launch(plan(0, admits=admits, edits=edits)).result()
    executor.launch(plan(1, chunks=prompts)).result()
    return executor


def steps(executor: DeviceExecutor, slots: tuple[int, ...], repeat: int) -> tuple[StepResult, torch.Tensor]:
    """What the paths do next, from the state they are in, which is left as it was."""
    before = executor.state.clone()
    torch.cuda.synchronize()  # the executor has a stream of its own
    with torch.inference_mode():
        result = executor.launch(plan(2, slots, repeat=repeat)).result()
        after = executor.state.clone()
        executor.state.copy_(before)
    torch.cuda.synchronize()
    return result, after


@pytest.mark.parametrize("rows", [1, 3, 8, 11])
def test_a_replay_equals_the_padded_step_launched_kernel_by_kernel_bit_for_bit(running, rows):
    slots = tuple(range(rows))
    captured, state = steps(running, slots, 8)
    graphs, running.graphs = running.graphs, None
    eager, eager_state = steps(running, slots, 8)
    running.graphs = graphs
    assert captured.count.tolist() == [8] * rows
    assert captured.tokens.tolist() == eager.tokens.tolist()
    assert captured.logprobs.tolist() == eager.logprobs.tolist()
    assert torch.equal(state, eager_state)


@pytest.mark.parametrize("rows", [3, 5, 11])
def test_a_padded_step_is_within_2e_2_of_the_unpadded_one(running, rows):
    slots = tuple(range(rows))
    padded, _ = steps(running, slots, 1)
    graphs, running.graphs = running.graphs, None
    buckets, running.buckets = running.buckets, (rows,)
    exact, _ = steps(running, slots, 1)
    running.graphs, running.buckets = graphs, buckets
    same = padded.tokens == exact.tokens
    assert abs(padded.logprobs - exact.logprobs)[same].max() < 2e-2
    assert same.mean() > 0.8


def test_two_runs_from_the_same_state_are_the_same(running):
    first, _ = steps(running, (4, 2, 9), 8)
    second, _ = steps(running, (4, 2, 9), 8)
    assert first.tokens.tolist() == second.tokens.tolist()


def test_a_path_does_the_same_whatever_its_row(running):
    """Same bucket, other rows: the products are the same, and the noise belongs to the path."""
    one, _ = steps(running, (4, 2, 9), 8)
    other, _ = steps(running, (9, 4, 2), 8)
    assert one.tokens[:, 0].tolist() == other.tokens[:, 1].tolist()
    assert one.tokens[:, 1].tolist() == other.tokens[:, 2].tolist()


def test_padded_rows_leave_every_page_of_a_path_alone(running):
    pool = running.pool.data
    place = [running.pool.place(page) for page in range(8 * PATHS)]
    before = pool[place].clone()
    torch.cuda.synchronize()
    steps(running, (0,), 1)
    steps(running, tuple(range(9)), 1)  # 16 rows, 7 of them padded
    changed = (pool[place] != before).flatten(1).any(1).nonzero().flatten().tolist()
    page_of_step = [8 * slot + LENGTH // 64 for slot in range(9)]
    assert set(changed) <= set(page_of_step)


def test_positions_and_next_ids_advance_on_the_device(running):
    before = running.state.clone()
    result, after = steps(running, (1, 5), 4)
    for row, slot in enumerate((1, 5)):
        assert int(after[slot, Column.POSITION]) == int(before[slot, Column.POSITION]) + 4
        assert int(after[slot, Column.NEXT_ID]) == result.tokens[3, row]
