"""Small tokenizers of the two kinds, made here: byte-level BPE and byte fallback."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Fast
from transformers import PreTrainedTokenizerFast

from engine.text.tokenizer import Tokenizer

LINES = ["the numbers are 3, 7, 11 and 25", " we try 3 * 7 = 21 and 21 + 11 = 32", "für Straße, naïve café",
         "数字は三つ", "\n\n    indented", "the answer is 56"] * 3

TEMPLATE = """{%- for message in messages %}
{%- if message.role == 'alien' %}{{ raise_exception('no aliens') }}{% endif -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"""


def add_tokens(fast: Fast) -> None:
    fast.add_special_tokens([AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>")])
    fast.add_tokens([AddedToken(text, special=False, normalized=False) for text in ("<think>", "</think>")])


def wrap(fast: Fast) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=fast, eos_token="<|im_end|>", chat_template=TEMPLATE,
                                   clean_up_tokenization_spaces=False)


@cache
def byte_level() -> Tokenizer:
    """As in Qwen and Llama 3."""
    fast = Fast(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    fast.train_from_iterator(LINES, trainer)
    add_tokens(fast)
    return Tokenizer(wrap(fast))


@cache
def byte_fallback() -> Tokenizer:
    """As in Llama 2: "▁" for a space, one in front of the text, and <0xNN> for what is not in the vocabulary."""
    bytes_ = {f"<0x{byte:02X}>": 1 + byte for byte in range(256)}
    words = ["▁", *"abcdefghijklmnopqrstuvwxyz0123456789ü数", "th", "▁th", "▁the", "▁▁"]
    vocabulary = {"<unk>": 0} | bytes_ | {word: 257 + i for i, word in enumerate(words)}
    merges = [("t", "h"), ("▁", "th"), ("▁th", "e"), ("▁", "▁")]
    fast = Fast(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    fast.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    fast.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(" ", 1, 0)])
    add_tokens(fast)
    return Tokenizer(wrap(fast))


KINDS = {"byte_level": byte_level, "byte_fallback": byte_fallback}


@pytest.fixture(params=list(KINDS))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return KINDS[request.param]()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder as far as the tokenizer needs it."""
    byte_level()._inner.save_pretrained(str(tmp_path))
    return tmp_path
