"""`reasoner policies`: the ways to spend N paths."""

from __future__ import annotations

import argparse
import json

from reasoner.cli import text


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("policies", help="list the ways to spend N paths")
    parser.add_argument("--json", action="store_true", help="one JSON array on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from reasoner.policies import registry

    found = registry.describe()
    if args.json:
        print(json.dumps(found))
        return 0
    rows = [
        (p["name"], p["summary"], p["cost"], f"needs {', '.join(p['needs'])}" if p["needs"] else "")
        for p in found
    ]
    print("\n".join(text.columns(rows)))
    print("\n--policy also takes the name of an entry point, or path.py:Name.")
    return 0
