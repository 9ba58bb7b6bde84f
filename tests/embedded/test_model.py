"""The shipped folder: transformers loads it and agrees with the trainer's tokenizer, template and sampler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from reasoner.models import embedded_path
from reasoner.problem import Message, Problem
from scripts.embedded.conversation import chat_prompt
from scripts.embedded.export import load_model, save_model, save_tokenizer
from scripts.embedded.grading import Sample, curve, grade, pass_at, solved
from scripts.embedded.network import ModelConfig, Network, initial_weights
from scripts.embedded.sampler import Sampler
from scripts.embedded.tokenizer import vocabulary
from scripts.embedded.training import batch_of

TEXTS = (
    "naïve € 🎉 x\n\n  y",
    "<think>\n3 5 -> 8 yes\n</think>\n\nThe answer is \\boxed{(1+2)*3}.<|im_end|>",
    chat_prompt("Make 24 from 4, 7, 8 and 8.", "You are a helpful assistant."),
    "Unheard-of words, 1234567890 and\ttabs",
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(embedded_path())


@pytest.mark.parametrize("text", TEXTS)
def test_the_tokenizer_of_the_folder_is_the_trainers(tokenizer: Any, text: str) -> None:
    ids = vocabulary().encode(text)
    assert tokenizer.encode(text) == ids
    assert tokenizer.decode(ids) == vocabulary().decode(ids) == text


def test_the_folder_holds_what_the_trainer_writes_now(tmp_path: Path) -> None:
    config, _ = load_model(embedded_path(), "cpu")
    assert config == ModelConfig()
    save_tokenizer(tmp_path, config)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        written = json.loads((tmp_path / name).read_text(encoding="utf-8"))
        shipped = json.loads((embedded_path() / name).read_text(encoding="utf-8"))
        assert written == shipped, name
    shipped_template = (embedded_path() / "chat_template.jinja").read_text(encoding="utf-8")
    assert (tmp_path / "chat_template.jinja").read_text(encoding="utf-8") == shipped_template


@pytest.mark.parametrize("system", [None, "You are a helpful assistant."])
@pytest.mark.parametrize("thinking", [True, False])
def test_the_chat_template_renders_what_was_trained(
    tokenizer: Any, system: str | None, thinking: bool
) -> None:
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": "Compute 12*7."})
    rendered = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
    )
    assert rendered == chat_prompt("Compute 12*7.", system, thinking)


def test_transformers_runs_the_model_and_the_sampler_agrees(tokenizer: Any) -> None:
    model = AutoModelForCausalLM.from_pretrained(embedded_path(), dtype=torch.float32).eval()
    sampler = Sampler(*load_model(embedded_path(), "cpu"), "cpu")
    prompts = [
        vocabulary().encode(chat_prompt(text)) for text in ("Compute 12*7.", "Make 21 from 3, 4 and 3")
    ]
    sampled = sampler.sample(prompts, 60, temperature=0.0)
    for prompt, ids in zip(prompts, sampled, strict=True):
        made = model.generate(torch.tensor([prompt]), max_new_tokens=60, do_sample=False)
        assert made[0, len(prompt) :].tolist() == ids.tolist()
    assert "\\boxed{84}" in tokenizer.decode(sampled[0].tolist())


def test_the_shipped_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in embedded_path().rglob("*")) < 24_000_000


def test_the_training_loss_is_that_of_transformers(tmp_path: Path) -> None:
    config = ModelConfig(hidden=32, layers=2, heads=4, kv_heads=2, head_dim=16, feed_forward=48)
    weights = initial_weights(config, 0, "cpu")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in weights.values():  # off its start, where every block is silent
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.1)
    save_model(tmp_path, config, weights)
    config, weights = load_model(tmp_path, "cpu")
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    chunks = [
        np.random.default_rng(0).integers(0, 500, shape).astype(np.uint16) for shape in ((3, 20), (2, 30))
    ]
    ours = Network(config, "cpu", torch.float32, False).loss_sum(weights, batch_of(chunks, "cpu"))
    theirs = 0.0
    for chunk in chunks:
        ids = torch.from_numpy(chunk.astype(np.int64))
        theirs += model(ids, labels=ids).loss.item() * chunk[:, 1:].size
    assert ours.item() == pytest.approx(theirs, rel=1e-5)


def test_grading_counts_the_answer_against_the_budget() -> None:
    v = vocabulary()
    problem = Problem(
        (Message("user", "Make 24 from 4, 8, 8 and 7."),), data={"numbers": [4, 8, 8, 7], "target": 24}
    )
    ids = np.array(v.encode("<think>\n</think>\n\nThe answer is \\boxed{(8*7)-(8*4)}.<|im_end|>"), np.int16)
    sample = grade(problem, ids)
    assert sample.right
    assert sample.right_within(len(ids))
    assert not sample.right_within(len(ids) - 1)
    assert not grade(problem, ids[:-1]).right
    assert not grade(problem, ids[:3]).right


def test_pass_at_k_is_the_unbiased_estimator() -> None:
    assert pass_at(2, 4, 2) == pytest.approx(5 / 6)
    assert (pass_at(64, 64, 0), pass_at(1, 8, 8), pass_at(8, 8, 1)) == (0.0, 1.0, 1.0)
    graded = [[Sample(100, 80, "7", True), Sample(50, 40, "8", False)], [Sample(90, 90, None, False)] * 2]
    assert curve(graded, (64, 128), (1, 2)) == {"64": {"1": 0.0, "2": 0.0}, "128": {"1": 0.25, "2": 0.5}}
    assert solved(graded, 128) == 1
