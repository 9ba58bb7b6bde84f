"""`reasoner solve`: what goes where, and with which exit code."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from dataclasses import fields
from pathlib import Path

import pytest

from reasoner.cli.main import build_parser, main
from reasoner.cli.solve import Order, order
from reasoner.errors import InvalidRequest
from tests.cli.conftest import ENDLESS, RIGHT, SILENT, TEXT, WRONG, Scripted

COUNTDOWN = ["solve", TEXT, "--n", "4", "--verifier", "countdown", "--seed", "7"]
Capture = pytest.CaptureFixture[str]


def parsed(*words: str) -> Order:
    return order(build_parser().parse_args(["solve", TEXT, *words]), TEXT)


def test_the_answer_alone_is_on_stdout_and_all_else_on_stderr(scripted: Scripted, capsys: Capture) -> None:
    scripted([WRONG, WRONG, RIGHT])
    assert main(COUNTDOWN) == 0
    out, err = capsys.readouterr()
    assert out == "7*(11-3)\n"
    assert "verified by countdown: path 2 of 4" in err
    assert "seed 7" in err


def test_json_is_one_object_on_one_line(scripted: Scripted, capsys: Capture) -> None:
    scripted([WRONG, RIGHT])
    assert main([*COUNTDOWN, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    result = json.loads(out)
    assert result["answer"] == "7*(11-3)"
    assert result["verified"] is True
    assert len(result["paths"]) == 4
    assert result["usage"]["completion_tokens"] == sum(
        path["tokens"]["generated"] for path in result["paths"]
    )


def test_an_answer_that_does_not_pass_is_shown_with_exit_code_1(scripted: Scripted, capsys: Capture) -> None:
    scripted([WRONG])
    assert main(COUNTDOWN) == 1
    out, err = capsys.readouterr()
    assert out == "7*11-3\n"
    assert "not verified by countdown" in err


def test_no_answer_at_all_says_what_became_of_the_paths(scripted: Scripted, capsys: Capture) -> None:
    scripted([SILENT])
    assert main(COUNTDOWN) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no answer: 4 paths ended without an answer" in err


def test_without_a_verifier_an_answer_is_enough(scripted: Scripted, capsys: Capture) -> None:
    scripted([WRONG, RIGHT, RIGHT])
    assert main(["solve", TEXT, "--n", "3"]) == 0
    out, err = capsys.readouterr()
    assert out == "7*(11-3)\n"
    assert "2 votes" in err


def test_a_gold_answer_that_selects_is_called_an_oracle_run(scripted: Scripted, capsys: Capture) -> None:
    scripted([WRONG, RIGHT])
    assert main(["solve", TEXT, "--n", "2", "--verifier", "math", "--answer", "56", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["oracle"] is True
    assert "oracle run" in err


def test_events_are_written_as_lines_of_json(scripted: Scripted, capsys: Capture, tmp_path: Path) -> None:
    scripted([RIGHT])
    assert main([*COUNTDOWN, "--events", str(tmp_path / "log.jsonl")]) == 0
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(lines) > 4
    assert all(json.loads(line) for line in lines)


def test_a_dash_reads_the_problem_from_standard_input(
    scripted: Scripted, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted([RIGHT])
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT + "\n"))
    assert main(["solve", "-", "--verifier", "countdown"]) == 0
    assert capsys.readouterr().out == "7*(11-3)\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policy", "firstverified"], "known: best_of_n, first_verified, majority"),
        (["--verifier", "countdwn"], "known: countdown"),
        (["--n", "0"], "n must be"),
        (["--n", "-3"], "n must be"),
        (["--n", "many"], "invalid int value: 'many'"),
        (["--budget", "-1"], "budget must be"),
        (["--budget", "50", "--n", "16"], "cannot hold 16 answers"),
        (["--path-budget", "0"], "path_budget must be"),
        (["--path-budget", "9999"], "exceeds"),
        (["--think-budget", "-1"], "think_budget must be"),
        (["--temperature", "-0.5"], "temperature"),
        (["--temperature", "nan"], "temperature"),
        (["--top-p", "1.5"], "top_p"),
        (["--seed", "-1"], "seed must be"),
        (["--answer", "56"], "name the --verifier that compares with it"),
        (["--verifier", "math"], "known answer"),
        (["--policy", "best_of_n"], "policies that would work: majority"),
        (["--policy-param", "m=3"], "has no parameter 'm'"),
        (["--policy-param", "m"], "expected KEY=VALUE"),
        (["--stop", ""], "stop string"),
        (["--no-such-option"], "unrecognized arguments"),
    ],
)
def test_wrong_use_is_one_line_on_stderr_and_exit_code_2(
    scripted: Scripted, capsys: Capture, words: list[str], says: str
) -> None:
    scripted([RIGHT])
    try:
        code = main(["solve", TEXT, *words])
    except SystemExit as exit:
        code = exit.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("reasoner: error: ")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_problem_is_wrong_use(scripted: Scripted, capsys: Capture, text: str) -> None:
    scripted([RIGHT])
    assert main(["solve", text]) == 2
    assert "the problem is empty" in capsys.readouterr().err


def test_a_model_folder_that_does_not_exist_is_wrong_use(capsys: Capture) -> None:
    assert main(["solve", TEXT, "--model", "/no/such/folder"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "reasoner: error: model folder /no/such/folder does not exist\n"


def test_a_fault_of_ours_keeps_its_traceback(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted([RIGHT])
    monkeypatch.setattr("reasoner.cli.report.summary", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(COUNTDOWN)


def press_ctrl_c(after: float) -> threading.Timer:
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_once_answers_with_the_best_so_far(scripted: Scripted, capsys: Capture) -> None:
    scripted([WRONG, ENDLESS], step_seconds=0.01)
    timer = press_ctrl_c(0.5)
    assert main(["solve", TEXT, "--n", "2", "--verifier", "countdown"]) in (0, 1)
    timer.join()
    out, err = capsys.readouterr()
    assert out.strip() in ("7*11-3", "7*(11-3)")
    assert "press Ctrl-C again to abort" in err


def test_ctrl_c_twice_aborts_without_an_answer(scripted: Scripted, capsys: Capture) -> None:
    backend = scripted([ENDLESS], step_seconds=0.4)
    timers = [press_ctrl_c(0.3), press_ctrl_c(0.45)]
    assert main(["solve", TEXT, "--n", "2", "--verifier", "countdown"]) == 130
    for timer in timers:
        timer.join()
    out, err = capsys.readouterr()
    assert out == ""
    assert "aborted: " in err
    assert backend.stats().pages_used == 0


def test_only_options_that_were_given_reach_the_api() -> None:
    assert parsed() == Order(TEXT, None, {}, {})
    assert parsed("--n", "4", "--top-p", "0.9", "--threads", "2", "--no-table") == Order(
        TEXT, None, {"threads": 2}, {"n": 4, "top_p": 0.9}, table=False
    )


def test_thinking_can_be_switched_on_and_off() -> None:
    assert parsed("--thinking").solve == {"enable_thinking": True}
    assert parsed("--no-thinking").solve == {"enable_thinking": False}


def test_stops_and_policy_parameters_may_be_repeated() -> None:
    words = ["--stop", "a", "--stop", "b", "--policy-param", "k=3", "--policy-param", "mode=fast"]
    assert parsed(*words).solve == {"stop": ("a", "b"), "policy_params": {"k": 3, "mode": "fast"}}


def test_a_gold_answer_needs_a_verifier() -> None:
    with pytest.raises(InvalidRequest, match="--verifier"):
        parsed("--answer", "56")


def test_every_option_of_the_command_is_an_option_of_the_api() -> None:
    from engine.config import EngineConfig
    from reasoner.cli.solve import LOAD_OPTIONS, SOLVE_OPTIONS
    from reasoner.options import EngineOptions, Options

    assert set(SOLVE_OPTIONS) <= set(Options.__annotations__)
    assert set(LOAD_OPTIONS) == set(EngineOptions.__annotations__)
    assert set(LOAD_OPTIONS) <= {field.name for field in fields(EngineConfig)}


def test_settings_of_the_engine_reach_it_as_they_were_given() -> None:
    assert parsed().load == {}
    words = ["--device", "cuda", "--max-paths", "128", "--capture-sizes", "1,16,128", "--queue-steps", "4"]
    assert parsed(*words, "--batch-invariant").load == {
        "device": "cuda",
        "max_paths": 128,
        "capture_sizes": (1, 16, 128),
        "queue_steps": 4,
        "batch_invariant": True,
    }


def test_sizes_that_are_no_numbers_are_wrong_use(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        parsed("--capture-sizes", "1,many")
    assert left.value.code == 2
    assert "expected numbers like 1,8,16" in capsys.readouterr().err


def test_a_setting_of_the_gpu_is_refused_on_the_cpu(capsys: Capture) -> None:
    assert main(["solve", TEXT, "--enforce-eager"]) == 2
    assert "enforce_eager is a setting of the GPU engine" in capsys.readouterr().err
