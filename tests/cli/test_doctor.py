"""`reasoner doctor` judges facts: each fault comes with what to do about it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reasoner.cli import doctor
from reasoner.cli.doctor import Level, diagnose, report
from reasoner.cli.machine import Facts, Gpu, Package, memory, peak_memory, usable_threads
from reasoner.packages import Finding

GIB = 2**30
HEALTHY = Facts(
    python="3.11.7",
    executable="/opt/venv/bin/python",
    own_version="0.1.0",
    packages=(
        Package("torch", ">=2.11", "", "2.13.0+cpu", True),
        Package("flashinfer-python", "<0.8,>=0.6.13", "gpu", None, False),
    ),
    foreign=(),
    cpu="Some CPU",
    threads=2,
    memory_total=16 * GIB,
    memory_free=10 * GIB,
    torch_error="",
    gpus=(),
    model_path="/opt/model",
    model_bytes=20 * 2**20,
    model_error="",
)


def faults(facts: Facts) -> list[doctor.Check]:
    return [check for check in diagnose(facts) if check.level is Level.FAULT]


def test_a_healthy_cpu_machine_has_no_fault_and_no_note() -> None:
    assert {check.level for check in diagnose(HEALTHY)} == {Level.OK}
    assert "Everything is in place" in report(diagnose(HEALTHY))


def test_memory_is_told_in_models_that_fit() -> None:
    assert "3.2 billion parameters in bfloat16, 1.6 in float32" in report(diagnose(HEALTHY))


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"own_version": None}, "pip install -e ."),
        ({"packages": (Package("rich", ">=14", "", None, False),)}, "pip install 'rich>=14'"),
        ({"packages": (Package("numpy", ">=2.0", "", "1.26.4", False),)}, "pip install 'numpy>=2.0'"),
        ({"foreign": (Finding("verifiers", "it hides ours: uninstall it"),)}, "uninstall it"),
        ({"torch_error": "OSError: libcudart.so.13"}, "--force-reinstall torch"),
        ({"model_error": "FileNotFoundError: config.json"}, "restore reasoner/models/embedded"),
    ],
)
def test_each_fault_says_what_to_do(change: dict[str, object], remedy: str) -> None:
    broken = replace(HEALTHY, **change)  # type: ignore[arg-type]
    assert len(faults(broken)) == 1
    assert remedy in faults(broken)[0].remedy
    assert "1 fault: see the arrows above." in report(diagnose(broken))


def test_a_gpu_is_seen_and_a_missing_flashinfer_is_only_a_note() -> None:
    checks = diagnose(replace(HEALTHY, gpus=(Gpu("NVIDIA H200", 139 * GIB, "9.0"),)))
    said = {check.area: check for check in checks}
    assert "NVIDIA H200, 139.0 GiB" in said["gpu"].says
    assert "--device cuda" in said["gpu"].says
    assert said["flashinfer-python"].level is Level.NOTE
    assert "not installed" in said["flashinfer-python"].says
    assert "[gpu]" in said["flashinfer-python"].remedy
    assert not [check for check in checks if check.level is Level.FAULT]


def test_little_memory_is_a_note_with_advice() -> None:
    checks = diagnose(replace(HEALTHY, memory_free=GIB))
    assert [check.area for check in checks if check.level is Level.NOTE] == ["memory"]


def test_facts_about_this_process_are_plausible() -> None:
    total, free = memory()
    assert usable_threads() >= 1
    assert total >= free > 0
    assert 2**20 < peak_memory() < total


def test_checks_are_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from reasoner.cli.main import main

    monkeypatch.setattr("reasoner.cli.machine.look", lambda: HEALTHY)
    assert main(["doctor", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert {"level", "area", "says", "remedy"} == set(checks[0])
