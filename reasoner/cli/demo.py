"""`reasoner demo`: eight held-out problems, solved; then what more paths would have bought."""

from __future__ import annotations

import argparse


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="solve eight held-out problems with the embedded model",
        description="Solve eight held-out problems with 16 paths each, then show how the share solved and the "
        "tokens move with the number of paths. Takes a few minutes on two cores.",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from reasoner.cli import show

    return show.run(show.Settings())
