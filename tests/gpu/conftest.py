"""The embedded model on the GPU, and prompts that it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.text.tokenizer import load_tokenizer
from reasoner.evaluate import tasks

FOLDER = Path(__file__).parents[2] / "reasoner" / "models" / "embedded"


@pytest.fixture(scope="session")
def folder() -> Path:
    return FOLDER


@pytest.fixture(scope="session")
def prompts() -> list[tuple[int, ...]]:
    """100 countdown problems as the model's chat template puts them."""
    tokenizer = load_tokenizer(FOLDER)
    problems = tasks.get("countdown4").problems(100, seed=3)
    return [
        tuple(tokenizer.apply_chat_template([message.to_json() for message in problem.messages], None))
        for problem in problems
    ]
