"""What breaks around a run does not break the run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reasoner.backends.locate import locate
from reasoner.budget import Asked, Room, resolve
from reasoner.checking import Checker
from reasoner.errors import InvalidRequest, ModelError
from reasoner.events import PathStarted
from reasoner.log import EventLog
from reasoner.problem import Problem
from reasoner.resolve import path_of, stops_of
from verifiers.base import Candidate
from verifiers.base import Problem as Checked
from verifiers.function import FunctionVerifier


class Careless:
    name, needs_gold = "careless", False

    def __init__(self, answer: object, key: object) -> None:
        self._answer, self._key = answer, key

    def extract(self, problem, candidate):
        return self._answer

    def canonical(self, problem, answer):
        return self._key


@pytest.mark.parametrize(("answer", "key"), [(5, "5"), ("5", ["5"])])
def test_a_verifier_that_returns_no_text_as_an_answer_or_key_is_a_fault_and_no_answer(answer, key):
    reading = Checker(Problem.of("2+3"), Careless(answer, key), None, 1.0).read(Candidate("5"))
    assert (reading.answer, reading.key) == (None, None)
    assert "careless failed to read an answer" in reading.fault


def test_an_event_log_on_a_full_disk_is_refused_at_the_start():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(InvalidRequest, match="No space left"):
        EventLog(full, {})


def test_an_event_log_that_fails_later_is_switched_off_and_says_why(tmp_path, monkeypatch):
    log = EventLog(tmp_path / "log", {})

    def full(text: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log._file, "write", full)
    log.event(PathStarted(0, 0, 0.0, 0, 1))
    log.event(PathStarted(1, 0, 0.0, 1, 1))
    assert "No space left" in log.fault
    log.close()


def test_text_that_is_no_unicode_is_refused():
    with pytest.raises(InvalidRequest, match="valid Unicode"):
        Problem.of("bad \udcff")


def test_options_of_a_wrong_type_and_an_empty_model_are_refused():
    for wrong in (lambda: stops_of(3), lambda: stops_of([""]), lambda: path_of(3)):
        with pytest.raises(InvalidRequest):
            wrong()
    with pytest.raises(ModelError, match="empty"):
        locate(" ")


def test_a_minimum_of_thinking_that_the_path_budget_cannot_hold_is_refused():
    with pytest.raises(InvalidRequest, match="min_think 500 cannot be honoured"):
        resolve(Asked(path_budget=64, min_think=500), Room(1000, None, True, 3, 4), 1)


def test_a_function_verifier_that_hangs_does_not_hold_up_the_loop_that_ends():
    async def main() -> None:
        verifier = FunctionVerifier(lambda answer: time.sleep(30))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(verifier.verify(Checked("?"), Candidate("The answer is 5.")), 0.1)

    begun = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begun < 5


LEAVE = """
from reasoner import Reasoner
r = Reasoner.load_sync()
events = r.stream("Use 3, 7, 11 and 25 to make 56.", n=4, path_budget=2000, verifier="countdown")
for _ in range(8):
    next(events)
"""


def test_a_program_that_ends_in_the_middle_of_a_run_ends_quietly():
    ended = subprocess.run([sys.executable, "-c", LEAVE], capture_output=True, text=True, timeout=110)
    assert (ended.returncode, ended.stderr) == (0, "")
