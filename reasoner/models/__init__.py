"""The model that ships inside the package."""

from __future__ import annotations

from pathlib import Path


def embedded_path() -> Path:
    """The folder of the embedded model, in Hugging Face layout: config, weights, tokenizer, chat template."""
    return Path(__file__).parent / "embedded"
