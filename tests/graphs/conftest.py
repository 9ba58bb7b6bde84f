"""The tiny models of the engine's tests."""

from tests.engine.conftest import tiny_model, tiny_models

__all__ = ["tiny_model", "tiny_models"]
