"""What a GPU engine decides at start-up, where deciding needs no GPU: buckets, attention kernels, products."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine import gpu_support
from engine.attention.choice import best, lengths_to_try
from engine.build import build
from engine.config import INVARIANT_ROWS, EngineConfig
from engine.errors import EngineError, InvalidParameter
from engine.graphs.buckets import bucket_for, default_buckets, invariant_buckets
from engine.models.product_choice import Matrix


@given(st.integers(1, 4096))
def test_buckets_hold_every_step_that_admission_can_run_and_waste_little(max_paths):
    sizes = default_buckets(max_paths)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] == max_paths
    for rows in range(1, max_paths + 1, max(1, max_paths // 50)):
        size = bucket_for(rows, sizes)
        assert size is not None
        assert rows <= size <= max(2 * rows, rows + 16)
    assert len(sizes) <= 30


def test_buckets_are_fine_where_a_padded_row_would_cost():
    assert default_buckets(64) == (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64)
    assert default_buckets(1) == (1,)
    assert default_buckets(16) == (1, 2, 4, 8, 16)


def test_a_step_of_more_rows_than_the_largest_bucket_has_none():
    assert bucket_for(65, (1, 16, 64)) is None
    assert bucket_for(17, (1, 16, 64)) == 64
    assert bucket_for(16, (1, 16, 64)) == 16


@given(st.integers(1, 2048))
def test_invariant_buckets_are_whole_blocks(max_paths):
    sizes = invariant_buckets(default_buckets(max_paths))
    assert all(size % INVARIANT_ROWS == 0 for size in sizes)
    assert max_paths <= sizes[-1] < max_paths + INVARIANT_ROWS


def test_the_best_kernel_is_best_relative_to_each_length_not_in_sum():
    # "long" is faster by 10 of 500 microseconds and slower by 10 of 20.
    assert best({"short": (10.0, 500.0), "long": (20.0, 490.0)}) == "short"
    assert best({"a": (10.0, 10.0), "b": (9.0, 9.0)}) == "b"


def test_lengths_to_try_are_those_that_so_many_paths_can_have():
    assert lengths_to_try(65_536, 600_000, 1) == (1024, 16_384, 65_536)
    assert lengths_to_try(65_536, 64_000, 64) == (250, 1000)
    assert lengths_to_try(8192, 100, 64) == (1,)


def test_a_product_is_streamed_only_in_a_form_that_what_follows_can_read():
    assert [cut.parts for cut in Matrix(4096, 4096, parts=True).cuts(16)] == [4]
    assert Matrix(4096, 4096, parts=False).cuts(16) == []
    assert [cut.parts for cut in Matrix(24_576, 4096, parts=False).cuts(1)] == [1]
    assert [cut.warps for cut in Matrix(4096, 4096, parts=True).cuts(64)] == [4, 8]
    assert Matrix(4096, 4096, parts=True).cuts(65) == []
    assert Matrix(768, 384, parts=True).cuts(1) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "tpu"}, "device"),
        ({"device": "cuda", "dtype": "float32"}, "bfloat16"),
        ({"device": "cuda", "page_size": 16}, "page_size"),
        ({"device": "cuda", "threads": 2}, "threads"),
        ({"device": "cuda", "capture_sizes": (8, 4)}, "ascending"),
        ({"device": "cuda", "capture_sizes": ()}, "capture_sizes"),
        ({"device": "cuda", "memory_share": 1.5}, "memory_share"),
        ({"device": "cuda", "max_paths": 64, "step_tokens": 64}, "step_tokens must be >= 80"),
        (
            {"device": "cuda", "max_paths": 64, "step_tokens": 100, "batch_invariant": True},
            "step_tokens must be >= 128",
        ),
        ({"max_paths": 300, "step_tokens": 256}, "step_tokens must be >= 320 .* got 256"),
        ({"capture_sizes": (1,)}, "capture_sizes"),
        ({"enforce_eager": True}, "enforce_eager"),
        ({"batch_invariant": True}, "batch_invariant"),
        ({"memory_share": 0.5}, "memory_share"),
        ({"queue_steps": 0}, "queue_steps"),
        ({"overlap": 2}, "overlap"),
        ({"weights": "none"}, "weights"),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused_by_its_name(changes, words):
    with pytest.raises(InvalidParameter, match=words):
        EngineConfig("model", **changes)


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        ({}, "Triton"),
        ({"triton": "3.6.0"}, "FlashInfer, which is not installed"),
        (
            {"triton": "3.6.0", "flashinfer-python": "0.7.0"},
            r"0\.7\.0 is installed.*pip install flashinfer-python==",
        ),
    ],
)
def test_what_a_gpu_engine_misses_is_named_with_its_remedy(monkeypatch, installed, words):
    monkeypatch.setattr(gpu_support, "_importable", installed.__contains__)
    monkeypatch.setattr(gpu_support, "_installed", installed.get)
    with pytest.raises(EngineError, match=words):
        gpu_support.require_packages()


def test_the_tested_packages_are_enough(monkeypatch):
    monkeypatch.setattr(gpu_support, "_importable", lambda _: True)
    monkeypatch.setattr(gpu_support, "_installed", lambda _: gpu_support.FLASHINFER)
    gpu_support.require_packages()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_the_start_says_so(tiny_model):
    with pytest.raises(InvalidParameter, match="no CUDA device here; use device='cpu'"):
        build(EngineConfig(tiny_model, device="cuda"))


def test_a_gpu_engine_overlaps_queues_and_takes_long_chunks_while_nothing_decodes():
    config = EngineConfig("model", device="cuda")
    assert (config.steps_in_flight, config.steps_queued) == (1, 8)
    assert (config.tokens_per_step, config.idle_tokens) == (2048, 8192)
    assert EngineConfig("model", device="cuda", step_tokens=512).idle_tokens == 512
    cpu = EngineConfig("model")
    assert (cpu.steps_in_flight, cpu.steps_queued, cpu.tokens_per_step, cpu.idle_tokens) == (0, 1, 256, 256)


def test_a_step_is_as_large_as_its_paths_need_where_nobody_has_said_how_large():
    for device, paths, tokens in (("cpu", 240, 256), ("cpu", 300, 320), ("cuda", 4096, 8192)):
        assert EngineConfig("model", device=device, max_paths=paths).tokens_per_step == tokens
    assert EngineConfig("model", device="cuda", max_paths=4096, batch_invariant=True).tokens_per_step == 8192
