"""The file of measured rows: read, merged by what each row measures, written after every row."""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

Row = dict[str, object]

# Lists of the file, and what tells the rows of each apart: a new measurement takes the place of an old one.
KEYS = {
    "rows": ("model", "batch", "context", "mode", "kv_dtype", "weight_dtype"),
    "prefill": ("model", "batch", "context"),
    "gaps": ("model", "streams", "arriving", "chunk"),
    "startup": ("model", "device", "cache"),
}


@dataclass
class Record:
    """Rows by list, in a file where one is given."""

    file: Path | None
    commit: str = ""
    device: str = "cpu"
    lists: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in KEYS})
    _new: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in KEYS})

    @classmethod
    def open(cls, file: Path | None, device: str, commit: str = "") -> Record:
        record = cls(file, commit or head(), device)
        if file is not None and file.is_file():
            found = json.loads(file.read_text(encoding="utf-8"))
            record.lists |= {name: found.get(name, []) for name in KEYS}
        return record

    def add(self, name: str, row: Row) -> None:
        """Prints the row and saves the file."""
        row = {key: _rounded(value) for key, value in row.items()} | {"commit": self.commit}
        key = [row.get(part) for part in KEYS[name]]
        kept = [other for other in self.lists[name] if [other.get(part) for part in KEYS[name]] != key]
        self.lists[name] = [*kept, row]
        self._new[name].append(row)
        print(name, json.dumps(row), flush=True)
        self._save()

    def of_this_run(self) -> Record:
        """Only what was added to this one."""
        return Record(None, self.commit, self.device, self._new)

    def _save(self) -> None:
        if self.file is None:
            return
        content = self.lists | {"machine": machine(self.device), "commit": self.commit}
        lines = json.dumps(content, indent=1)
        part = self.file.with_name(self.file.name + ".part")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(lines + "\n", encoding="utf-8")
        part.replace(self.file)


def machine(device: str) -> dict[str, str]:
    """What the figures depend on."""
    facts = {"python": platform.python_version(), "torch": torch.__version__}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts["gpu"] = f"{properties.name}, {properties.total_memory >> 20} MiB"
        facts |= {name: _version(name) for name in ("flashinfer-python", "triton")}
    else:
        facts["cpu"] = f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
    return facts


def head() -> str:
    """The commit that runs, as far as this folder knows it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _rounded(value: object) -> object:
    """Four significant digits say all that such a measurement knows; whole numbers stay."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value
