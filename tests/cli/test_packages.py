"""Packages of other projects with our names are found and named."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from reasoner.packages import SIBLINGS, ForeignPackage, check, findings

ROOT = Path(__file__).parent.parent.parent


def spec_at(folder: Path) -> ModuleSpec:
    return ModuleSpec(folder.name, None, origin=str(folder / "__init__.py"))


def install(root: Path) -> str:
    """Writes both packages as an installer would and returns its record of them."""
    lines = []
    for name in SIBLINGS:
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text(f'"""{name} of ours."""\n')
        digest = hashlib.sha256((root / name / "__init__.py").read_bytes()).digest()
        encoded = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        lines.append(f"{name}/__init__.py,sha256={encoded},24")
    return "\n".join([*lines, "reasoner_serve-0.1.0.dist-info/RECORD,,"])


def test_our_own_packages_raise_nothing() -> None:
    check()


def test_a_package_earlier_on_the_path_hides_ours_and_is_named_with_its_folder(tmp_path: Path) -> None:
    install(tmp_path / "ours")
    foreign = tmp_path / "site" / "verifiers"
    found = findings(
        tmp_path / "ours", lambda name: spec_at(foreign if name == "verifiers" else tmp_path / "ours" / name)
    )
    assert [finding.name for finding in found] == ["verifiers"]
    assert str(foreign) in found[0].message
    assert "pip uninstall verifiers" in found[0].message


def test_a_missing_package_says_what_to_reinstall(tmp_path: Path) -> None:
    found = findings(tmp_path, lambda _: None)
    assert [finding.name for finding in found] == ["engine", "verifiers"]
    assert all("reinstall reasoner-serve" in finding.message for finding in found)


def test_a_package_whose_files_were_overwritten_is_found_by_the_record(tmp_path: Path) -> None:
    record = install(tmp_path)
    (tmp_path / "verifiers" / "__init__.py").write_text("__version__ = '0.4.0'\n")
    found = findings(tmp_path, lambda name: spec_at(tmp_path / name), lambda _: record)
    assert [finding.name for finding in found] == ["verifiers"]
    assert "has overwritten" in found[0].message


def test_an_untouched_installation_passes_the_record(tmp_path: Path) -> None:
    record = install(tmp_path)
    assert not findings(tmp_path, lambda name: spec_at(tmp_path / name), lambda _: record)


def test_a_module_file_named_engine_is_foreign_too(tmp_path: Path) -> None:
    install(tmp_path)
    module = ModuleSpec("engine", None, origin=str(tmp_path / "elsewhere" / "engine.py"))
    found = findings(tmp_path, lambda name: module if name == "engine" else spec_at(tmp_path / name))
    assert [finding.name for finding in found] == ["engine"]


@pytest.mark.parametrize(("command", "code"), [(["policies"], 2), (["doctor"], 1)])
def test_every_command_says_so_on_one_line_and_doctor_reports_it(
    tmp_path: Path, command: list[str], code: int
) -> None:
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers" / "__init__.py").write_text("")
    paths = [str(tmp_path), str(ROOT)]
    source = (
        f"import sys; sys.path[:0] = {paths!r}; sys.argv[1:] = {command!r}; import reasoner.cli.main as m;"
        # torch takes seconds to import and is not what this is about
        "sys.modules['torch'] = None; sys.exit(m.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code
    text = done.stderr if code == 2 else done.stdout
    assert "another package named 'verifiers'" in text
    assert "Traceback" not in done.stderr
    if code == 2:
        assert done.stderr.startswith("reasoner: error: ")
        assert done.stderr.count("\n") == 1


def test_foreign_package_is_an_import_error_for_those_who_catch_that() -> None:
    assert issubclass(ForeignPackage, ImportError)
