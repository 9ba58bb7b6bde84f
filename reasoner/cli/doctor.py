"""`reasoner doctor`: what is installed, what this machine can run, and what to do about what is missing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reasoner.cli import text

if TYPE_CHECKING:
    from reasoner.cli.machine import Facts, Package

# Weights are not all: pages, activations and Python need room beside them.
SHARE_FOR_WEIGHTS = 0.6
LOW_MEMORY = 1536 * 2**20


class Level(StrEnum):
    """fault: something that `reasoner solve` needs. note: works, but worth knowing."""

    OK = "ok"
    NOTE = "note"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report. remedy: what to do, "" where nothing is to be done."""

    level: Level
    area: str
    says: str
    remedy: str = ""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("doctor", help="say what is installed, what runs here, and what is missing")
    parser.add_argument("--json", action="store_true", help="one JSON array of checks on stdout")
    parser.set_defaults(run=run, reports_packages=True)


def run(args: argparse.Namespace) -> int:
    """0 where problems can be solved here, 1 where something is missing for that."""
    from reasoner.cli.machine import look

    checks = diagnose(look())
    print(json.dumps([asdict(check) for check in checks]) if args.json else report(checks))
    return int(any(check.level is Level.FAULT for check in checks))


def diagnose(facts: Facts) -> tuple[Check, ...]:
    """Judges the facts: every area gets at least one line."""
    return (
        *_installation(facts),
        *(_package(package) for package in facts.packages if not package.extra),
        *_foreign(facts),
        *_machine(facts),
        *_gpu(facts),
        _model(facts),
    )


def _installation(facts: Facts) -> Iterator[Check]:
    yield Check(Level.OK, "python", f"{facts.python} ({facts.executable})")
    if facts.own_version is None:
        yield Check(
            Level.FAULT,
            "reasoner",
            "runs from its folder without being installed",
            "make .venv by `make demo`, or run `pip install -e . -c constraints.txt`",
        )
    else:
        yield Check(Level.OK, "reasoner", facts.own_version)


def _package(package: Package) -> Check:
    if package.fits:
        return Check(Level.OK, package.name, package.found or "")
    wanted = f"{package.name}{package.wanted}"
    says = "is missing" if package.found is None else f"{package.found} does not satisfy {package.wanted}"
    return Check(Level.FAULT, package.name, says, f"pip install '{wanted}'")


def _foreign(facts: Facts) -> Iterator[Check]:
    if not facts.foreign:
        yield Check(Level.OK, "names", "`engine` and `verifiers` are our own packages")
    for finding in facts.foreign:
        says, _, remedy = finding.message.partition(": ")
        yield Check(Level.FAULT, "names", says, remedy)


def _machine(facts: Facts) -> Iterator[Check]:
    yield Check(Level.OK, "cpu", f"{text.plural(facts.threads, 'thread')} of {facts.cpu}")
    says = f"{text.size(facts.memory_free)} free of {text.size(facts.memory_total)}"
    if facts.memory_free < LOW_MEMORY:
        yield Check(Level.NOTE, "memory", says, "the demo needs up to 1.5 GiB; close something or lower --n")
        return
    room = facts.memory_free * SHARE_FOR_WEIGHTS
    yield Check(
        Level.OK,
        "memory",
        f"{says}: models up to about {room / 2 / 1e9:.1f} billion parameters in "
        f"bfloat16, {room / 4 / 1e9:.1f} in float32",
    )


def _gpu(facts: Facts) -> Iterator[Check]:
    if facts.torch_error:
        yield Check(
            Level.FAULT,
            "torch",
            f"does not import: {facts.torch_error}",
            "reinstall it: pip install --force-reinstall torch -c constraints.txt",
        )
        return
    if not facts.gpus:
        yield Check(Level.OK, "gpu", "none that torch can use; everything runs on the CPU")
        return
    for gpu in facts.gpus:
        yield Check(
            Level.OK,
            "gpu",
            f"{gpu.name}, {text.size(gpu.bytes)}, compute capability {gpu.capability}; --device cuda computes there",
        )
    for package in facts.packages:
        if package.extra == "gpu" and not package.fits:
            yield Check(
                Level.NOTE,
                package.name,
                "is not installed: --device cuda needs it"
                if package.found is None
                else f"{package.found} does not satisfy {package.wanted}",
                "pip install 'reasoner-serve[gpu]'",
            )


def _model(facts: Facts) -> Check:
    if facts.model_error:
        return Check(
            Level.FAULT,
            "model",
            f"the embedded model cannot be read: {facts.model_error}",
            "reinstall reasoner-serve, or restore reasoner/models/embedded from the repository",
        )
    return Check(
        Level.OK, "model", f"embedded, {text.size(facts.model_bytes)} of weights ({facts.model_path})"
    )


def report(checks: tuple[Check, ...]) -> str:
    """The checks as aligned lines, then what they add up to."""
    marks = {Level.OK: "ok", Level.NOTE: "note", Level.FAULT: "FAULT"}
    lines = text.columns([(marks[check.level], check.area, check.says) for check in checks])
    told: list[str] = []
    for line, check in zip(lines, checks, strict=True):
        told.append(line)
        if check.remedy:
            told.append(f"       -> {check.remedy}")
    faults = sum(check.level is Level.FAULT for check in checks)
    told += [
        "",
        f"{text.plural(faults, 'fault')}: see the arrows above."
        if faults
        else "Everything is in place: try `reasoner demo`.",
    ]
    return "\n".join(told)
