"""A model's tokenizer: text to ids, ids to text, chat template, thinking markers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import InvalidParameter, ModelLoadError
from engine.text.detokenize import Detokenizer, decode
from engine.text.markers import Markers, opening_phase
from engine.text.pieces import Pieces
from engine.types import Phase

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_OPEN, _CLOSE = "<think>", "</think>"

# What Qwen3's chat template writes between the thinking and the answer; a forced close must look like it.
_AFTER_CLOSE = "\n\n"


class Tokenizer:
    """Wraps a fast tokenizer of transformers. Made by `load_tokenizer`.

    eos_ids: what the tokenizer and generation_config.json name. markers: None where the model has no single
    tokens around its thinking.
    """

    def __init__(self, inner: PreTrainedTokenizerFast, eos_ids: Iterable[int] = ()) -> None:
        self._inner = inner
        self.pieces = Pieces(inner.backend_tokenizer)
        own = () if inner.eos_token_id is None else (int(inner.eos_token_id),)
        self.eos_ids: tuple[int, ...] = tuple(dict.fromkeys((*own, *eos_ids)))
        self.markers = self._find_markers()

    @property
    def vocab_size(self) -> int:
        """Added tokens included."""
        return len(self._inner)

    def encode(self, text: str, *, special_tokens: bool = False) -> list[int]:
        """Ids of a text. special_tokens: add what the tokenizer puts around a text, such as BOS."""
        return list(self._inner.encode(text, add_special_tokens=special_tokens))

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; special tokens have none. The same text that a Detokenizer gives, whatever the split."""
        return decode(self.pieces, ids)

    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self.pieces)

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], enable_thinking: bool | None = None
    ) -> list[int]:
        """Ids of a conversation up to where the assistant speaks. None leaves thinking to the template's default.

        Raises InvalidParameter where there is no template or it rejects the messages.
        """
        if not self._inner.chat_template:
            raise InvalidParameter(
                "the model has no chat template; give a prompt as text or ids, or use a chat model"
            )
        options = {} if enable_thinking is None else {"enable_thinking": enable_thinking}
        try:
            text = self._inner.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True, **options
            )
        except Exception as error:  # templates are code of the model's author and raise what they like
            raise InvalidParameter(f"the chat template rejects the messages: {error}") from error
        return self.encode(str(text))

    def opening_phase(self, prompt_ids: Sequence[int]) -> Phase:
        """The phase in which the text after this prompt starts."""
        return opening_phase(prompt_ids, self.markers)

    def _find_markers(self) -> Markers | None:
        vocabulary: dict[str, int] = self._inner.get_vocab()
        if _OPEN not in vocabulary or _CLOSE not in vocabulary:
            return None
        close_ids = tuple(self.encode(_CLOSE + _AFTER_CLOSE))
        if close_ids[0] != vocabulary[_CLOSE]:
            return None  # in the vocabulary, but never produced as one token
        return Markers(vocabulary[_OPEN], vocabulary[_CLOSE], close_ids)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer in a model's folder, which is never looked for elsewhere; any other name is one of the hub.

    Raises ModelLoadError.
    """
    from transformers import AutoTokenizer

    folder = Path(path)
    try:
        inner = AutoTokenizer.from_pretrained(str(path), local_files_only=folder.is_dir())
    except Exception as error:  # OSError, ValueError, KeyError, ImportError and more, by what is wrong
        reason = str(error).strip().partition("\n")[0]
        raise ModelLoadError(f"cannot load the tokenizer of {path}: {reason}") from error
    if not inner.is_fast:
        raise ModelLoadError(f"the tokenizer of {path} has no tokenizer.json; convert it to a fast tokenizer")
    return Tokenizer(inner, _generation_eos_ids(folder / "generation_config.json"))


def _generation_eos_ids(file: Path) -> tuple[int, ...]:
    try:
        found = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, AttributeError) as error:
        raise ModelLoadError(f"cannot read {file}: {error}") from error
    ids = found if isinstance(found, list) else [found]
    return tuple(int(token) for token in ids if token is not None)
