"""`reasoner verifiers`: what can check an answer."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from dataclasses import asdict, dataclass

from reasoner.cli import text


@dataclass(frozen=True, slots=True)
class Entry:
    """needs_gold: it compares with a known answer, so that selecting by it makes an oracle run."""

    name: str
    needs_gold: bool
    summary: str


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("verifiers", help="list what can check an answer")
    parser.add_argument("--json", action="store_true", help="one JSON array on stdout")
    parser.set_defaults(run=run)


def entries() -> list[Entry]:
    from verifiers import registry

    found = [(name, registry.get(name)) for name in registry.names()]
    return [
        Entry(name, it.needs_gold, summary(sys.modules[type(it).__module__].__doc__)) for name, it in found
    ]


def summary(doc: str | None) -> str:
    """The first line of a module's docstring."""
    return inspect.cleandoc(doc).splitlines()[0] if doc else ""


def run(args: argparse.Namespace) -> int:
    found = entries()
    if args.json:
        print(json.dumps([asdict(entry) for entry in found]))
        return 0
    rows = [(e.name, "needs --answer" if e.needs_gold else "", e.summary) for e in found]
    print("\n".join(text.columns(rows)))
    print("\n--verifier also takes the name of an entry point, or path.py:Name.")
    return 0
