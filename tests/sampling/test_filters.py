"""Filters equal the Hugging Face processors, and keep every token that ties with the last one kept."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.sampling.filters import Filters, filter_width
from engine.types import SamplingParams


def ours(scores: torch.Tensor, params: list[SamplingParams], width: int | None = None) -> torch.Tensor:
    filters = Filters(len(params), scores.shape[1], torch.device("cpu"))
    for slot, each in enumerate(params):
        filters.admit(slot, each)
    needed = max(filter_width(each, scores.shape[1]) for each in params)
    return filters.apply(
        scores, torch.arange(len(params)), width or max(needed, 1), any(p.top_p < 1 for p in params)
    )


def theirs(scores: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    ids = torch.zeros(len(scores), 1, dtype=torch.int64)
    if params.temperature != 1:
        scores = TemperatureLogitsWarper(params.temperature)(ids, scores)
    if params.top_k:
        scores = TopKLogitsWarper(params.top_k)(ids, scores)
    if params.top_p < 1:
        scores = TopPLogitsWarper(params.top_p)(ids, scores)
    if params.min_p > 0:
        scores = MinPLogitsWarper(params.min_p)(ids, scores)
    return scores


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(2, 400),
    spread=st.sampled_from([0.3, 1.0, 4.0]),
    top_k=st.sampled_from([0, 1, 5, 50, 1000]),
    top_p=st.sampled_from([1.0, 0.05, 0.5, 0.9, 0.999]),
    min_p=st.sampled_from([0.0, 0.01, 0.3, 0.99]),
    temperature=st.sampled_from([1.0, 0.6, 1.7]),
)
def test_equal_to_hugging_face(
    seed: int, vocab: int, spread: float, top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    params = SamplingParams(max_tokens=1, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    logits = torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed)) * spread
    assert torch.equal(ours(logits / temperature, [params] * 3), theirs(logits, params))


def test_rows_with_different_filters_do_not_touch_each_other(rng: torch.Generator) -> None:
    params = [
        SamplingParams(max_tokens=1, top_k=3),
        SamplingParams(max_tokens=1, top_p=0.7),
        SamplingParams(max_tokens=1, min_p=0.1),
        SamplingParams(max_tokens=1),
        SamplingParams(max_tokens=1, top_k=40, top_p=0.5, min_p=0.02),
    ]
    scores = torch.randn(5, 101, generator=rng) * 2
    mixed = ours(scores, params)
    for row, each in enumerate(params):
        assert torch.equal(mixed[row], theirs(scores[row : row + 1], each)[0])
    assert torch.equal(mixed[3], scores[3])


def test_a_wider_view_than_needed_changes_no_bit(rng: torch.Generator) -> None:
    params = [SamplingParams(max_tokens=1, top_k=20, top_p=0.9)] * 8
    scores = torch.randn(8, 5000, generator=rng)
    narrow = ours(scores, params)
    for width in (21, 100, 5000):
        assert torch.equal(ours(scores, params, width), narrow)


def test_ties_at_the_boundary_all_stay() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]])
    kept = ours(scores, [SamplingParams(max_tokens=1, top_k=2)]).isfinite()
    assert kept.tolist() == [[False, True, True, True, True, False]]
    flat = torch.zeros(1, 10)
    assert ours(flat, [SamplingParams(max_tokens=1, top_p=0.35)]).isfinite().all()
    assert ours(flat, [SamplingParams(max_tokens=1, top_k=3, top_p=0.2, min_p=0.9)]).isfinite().all()


def test_ties_beyond_the_view_count_in_the_nucleus() -> None:
    """Top-2 keeps the four tied tokens: each holds 1/5 of the mass, so a nucleus of 0.5 still reaches them."""
    scores = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, -9.0]])
    assert ours(scores, [SamplingParams(max_tokens=1, top_k=2, top_p=0.5)]).isfinite().sum() == 5


@pytest.mark.parametrize("settings_", [{"top_p": 1e-6}, {"top_k": 1}, {"min_p": 0.999}], ids=str)
def test_the_best_token_always_stays(settings_: dict[str, float], rng: torch.Generator) -> None:
    scores = torch.randn(6, 97, generator=rng) * 30
    kept = ours(scores, [SamplingParams(max_tokens=1, **settings_)] * 6).isfinite()  # type: ignore[arg-type]
    assert torch.equal(kept.float().argmax(1), scores.argmax(1))
    assert (kept.sum(1) == 1).all()
