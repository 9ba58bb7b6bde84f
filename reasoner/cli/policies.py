"""`reasoner policies`: the ways to spend N paths."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

from reasoner.cli import text
from reasoner.cli.verifiers import summary


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    summary: str


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("policies", help="list the ways to spend N paths")
    parser.add_argument("--json", action="store_true", help="one JSON array on stdout")
    parser.set_defaults(run=run)


def entries() -> list[Entry]:
    from reasoner.policies import registry

    return [Entry(name, summary(registry.get(name).__doc__)) for name in registry.names()]


def run(args: argparse.Namespace) -> int:
    found = entries()
    if args.json:
        print(json.dumps([asdict(entry) for entry in found]))
        return 0
    print("\n".join(text.columns([(e.name, e.summary) for e in found])))
    return 0
