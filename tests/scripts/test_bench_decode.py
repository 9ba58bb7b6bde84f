"""The benchmark of decode steps: its clock, its bytes, its file of rows; and all of it once on a tiny model."""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentTypeError
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import EngineError
from engine.models.loader import SINGLE, expected_tensors
from engine.models.random import RandomWeights
from engine.models.shapes import shape_config, shape_folder
from engine.models.spec import ModelSpec
from scripts import bench_decode
from scripts.decode.cost import H200_READ, Cost
from scripts.decode.embedded import Load, embedded
from scripts.decode.gaps import Arrival, between, gaps
from scripts.decode.grid import Bench, Method, with_statistics
from scripts.decode.points import GRID, Point
from scripts.decode.record import KEYS, Record
from scripts.decode.start import start
from scripts.decode.streams import Meter, random_prompts
from scripts.decode.subject import Machine, Subject, tokens_of
from scripts.decode.tables import tables
from scripts.decode.trace import analyse


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of two layers, with weights."""
    folder = tmp_path_factory.mktemp("tiny")
    changes = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 320,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(shape_config("qwen3-8b", 2048) | changes))
    spec = ModelSpec.read(folder)
    source, drawn = RandomWeights(spec), {}
    for name, shape in expected_tensors(spec).items():
        drawn[name] = torch.empty(shape)
        source.copy(name, drawn[name])
    save_file(drawn, folder / SINGLE)
    return folder


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def bench() -> Bench:
    return Bench(Machine("cpu", threads=1), Method(steps=8, rounds=1), Record(None), 1e10)


# -- points and bytes ------------------------------------------------------------------------------------------


def test_k_is_1024_and_a_point_prints_as_it_is_written() -> None:
    assert Point.parse("16x10k") == Point(16, 10_240)
    assert Point.parse("8x45k") == Point(8, 45_056)
    assert [point.name for point in GRID] == [
        "1x1k",
        "16x1k",
        "64x1k",
        "1x32k",
        "16x10k",
        "16x32k",
        "8x45k",
        "32x16k",
    ]
    assert Point.parse("2x100").name == "2x100"


@pytest.mark.parametrize("text", ["16", "x1k", "0x1k", "16x", "16x1M"])
def test_what_is_no_point_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="16x10k"):
        Point.parse(text)


def test_the_floors_are_those_published_for_the_peer(tmp_path: Path) -> None:
    cost = Cost.of(ModelSpec.read(shape_folder("qwen3-8b", 65_536, tmp_path)), torch.bfloat16)
    assert cost.weights == pytest.approx(15.14e9, rel=1e-3)
    assert cost.kv_token == 144 * 1024
    floors = [cost.floor_ms(point, 136, H200_READ) for point in GRID]
    assert floors == pytest.approx([3.40, 3.97, 5.78, 4.44, 8.80, 20.6, 15.2, 20.7], rel=0.01)


def test_a_tied_embedding_counts_once_and_an_untied_one_not_at_all(tmp_path: Path) -> None:
    spec = ModelSpec.read(shape_folder("qwen3-0.6b", 1024, tmp_path))
    tied = Cost.of(spec, torch.bfloat16).weights
    assert Cost.of(replace(spec, tied=False), torch.bfloat16).weights == tied


def test_a_pool_of_the_size_asked_for_holds_the_prompt_and_the_path() -> None:
    assert tokens_of(1024, 264) == 16 * 64 + (1287 // 64 + 1) * 64 - 15 * 64
    assert tokens_of(1, 64) == 64


def test_no_two_prompts_share_a_page() -> None:
    prompts = random_prompts(64, 8, 320)
    assert len({prompt[0] for prompt in prompts}) == 64


# -- the clock -------------------------------------------------------------------------------------------------


async def test_a_mark_is_reached_when_the_last_path_has_passed_it() -> None:
    meter = Meter(2, (8, 16))
    meter.received(0, 9)
    meter.received(0, 7)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(meter.at(8), 0.01)
    meter.received(7, 16)
    assert await meter.at(8) > 0
    meter.received(9, 16)
    assert await meter.at(16) >= await meter.at(8)


async def test_whoever_waits_for_a_mark_learns_of_a_failed_path() -> None:
    meter = Meter(2, (8,))
    meter.fail(EngineError("the step failed"))
    with pytest.raises(EngineError, match="the step failed"):
        await meter.at(8)
    with pytest.raises(EngineError, match="the step failed"):
        await meter.over()


def test_gaps_belong_to_the_span_that_they_end_in() -> None:
    times = [[0.0, 1.0, 3.0, 4.0], [2.5, 2.75]]
    assert between(times, (1.0, 3.0)) == pytest.approx([2000, 250])


# -- what the device did ---------------------------------------------------------------------------------------


def kernel(name: str, start: float, duration: float, call: int, cat: str = "kernel") -> dict[str, object]:
    return {"name": name, "ts": start, "dur": duration, "cat": cat, "args": {"correlation": call}}


def test_a_trace_tells_kernels_launches_gaps_and_idle_time() -> None:
    step = [("plan", 0, 10), ("attend", 8, 20), ("_commit", 28, 2)]  # the second starts before the first ends
    events = [
        kernel(name, begin + start, duration, call)
        for call, begin in enumerate((0, 50, 100))
        for name, start, duration in step
    ]
    events += [kernel("copy", begin + 31, 4, 10 + begin, "gpu_memcpy") for begin in (0, 50, 100)]
    events += [{"name": "cudaGraphLaunch", "ts": 1, "dur": 1, "cat": "cuda_runtime"}]
    found = analyse(list(reversed(events)))
    assert found is not None
    assert (found.steps, found.kernels, found.launches) == (2, 3, 2)
    assert found.gap_us_p50 == pytest.approx(20)
    assert found.idle_share == pytest.approx(1 - 34 / 50)


def test_a_trace_without_two_steps_tells_nothing() -> None:
    assert analyse([kernel("_commit", 0, 1, 0)]) is None


# -- the file of rows ------------------------------------------------------------------------------------------

ROW: dict[str, object] = {
    "model": "qwen3-8b",
    "batch": 16,
    "context": 1024,
    "kv_dtype": "bf16",
    "weight_dtype": "bf16",
    "mode": "graph",
    "ms_per_step": 5.4321987,
    "tokens_per_s": 2945.0,
    "floor_share": 0.73,
}


def test_a_new_measurement_takes_the_place_of_the_old_one_and_of_no_other(tmp_path: Path) -> None:
    file = tmp_path / "made" / "rows.json"
    first = Record.open(file, "cpu", "a")
    first.add("rows", ROW | {"ms_per_step": 9.0})
    first.add("rows", ROW | {"mode": "eager"})
    second = Record.open(file, "cpu", "b")
    second.add("rows", ROW)
    content = json.loads(file.read_text())
    assert [(row["mode"], row["ms_per_step"], row["commit"]) for row in content["rows"]] == [
        ("eager", 5.432, "a"),
        ("graph", 5.432, "b"),
    ]
    assert content["machine"]["torch"] == torch.__version__
    assert content.keys() >= KEYS.keys()


def test_tables_compare_with_the_peer_only_what_was_measured_alike() -> None:
    record = Record(None)
    record.add("rows", ROW)
    record.add("rows", ROW | {"mode": "eager", "ms_per_step": 16.3})
    record.add("prefill", {"model": "qwen3-8b", "batch": 16, "context": 10_240, "seconds": 4.5})
    lines = list(tables(record))
    graph, eager = (next(line for line in lines if f"| {mode} |" in line) for mode in ("graph", "eager"))
    assert "**5.43** | 5.98 | 5.40" in graph
    assert "5.98" not in eager
    assert "| 3.00 |" in eager
    assert any("**4.50** | 4.70" in line for line in lines)


# -- all of it, small ------------------------------------------------------------------------------------------


def test_sections_run_on_a_cpu_and_leave_their_rows(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    common = ["--device", "cpu", "--threads", "1", "--model", str(tiny), "--steps", "8", "--out", str(out)]
    assert bench_decode.main([*common, "--sections", "prefill,decode", "--points", "1x64", "3x130"]) == 0
    content = json.loads(out.read_text())
    modes = [(row["batch"], row["context"], row["mode"]) for row in content["rows"]]
    assert modes == [(1, 64, "cpu"), (3, 130, "cpu"), (1, 64, "cpu, watched"), (3, 130, "cpu, watched")]
    for row in content["rows"]:
        assert 0 < row["ms_per_step"] == min(row["ms_rounds"])
        assert row["tokens_per_s"] == pytest.approx(1000 * row["batch"] / row["ms_per_step"], rel=1e-3)
        assert row["floor_share"] == pytest.approx(row["floor_ms"] / row["ms_per_step"], rel=1e-2)
        assert (row["kv_dtype"], row["weight_dtype"]) == ("fp32", "fp32")
    assert [(row["batch"], row["context"]) for row in content["prefill"]] == [(1, 64), (3, 130)]
    assert "3x130" in capsys.readouterr().out.splitlines()[-2]


async def test_many_paths_of_several_problems_are_timed_early_and_whole(
    tiny: Path, bench: Bench, tmp_path: Path
) -> None:
    await embedded(bench, Subject.find(str(tiny), tmp_path), (Load(2, 3, budget=24),), "cpu")
    (row,) = bench.record.lists["rows"]
    assert (row["batch"], row["groups"], row["budget"]) == (6, 2, 24)
    assert row["tokens_per_s_whole"] == pytest.approx(6000 / float(row["ms_whole"]), rel=1e-2)


async def test_streams_are_watched_while_a_long_prompt_arrives(
    tiny: Path, bench: Bench, tmp_path: Path
) -> None:
    arrival = Arrival(streams=2, context=32, arriving=512, chunk=64)
    await gaps(bench, Subject.find(str(tiny), tmp_path), arrival)
    (row,) = bench.record.lists["gaps"]
    assert row["longest_ms"] >= row["p99_ms"] >= row["p50_ms"] > 0
    assert 1000 * float(row["first_token_s"]) > float(row["p50_ms"])


async def test_a_start_tells_its_phases(tiny: Path) -> None:
    row = await start(str(tiny), "cpu")
    assert row["ready_s"] > 0
    assert "weights" in row["phases"]


def test_a_section_that_fails_says_why_and_the_others_still_run(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    common = ["--device", "cpu", "--threads", "1", "--model", str(tiny), "--steps", "8", "--rounds", "1"]
    sections = ["--sections", "prefill,invariant", "--points", "1x32", "--out", str(out)]
    assert bench_decode.main([*common, *sections]) == 1
    printed = capsys.readouterr().out
    assert "invariant ended: InvalidParameter: batch_invariant is a setting of the GPU engine" in printed
    assert printed.splitlines()[-1] == "failed: invariant"
    assert json.loads(out.read_text())["prefill"]


async def test_statistics_are_measured_against_the_same_paths_without(
    tiny: Path, bench: Bench, tmp_path: Path
) -> None:
    await with_statistics(bench, Subject.find(str(tiny), tmp_path), [Point(2, 32)], "cpu")
    (row,) = bench.record.lists["rows"]
    assert row["mode"] == "cpu, statistics"
    assert row["speed_ratio"] == pytest.approx(float(row["ms_without"]) / float(row["ms_per_step"]), rel=1e-2)
