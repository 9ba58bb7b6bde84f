"""Every test that needs a GPU, and every kernel test on it, in one go.

    python -m scripts.gpu_check                 # the whole suite, then what it came to
    python -m scripts.gpu_check -x -k graphs    # arguments go to pytest
    python -m scripts.gpu_check --sanitize      # compute-sanitizer over a short run of the engine instead

Tests of kernels run anywhere, in Triton's interpreter where there is no device, so they do not carry the mark `gpu`;
here they run on the device. Exit code: pytest's or the sanitizer's; 2 where there is no GPU to test.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import torch

from scripts.decode.record import machine

ROOT = Path(__file__).parent.parent
KERNEL_TESTS = ("tests/kernels", "tests/sampling_device")
SLOWEST = 5
NO_GPU = 2
SHORT_RUN = "--model embedded --points 2x64 --steps 16 --rounds 1 --no-trace --sections decode"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: passed, failed or skipped (with the reason)."""

    name: str
    state: str
    seconds: float
    reason: str = ""


def outcomes(report: Path) -> list[Outcome]:
    """report: pytest's JUnit XML."""
    return [_outcome(case) for case in ElementTree.parse(report).iter("testcase")]


def _outcome(case: ElementTree.Element) -> Outcome:
    name = f"{case.get('classname')}::{case.get('name')}"
    seconds = float(case.get("time", "0"))
    for tag, state in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            return Outcome(name, state, seconds, (found.get("message") or "").split("\n")[0])
    return Outcome(name, "passed", seconds)


def summary(tests: Sequence[Outcome]) -> Iterator[str]:
    """What failed, what was skipped and why, the slowest, and the counts last."""
    for test in tests:
        if test.state == "failed":
            yield f"FAILED   {test.name}: {test.reason}"
    for reason, count in Counter(test.reason for test in tests if test.state == "skipped").items():
        yield f"skipped  {count}: {reason}"
    for test in sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]:
        yield f"{test.seconds:6.1f} s {test.name}"
    counts = Counter(test.state for test in tests)
    total = ", ".join(f"{counts[state]} {state}" for state in ("passed", "failed", "skipped"))
    yield f"{total}, {sum(test.seconds for test in tests):.0f} s"


def run_tests(arguments: Sequence[str]) -> int:
    """One pytest for what is marked, one for the kernels, a report each."""
    codes, tests = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, chosen in enumerate((["-m", "gpu"], ["-m", "not gpu", *_present(KERNEL_TESTS)])):
            report = Path(folder) / f"{number}.xml"
            command = [sys.executable, "-m", "pytest", *chosen, f"--junitxml={report}", *arguments]
            codes.append(subprocess.run(command, cwd=ROOT, check=False).returncode)
            if report.is_file():
                tests += outcomes(report)
    print("\n".join(summary(tests)))
    # 5: `-k` chose nothing of this part.
    return next((code for code in codes if code not in (0, 5)), 0 if tests else 5)


def _present(folders: Sequence[str]) -> list[str]:
    return [folder for folder in folders if (ROOT / folder).is_dir()]


def sanitize() -> int:
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not on the path; it comes with the CUDA toolkit", file=sys.stderr)
        return NO_GPU
    with tempfile.TemporaryDirectory() as folder:
        run = [
            sys.executable,
            "-m",
            "scripts.bench_decode",
            *SHORT_RUN.split(),
            "--out",
            f"{folder}/rows.json",
        ]
        return subprocess.run([tool, "--error-exitcode", "9", *run], cwd=ROOT, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    if not torch.cuda.is_available():
        print("no GPU: torch finds no CUDA device here, nothing was tested", file=sys.stderr)
        return NO_GPU
    print(", ".join(f"{name} {value}" for name, value in machine("cuda").items()), flush=True)
    if "--sanitize" in arguments:
        return sanitize()
    return run_tests(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
