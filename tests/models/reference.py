"""Tiny random checkpoints written by transformers, its logits, and a plain causal attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.models.spec import ModelSpec
from engine.models.transformer import Transformer

EMBEDDED = Path(__file__).parents[2] / "reasoner" / "models" / "embedded"
SHAPE: dict[str, object] = {
    "vocab_size": 83, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256,
}


def write(path: Path, family: str, changes: Mapping[str, object] | None = None, *,
          shard_size: str = "1GB") -> Path:
    """Saves a random model with every weight, norms and biases too, away from its default."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **(SHAPE | dict(changes or {})))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name else 0.0
            parameter.copy_(centre + 0.2 * torch.randn_like(parameter))
    model.save_pretrained(path, max_shard_size=shard_size)
    return path


def expected_logprobs(path: Path, ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """What transformers says: ids [T] -> log-probabilities [T, V] float32."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager").eval()
    with torch.inference_mode():
        logits: Tensor = model(ids[None]).logits[0]
    return logits.float().log_softmax(-1)


class CausalAttention:
    """One sequence, no cache: every token sees itself and those before it."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        groups = q.shape[1] // k.shape[1]
        attended = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(0, 1), k.repeat_interleave(groups, 1).transpose(0, 1),
            v.repeat_interleave(groups, 1).transpose(0, 1), is_causal=True)
        return attended.transpose(0, 1).flatten(1)


def our_logprobs(path: Path, ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """ids [T] -> log-probabilities [T, V] float32; T a multiple of 16."""
    model = Transformer.load(path, ModelSpec.read(path), dtype, torch.device("cpu"))
    hidden = model.forward(ids, torch.arange(ids.shape[0]), CausalAttention())
    return model.logits(hidden).log_softmax(-1)


def token_ids(count: int, vocab: int = 83, seed: int = 1) -> Tensor:
    return torch.randint(vocab, (count,), generator=torch.Generator().manual_seed(seed))
