"""The commands that list things, for people and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reasoner.cli.main import main

Capture = pytest.CaptureFixture[str]


def test_policies_are_listed_with_what_they_need(capsys: Capture) -> None:
    assert main(["policies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("first_verified") and line.endswith("needs verifier") for line in lines)


def test_policies_as_json(capsys: Capture) -> None:
    assert main(["policies", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"best_of_n", "first_verified", "majority"} <= {policy["name"] for policy in found}
    assert all(policy["summary"] for policy in found)


def test_verifiers_are_listed_with_whether_they_need_the_answer(capsys: Capture) -> None:
    assert main(["verifiers", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert not found["countdown"]["needs_gold"]
    assert found["math"]["needs_gold"]
    assert all(entry["summary"] for entry in found.values())
    assert main(["verifiers"]) == 0
    assert "needs --answer" in capsys.readouterr().out


def test_models_name_the_embedded_one(capsys: Capture) -> None:
    assert main(["models", "--json"]) == 0
    [model] = json.loads(capsys.readouterr().out)
    assert model["name"] == "embedded"
    assert 0 < model["bytes"] < 25_000_000
    assert main(["models"]) == 0
    assert model["path"] in capsys.readouterr().out


def test_version_is_that_of_the_distribution(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out.startswith("reasoner 0.")


@pytest.mark.parametrize("words", [[], ["serve-me"]])
def test_a_missing_or_unknown_command_is_wrong_use(capsys: Capture, words: list[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(words)
    assert exit.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("reasoner: error: ")
    assert err.count("\n") == 1


def test_a_reader_that_leaves_the_pipe_causes_no_traceback() -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "reasoner.cli", "policies"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.stderr is not None
    assert writer.stderr.read() == ""
    writer.wait(timeout=30)
