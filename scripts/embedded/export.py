"""Writes and reads the model as a Hugging Face folder: config, weights, tokenizer, chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from scripts.embedded.conversation import CHAT_TEMPLATE
from scripts.embedded.network import ModelConfig, Weights
from scripts.embedded.tokenizer import PRE_TOKEN, SPECIALS, vocabulary

DEFAULT_FOLDER = Path("reasoner/models/embedded")


def save_model(folder: Path, config: ModelConfig, weights: Mapping[str, Tensor]) -> int:
    """Writes everything into `folder`, weights as bfloat16; returns the bytes of the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {name: value.detach().to("cpu", torch.bfloat16).contiguous() for name, value in weights.items()}
    path = folder / "model.safetensors"
    save_file(stored, path, metadata={"format": "pt"})
    _write(folder / "config.json", _model_json(config))
    _write(folder / "generation_config.json", _generation_json())
    save_tokenizer(folder, config)
    return path.stat().st_size


def load_model(folder: Path, device: str) -> tuple[ModelConfig, Weights]:
    """The shape and the float32 weights, requiring gradients. Raises ValueError for another vocabulary."""
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = ModelConfig(
        hidden=stored["hidden_size"],
        layers=stored["num_hidden_layers"],
        heads=stored["num_attention_heads"],
        kv_heads=stored["num_key_value_heads"],
        head_dim=stored["head_dim"],
        feed_forward=stored["intermediate_size"],
        theta=stored["rope_theta"],
        eps=stored["rms_norm_eps"],
        positions=stored["max_position_embeddings"],
    )
    if stored["vocab_size"] != config.vocabulary_size:
        raise ValueError(
            f"{folder} has {stored['vocab_size']} tokens, the templates define {config.vocabulary_size}"
        )
    loaded = load_file(folder / "model.safetensors", device=device)
    return config, {name: value.float().requires_grad_(True) for name, value in loaded.items()}


def save_tokenizer(folder: Path, config: ModelConfig) -> None:
    """tokenizer.json, tokenizer_config.json and chat_template.jinja, as transformers reads them."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    v = vocabulary()
    letters = _byte_letters()
    entries = {letters[byte]: byte for byte in range(256)}
    entries |= {"".join(letters[b] for b in word.encode()): 256 + i for i, word in enumerate(v.words)}
    tokenizer = Tokenizer(models.BPE(vocab=entries, merges=[], ignore_merges=True, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKEN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    for special in SPECIALS:  # the think tags stay visible when special tokens are skipped, as in Qwen3
        token = AddedToken(special, special=_is_hidden(special), normalized=False)
        add = tokenizer.add_special_tokens if _is_hidden(special) else tokenizer.add_tokens
        add([token])
        if tokenizer.token_to_id(special) != v.ids[special]:
            raise AssertionError(f"{special} has id {tokenizer.token_to_id(special)}, not {v.ids[special]}")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", _tokenizer_json(config))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def _is_hidden(special: str) -> bool:
    return "think" not in special


def _byte_letters() -> dict[int, str]:
    """GPT-2's printable letter of each byte, as the ByteLevel steps of the tokenizers library use it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    return letters | {byte: chr(256 + i) for i, byte in enumerate(others)}


def _model_json(config: ModelConfig) -> dict[str, Any]:
    v = vocabulary()
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": v.end_of_text,
        "eos_token_id": v.end_of_turn,
        "pad_token_id": v.end_of_text,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "hidden_size": config.hidden,
        "initializer_range": 0.02,
        "intermediate_size": config.feed_forward,
        "max_position_embeddings": config.positions,
        "max_window_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers,
        "num_key_value_heads": config.kv_heads,
        "rms_norm_eps": config.eps,
        "rope_scaling": None,
        "rope_theta": config.theta,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": config.vocabulary_size,
    }


def _generation_json() -> dict[str, Any]:
    v = vocabulary()
    return {
        "bos_token_id": v.end_of_text,
        "eos_token_id": [v.end_of_turn, v.end_of_text],
        "pad_token_id": v.end_of_text,
        "do_sample": True,
        "temperature": 1.0,
        "top_p": 1.0,
    }


def _tokenizer_json(config: ModelConfig) -> dict[str, Any]:
    added = {
        str(vocabulary().ids[special]): {
            "content": special,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": _is_hidden(special),
        }
        for special in SPECIALS
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": config.positions,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "unk_token": None,
        "chat_template": CHAT_TEMPLATE,
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
