"""Which folder a model's name means, and what that folder recommends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from reasoner.errors import ModelError, UnknownName
from reasoner.models import embedded_path
from reasoner.sampling import Sampling

EMBEDDED = "embedded"
EMBEDDED_PATH_TOKENS = 4096        # its thoughts end well before; those that have not by then go in circles
KNOWN = (EMBEDDED, "a folder in Hugging Face layout", "a name on the hub that is cached or can be downloaded")
FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")


def locate(model: str | Path | None) -> Path:
    """The folder of a model: None or `embedded` for the one in the package, a folder, or a name on the hub.

    A hub name is taken from the local cache, else downloaded into it. Raises ModelError for a folder that does not
    exist, UnknownName for a name that nobody has.
    """
    if model is None or model == EMBEDDED:
        return embedded_path()
    if not str(model).strip():
        raise ModelError("the name of the model is empty")
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if isinstance(model, Path) or model.startswith((".", "/", "~")):
        raise ModelError(f"model folder {model} does not exist")
    return _from_hub(model)


def recommended(folder: Path) -> tuple[Sampling, int | None]:
    """Sampling values and tokens of one path from generation_config.json; plain sampling and None without it."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return Sampling(), _path_tokens(folder, {})
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ModelError(f"{path} must hold a JSON object")
    if not config.get("do_sample", True):
        # Greedy paths would all be the same one.
        return Sampling(), _path_tokens(folder, config)
    names = [f.name for f in fields(Sampling) if config.get(f.name) is not None]
    return Sampling(**{name: config[name] for name in names}), _path_tokens(folder, config)


def _path_tokens(folder: Path, config: Mapping[str, Any]) -> int | None:
    if config.get("max_new_tokens") is not None:
        return int(config["max_new_tokens"])
    return EMBEDDED_PATH_TOKENS if folder == embedded_path() else None


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES), local_files_only=True))
    except HFValidationError:
        raise UnknownName("model", name, KNOWN) from None
    except LocalEntryNotFoundError:
        pass
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError):
        raise UnknownName("model", name, KNOWN) from None
