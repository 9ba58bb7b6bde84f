"""`reasoner models`: the models that need no download."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from reasoner.cli import text


@dataclass(frozen=True, slots=True)
class Shipped:
    """A model inside the package: its folder, and what its config says."""

    name: str
    path: str
    architecture: str
    context_length: int
    bytes: int


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("models", help="list the models that ship with the package")
    parser.add_argument("--json", action="store_true", help="one JSON array on stdout")
    parser.set_defaults(run=run)


def shipped(folder: Path) -> Shipped:
    """Reads the folder of a model without loading it. Raises OSError where a file is missing."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return Shipped(
        name=folder.name,
        path=str(folder),
        architecture=config["architectures"][0],
        context_length=config["max_position_embeddings"],
        bytes=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
    )


def run(args: argparse.Namespace) -> int:
    from reasoner.models import embedded_path

    found = [shipped(embedded_path())]
    if args.json:
        print(json.dumps([asdict(model) for model in found]))
        return 0
    rows = [
        (m.name, m.architecture, f"{text.count(m.context_length)} tokens", text.size(m.bytes), m.path)
        for m in found
    ]
    print("\n".join(text.columns(rows)))
    print("\n--model also takes a folder in Hugging Face layout (Qwen3, Qwen2, Llama) or a name on the hub.")
    return 0
