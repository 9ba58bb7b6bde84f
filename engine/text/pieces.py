"""The bytes of a token: what makes constant-cost decoding possible.

A fast tokenizer describes its decoder as JSON. For the two kinds that today's models use, byte-level BPE (GPT-2,
Qwen, Llama 3) and byte fallback (Llama 2, Mistral, Gemma), the text of a sequence is the concatenation of bytes
that belong to each token alone, read as UTF-8.
"""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from engine.errors import ModelLoadError


class Backend(Protocol):
    """The part of tokenizers.Tokenizer that is used here."""

    def id_to_token(self, id: int) -> str | None: ...
    def to_str(self) -> str: ...


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes: printable Latin-1 stands for itself, the rest follow from U+0100.

    Source: bytes_to_unicode in https://github.com/openai/gpt-2/blob/master/src/encoder.py
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


_ALPHABET = _byte_alphabet()
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Pieces:
    """Bytes of each token id, made when first asked for.

    drops_space: whether a space at the start of the text is an artefact of the tokenizer and is dropped.
    """

    def __init__(self, backend: Backend) -> None:
        description = json.loads(backend.to_str())
        self._backend = backend
        self._byte_level = False
        self._byte_fallback = False
        self._replace: list[tuple[str, str]] = []
        self.drops_space = False
        self._read(description.get("decoder"))
        added = description.get("added_tokens") or ()
        self.special_ids = frozenset(int(token["id"]) for token in added if token["special"])
        """Ids of special tokens: they have no text."""
        self._made: dict[int, bytes] = {}

    def __getitem__(self, token: int) -> bytes:
        piece = self._made.get(token)
        if piece is None:
            piece = self._made[token] = self._make(token)
        return piece

    def _make(self, token: int) -> bytes:
        text = None if token in self.special_ids else self._backend.id_to_token(token)
        if text is None:  # special, or an id of the padding between vocabulary and logits
            return b""
        if self._byte_level:
            found = [_ALPHABET.get(char) for char in text]
            mapped = [byte for byte in found if byte is not None]
            return bytes(mapped) if len(mapped) == len(found) else text.encode()
        if self._byte_fallback and (match := _BYTE_TOKEN.fullmatch(text)):
            return bytes([int(match[1], 16)])
        for old, new in self._replace:
            text = text.replace(old, new)
        return text.encode()

    def _read(self, decoder: dict[str, Any] | None) -> None:
        match decoder:
            case {"type": "Sequence", "decoders": list(parts)}:
                for part in parts:
                    self._read(part)
            case {"type": "ByteLevel"}:
                self._byte_level = True
            case {"type": "ByteFallback"}:
                self._byte_fallback = True
            case {"type": "Fuse"}:
                pass
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
                self._replace.append((old, new))
            case {"type": "Strip", "content": " ", "start": 0 | 1 as start, "stop": 0}:
                self.drops_space = start == 1
            case {"type": "Metaspace", "replacement": str(old), **rest}:
                self._replace.append((old, " "))
                self.drops_space = rest.get("prepend_scheme", "always") != "never"
            case _:
                raise ModelLoadError(
                    f"the tokenizer's decoder {decoder} is not supported; supported are byte-level "
                    "and byte-fallback tokenizers"
                )
