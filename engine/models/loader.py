"""Reads a safetensors checkpoint, sharded or not, one tensor at a time.

Every name and shape is compared with what the model expects before the first tensor is read, so that a wrong
folder fails in milliseconds with the tensor's name. Tensors are copied from the mapped file straight into the
matrix that will use them: the host never holds the checkpoint twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import ModelLoadError
from engine.models.spec import ModelSpec

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
DTYPES = {"F32", "BF16", "F16"}
Shape = tuple[int, ...]


def expected_tensors(spec: ModelSpec) -> dict[str, Shape]:
    """Name and shape of every tensor of a checkpoint, as transformers writes it."""
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (spec.vocab, spec.hidden),
        "model.norm.weight": (spec.hidden,),
    }
    if not spec.tied:
        shapes["lm_head.weight"] = (spec.vocab, spec.hidden)
    for layer in range(spec.layers):
        prefix = f"model.layers.{layer}."
        shapes |= {prefix + name: shape for name, shape in _layer_tensors(spec).items()}
    return shapes


def _layer_tensors(spec: ModelSpec) -> dict[str, Shape]:
    linear = {
        "self_attn.q_proj": (spec.q_size, spec.hidden, spec.qkv_bias),
        "self_attn.k_proj": (spec.kv_size, spec.hidden, spec.qkv_bias),
        "self_attn.v_proj": (spec.kv_size, spec.hidden, spec.qkv_bias),
        "self_attn.o_proj": (spec.hidden, spec.q_size, spec.o_bias),
        "mlp.gate_proj": (spec.ffn, spec.hidden, spec.mlp_bias),
        "mlp.up_proj": (spec.ffn, spec.hidden, spec.mlp_bias),
        "mlp.down_proj": (spec.hidden, spec.ffn, spec.mlp_bias),
    }
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (spec.hidden,),
        "post_attention_layernorm.weight": (spec.hidden,),
    }
    for name, (rows, columns, biased) in linear.items():
        shapes[f"{name}.weight"] = (rows, columns)
        if biased:
            shapes[f"{name}.bias"] = (rows,)
    if spec.qk_norm:
        shapes |= {"self_attn.q_norm.weight": (spec.head_dim,), "self_attn.k_norm.weight": (spec.head_dim,)}
    return shapes


class Checkpoint:
    """An open checkpoint folder whose tensors are known to be those of `spec`.

    rank, world: which part of each tensor to read; only the whole is supported.
    """

    def __init__(self, path: Path, spec: ModelSpec, rank: int = 0, world: int = 1) -> None:
        if (rank, world) != (0, 1):
            raise ModelLoadError(f"tensor parallelism is not supported yet: rank {rank} of {world}")
        self._shards = {file: _Shard(path / file) for file in _files(path)}
        self._owner = {name: shard for shard in self._shards.values() for name in shard.shapes}
        self._check_index(path)
        self._check(expected_tensors(spec), tied=spec.tied)

    def shape(self, name: str) -> Shape:
        return self._owner[name].shapes[name]

    def copy(self, name: str, target: Tensor) -> None:
        """Reads a tensor into target, converting its dtype."""
        target.copy_(self._owner[name].read(name))

    def _check_index(self, path: Path) -> None:
        if not (path / INDEX).is_file():
            return
        for name, file in _weight_map(path).items():
            if name not in self._shards[file].shapes:
                raise ModelLoadError(f"tensor {name} is missing in {path / file}, where {INDEX} places it")

    def _check(self, expected: Mapping[str, Shape], *, tied: bool) -> None:
        for name, shape in expected.items():
            if name not in self._owner:
                raise ModelLoadError(
                    f"tensor {name} is missing in the checkpoint, expected shape {list(shape)}"
                )
            found, dtype = self._owner[name].shapes[name], self._owner[name].dtypes[name]
            if found != shape:
                raise ModelLoadError(
                    f"tensor {name} has the wrong shape: expected {list(shape)}, found {list(found)}"
                )
            if dtype not in DTYPES:
                raise ModelLoadError(f"tensor {name} has dtype {dtype}; known: {', '.join(sorted(DTYPES))}")
        for name in sorted(self._owner.keys() - expected.keys()):
            if not (name.endswith("rotary_emb.inv_freq") or (tied and name == "lm_head.weight")):
                raise ModelLoadError(f"tensor {name} of the checkpoint has no place in this model")


class _Shard:
    """One mapped safetensors file and its header. Mapped until the checkpoint is dropped."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._handle = _open(file)
        except (OSError, SafetensorError) as error:
            raise ModelLoadError(f"{file} is damaged or truncated: {_one_line(error)}") from None
        slices = {name: self._handle.get_slice(name) for name in self._handle.keys()}  # noqa: SIM118
        self.shapes: dict[str, Shape] = {name: tuple(part.get_shape()) for name, part in slices.items()}
        self.dtypes: dict[str, str] = {name: part.get_dtype() for name, part in slices.items()}

    def read(self, name: str) -> Tensor:
        try:
            tensor = self._handle.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ModelLoadError(
                f"tensor {name} of {self._file} cannot be read: {_one_line(error)}"
            ) from None
        assert isinstance(tensor, Tensor)
        return tensor


def _open(file: Path) -> Any:
    return safe_open(str(file), framework="pt", device="cpu")


def _files(path: Path) -> list[str]:
    """Names of the safetensors files of a folder, all present."""
    if (path / INDEX).is_file():
        files = sorted(set(_weight_map(path).values()))
        missing = [file for file in files if not (path / file).is_file()]
        if missing:
            raise ModelLoadError(
                f"{len(missing)} of {len(files)} shards are missing in {path}: {', '.join(missing)}"
            )
        return files
    if (path / SINGLE).is_file():
        return [SINGLE]
    raise ModelLoadError(f"{path} holds neither {SINGLE} nor {INDEX}; other formats are not supported")


def _weight_map(path: Path) -> dict[str, str]:
    try:
        found = json.loads((path / INDEX).read_text(encoding="utf-8"))["weight_map"]
        return {str(name): str(file) for name, file in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelLoadError(f"{path / INDEX} has no readable weight_map: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
