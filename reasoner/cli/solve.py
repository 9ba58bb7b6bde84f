"""`reasoner solve TEXT`: arguments in, one solved problem out. What happens in between is in `race`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoner.errors import InvalidRequest

# Names of `Reasoner.load` and of `Reasoner.start` that have an option of the same name here.
LOAD_OPTIONS = (
    "device",
    "dtype",
    "threads",
    "kv_tokens",
    "context_length",
    "max_paths",
    "step_tokens",
    "queue_steps",
    "own_process",
    "capture_sizes",
    "enforce_eager",
    "batch_invariant",
    "memory_share",
)
SOLVE_OPTIONS = (
    "n",
    "policy",
    "verifier",
    "answer",
    "budget",
    "path_budget",
    "think_budget",
    "min_think",
    "answer_reserve",
    "seed",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "stop",
    "enable_thinking",
    "policy_params",
    "events",
)


@dataclass(frozen=True, slots=True)
class Order:
    """What the command line asks for. load, solve: arguments of the API, only those that were given."""

    text: str
    model: str | None
    load: dict[str, Any]
    solve: dict[str, Any]
    json: bool = False
    table: bool = True


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "solve",
        help="solve one problem with N paths",
        description="Solve one problem with N paths. The answer goes to stdout, all else to stderr. "
        "Exit code: 0 verified (answered, where no verifier was asked for), 1 not solved, 2 wrong use.",
    )
    parser.add_argument("text", metavar="TEXT", help="the problem; - reads it from standard input")
    _search(parser.add_argument_group("search"))
    _budgets(parser.add_argument_group("budgets, in tokens"))
    _sampling(parser.add_argument_group("sampling"))
    _model(parser.add_argument_group("model"))
    _gpu(parser.add_argument_group("GPU (--device cuda)"))
    _output(parser.add_argument_group("output"))
    parser.set_defaults(run=run)


def _search(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--n", type=int, metavar="N", help="number of paths")
    group.add_argument(
        "--policy",
        metavar="NAME",
        help="see `reasoner policies`; default: first_verified with a verifier, majority without",
    )
    group.add_argument(
        "--policy-param",
        dest="policy_params",
        action="append",
        type=_pair,
        metavar="KEY=VALUE",
        help="a parameter of the policy; may be repeated",
    )
    group.add_argument(
        "--verifier",
        metavar="NAME",
        help="what checks an answer: see `reasoner verifiers`; also an entry point or path.py:Name",
    )
    group.add_argument(
        "--answer",
        metavar="GOLD",
        help="the known answer, for a verifier that compares with one; "
        "selecting by it makes this an oracle run",
    )


def _budgets(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--budget", type=int, metavar="T", help="all generated tokens of all paths")
    group.add_argument("--path-budget", type=int, metavar="T", help="generated tokens of one path")
    group.add_argument("--think-budget", type=int, metavar="T", help="thinking tokens of one path")
    group.add_argument("--min-think", type=int, metavar="T", help="thinking may not end before")
    group.add_argument(
        "--answer-reserve",
        type=int,
        metavar="T",
        help="kept free for the answer when thinking is closed by force",
    )


def _sampling(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--seed", type=int, metavar="S", help="same seed, same paths")
    for name, metavar in (
        ("temperature", "X"),
        ("top-p", "P"),
        ("min-p", "P"),
        ("presence-penalty", "X"),
        ("frequency-penalty", "X"),
        ("repetition-penalty", "X"),
    ):
        group.add_argument(f"--{name}", type=float, metavar=metavar)
    group.add_argument("--top-k", type=int, metavar="K")
    group.add_argument(
        "--stop", action="append", metavar="STRING", help="ends a path; may be repeated; ignored by thinking"
    )
    group.add_argument(
        "--thinking",
        dest="enable_thinking",
        action=argparse.BooleanOptionalAction,
        help="tell the chat template to think or not; default: as the model does",
    )


def _model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--model", metavar="MODEL", help="a folder or a name on the hub; default: the embedded one"
    )
    group.add_argument("--device", choices=("cpu", "cuda"), help="default: cpu")
    group.add_argument("--dtype", choices=("auto", "float32", "bfloat16"))
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads of the engine")
    group.add_argument("--kv-tokens", type=int, metavar="T", help="tokens that the KV cache holds")
    group.add_argument(
        "--context-length", type=int, metavar="T", help="prompt and generated tokens of one path"
    )

    group.add_argument("--max-paths", type=int, metavar="N", help="paths that decode at once; more wait")
    group.add_argument(
        "--step-tokens", type=int, metavar="T", help="tokens of one step, decoding paths and prompts together"
    )
    group.add_argument(
        "--queue-steps",
        type=int,
        metavar="K",
        help="steps that are queued at once while nobody can act on a token",
    )
    _switch(group, "--own-process", "run the step loop in a process of its own")


def _gpu(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--capture-sizes",
        type=_sizes,
        metavar="N,N,...",
        help="numbers of paths whose steps are captured as CUDA graphs; default: what --max-paths can run",
    )
    _switch(group, "--enforce-eager", "capture no graphs: the same steps, launched kernel by kernel")
    _switch(group, "--batch-invariant", "a path's tokens do not depend on what runs beside it; slower")
    group.add_argument(
        "--memory-share", type=float, metavar="X", help="part of the card's memory to use; default: 0.92"
    )


def _switch(group: argparse._ArgumentGroup, flag: str, says: str) -> None:
    """None where it is not given, like every other option."""
    group.add_argument(flag, action="store_true", default=None, help=says)


def _output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--json", action="store_true", help="the whole result as one line of JSON on stdout")
    group.add_argument(
        "--events", type=Path, metavar="FILE", help="write every event as a line of JSON to FILE"
    )
    group.add_argument("--no-table", dest="table", action="store_false", help="no live table of paths")


def run(args: argparse.Namespace) -> int:
    from reasoner.cli import race

    return race.run(order(args, _standard_input() if args.text == "-" else args.text))


def _standard_input() -> str:
    if sys.stdin is None:
        raise InvalidRequest("standard input is closed")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise InvalidRequest("the problem is not valid Unicode text") from None


def order(args: argparse.Namespace, text: str) -> Order:
    """The order that these arguments place. Pure. Raises InvalidRequest for options that need each other."""
    solve = _given(args, SOLVE_OPTIONS)
    if "policy_params" in solve:
        solve["policy_params"] = dict(solve["policy_params"])
    if "stop" in solve:
        solve["stop"] = tuple(solve["stop"])
    if "answer" in solve and "verifier" not in solve:
        raise InvalidRequest("--answer is the known answer: name the --verifier that compares with it")
    return Order(text.strip(), args.model, _given(args, LOAD_OPTIONS), solve, args.json, args.table)


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def _sizes(text: str) -> tuple[int, ...]:
    """`1,8,16`"""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers like 1,8,16, got {text!r}") from None


def _pair(text: str) -> tuple[str, Any]:
    """`key=value`, the value as JSON where it is JSON, else as text."""
    import json

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
