"""`reasoner COMMAND ...`: picks the command and turns what it raises into an exit code.

Every command is one file with `register(commands)`. Nothing heavy is imported before a command runs, so that
`reasoner --help` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from reasoner import packages
from reasoner.cli import demo, doctor, models, policies, solve, verifiers
from reasoner.cli.codes import ABORTED, WRONG_USE

COMMANDS = (solve, demo, doctor, policies, verifiers, models)


class Parser(argparse.ArgumentParser):
    """argparse, with errors on one line like every other error here."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"reasoner: error: {message} (see `{self.prog} --help`)\n")


class Version(argparse.Action):
    """Looks the version up when asked: the metadata of installed packages is slow to read."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print("reasoner", version(packages.DISTRIBUTION))
        parser.exit()


def build_parser() -> Parser:
    parser = Parser(prog="reasoner", description="One problem, N long reasoning paths, one verified answer.")
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        if not getattr(args, "reports_packages", False):
            packages.check()
        code = int(args.run(args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return ABORTED
    except BrokenPipeError:
        # The reader of a pipe has left. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ABORTED
    except OSError as error:
        print("reasoner: error: the output cannot be written:", error.strerror, file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG_USE
    except Exception as error:
        if not _is_typed(error):
            raise
        print("reasoner: error:", " ".join(str(error).split()), file=sys.stderr)
        return WRONG_USE


def _is_typed(error: Exception) -> bool:
    """Whether the project raised it on purpose, so that its message is the whole story."""
    from reasoner.errors import ReasonerError

    if isinstance(error, ReasonerError):
        return True
    from engine.errors import EngineError
    from verifiers.errors import VerifierError

    return isinstance(error, (EngineError, VerifierError))
