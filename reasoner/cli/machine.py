"""Looks at the machine and the installation: facts only, no judgement. `doctor` judges."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from reasoner.packages import DISTRIBUTION, Finding, findings


@dataclass(frozen=True, slots=True)
class Package:
    """A requirement of ours: what is asked for, what is there (None: nothing), and whether that satisfies."""

    name: str
    wanted: str
    extra: str
    found: str | None
    fits: bool


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    bytes: int
    capability: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Memory in bytes, what this process may use. torch_error: why torch does not import, "" if it does."""

    python: str
    executable: str
    own_version: str | None
    packages: tuple[Package, ...]
    foreign: tuple[Finding, ...]
    cpu: str
    threads: int
    memory_total: int
    memory_free: int
    torch_error: str
    gpus: tuple[Gpu, ...]
    model_path: str
    model_bytes: int
    model_error: str


def look() -> Facts:
    """Gathers everything. Imports torch, which takes seconds; raises nothing for what is missing."""
    total, free = memory()
    torch_error, gpus = _torch()
    path, weights, model_error = _embedded()
    return Facts(
        python=platform.python_version(),
        executable=sys.executable,
        own_version=_version(DISTRIBUTION),
        packages=tuple(_requirements()),
        foreign=findings(),
        cpu=_cpu_name(),
        threads=usable_threads(),
        memory_total=total,
        memory_free=free,
        torch_error=torch_error,
        gpus=gpus,
        model_path=path,
        model_bytes=weights,
        model_error=model_error,
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _requirements() -> Iterator[Package]:
    """Our core requirements, and those of the `gpu` extra. Without `packaging` only presence is judged."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        yield Package("packaging", "", "", None, False)
        return
    for requirement in map(Requirement, lines):
        extra = "gpu" if requirement.marker and requirement.marker.evaluate({"extra": "gpu"}) else ""
        if requirement.marker and not extra and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = _version(requirement.name)
        fits = found is not None and requirement.specifier.contains(found, prereleases=True)
        yield Package(requirement.name, str(requirement.specifier), extra, found, fits)


def usable_threads() -> int:
    """CPUs that this process may run on, further limited by the container's quota."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cpus = os.cpu_count() or 1
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit():
        cpus = min(cpus, max(1, int(quota[0]) // int(quota[1])))
    return cpus


def memory() -> tuple[int, int]:
    """(total, free) bytes for this process: the machine's, or the container's limit where that is lower."""
    info = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines())
    total, free = (int(info.get(key, "0 kB").split()[0]) * 1024 for key in ("MemTotal", "MemAvailable"))
    limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limit.isdigit() and used.isdigit():
        total, free = min(total, int(limit)), min(free, int(limit) - int(used))
    return total, free


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu_name() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _torch() -> tuple[str, tuple[Gpu, ...]]:
    try:
        import torch

        if not torch.cuda.is_available():
            return "", ()
        seen = [torch.cuda.get_device_properties(k) for k in range(torch.cuda.device_count())]
        return "", tuple(Gpu(p.name, p.total_memory, f"{p.major}.{p.minor}") for p in seen)
    except Exception as error:  # a broken build raises OSError, RuntimeError, ...: all are news to report
        return f"{type(error).__name__}: {error}", ()


def _embedded() -> tuple[str, int, str]:
    from reasoner.cli.models import shipped
    from reasoner.models import embedded_path

    try:
        model = shipped(embedded_path())
        return model.path, model.bytes, "" if model.bytes else "the folder holds no weights"
    except (OSError, ValueError, KeyError) as error:
        return str(embedded_path()), 0, f"{type(error).__name__}: {error}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
