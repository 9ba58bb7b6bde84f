"""Loading, chat template, markers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import InvalidParameter, ModelLoadError
from engine.text.tokenizer import Tokenizer, load_tokenizer
from engine.types import Phase
from tests.text.conftest import byte_level

USER = [{"role": "user", "content": "Use 3 and 7 <think>"}]


def test_a_saved_folder_loads(folder: Path) -> None:
    made, loaded = byte_level(), load_tokenizer(folder)
    assert loaded.encode("the answer: 数") == made.encode("the answer: 数")
    assert loaded.markers == made.markers
    assert loaded.eos_ids == made.eos_ids
    assert loaded.vocab_size == made.vocab_size


def test_eos_ids_of_the_generation_config_are_added(folder: Path) -> None:
    own = byte_level().eos_ids[0]
    for written, expected in (([own, 7], (own, 7)), (9, (own, 9)), (None, (own,))):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": written}))
        assert load_tokenizer(folder).eos_ids == expected
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(ModelLoadError, match=r"generation_config\.json"):
        load_tokenizer(folder)


def test_a_folder_without_a_tokenizer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError) as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_markers(tokenizer: Tokenizer) -> None:
    markers = tokenizer.markers
    assert markers is not None
    assert markers.close_ids[0] == markers.close_id
    assert list(markers.close_ids) == tokenizer.encode("</think>\n\n")
    assert tokenizer.decode(markers.close_ids).replace(" ", "") == "</think>\n\n"   # Llama 2 adds a space


def test_the_template_and_the_phase_it_leaves() -> None:
    tokenizer = byte_level()
    default = tokenizer.apply_chat_template(USER)
    text = str(tokenizer._inner.decode(default))
    assert text.startswith("<|im_start|>user\nUse 3")
    assert text.endswith("<|im_start|>assistant\n")
    assert tokenizer.opening_phase(default) == Phase.UNDECIDED
    assert tokenizer.apply_chat_template(USER, True) == default
    closed = tokenizer.apply_chat_template(USER, False)
    assert closed[:len(default)] == default
    assert tokenizer.opening_phase(closed) == Phase.ANSWER
    assert tokenizer.opening_phase([*default, *tokenizer.encode("<think>\n")]) == Phase.THINKING


def test_a_template_that_objects_is_an_invalid_parameter() -> None:
    with pytest.raises(InvalidParameter, match="no aliens"):
        byte_level().apply_chat_template([{"role": "alien", "content": "?"}])


def test_a_model_without_a_template_says_so(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidParameter, match="no chat template"):
        load_tokenizer(folder).apply_chat_template(USER)


def test_the_text_layer_imports_neither_torch_nor_transformers() -> None:
    code = ("import sys, engine.text.path_text, engine.text.tokenizer\n"
            "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)
