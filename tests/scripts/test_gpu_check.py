"""The script that runs the device suite: what it says about a run, and that it never passes without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from scripts import gpu_check

REPORT = """<testsuites><testsuite>
<testcase classname="tests.gpu.test_graphs" name="test_replay" time="4.5"/>
<testcase classname="tests.gpu.test_graphs" name="test_padding" time="0.5">
 <failure message="AssertionError: row 3&#10;more">...</failure></testcase>
<testcase classname="tests.gpu.test_engine" name="test_two" time="0.0"><skipped message="needs two GPUs"/></testcase>
</testsuite></testsuites>"""


def test_a_summary_names_failures_reasons_and_counts(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    lines = list(gpu_check.summary(gpu_check.outcomes(report)))
    assert lines[0] == "FAILED   tests.gpu.test_graphs::test_padding: AssertionError: row 3"
    assert "skipped  1: needs two GPUs" in lines
    assert lines[-1] == "1 passed, 1 failed, 1 skipped, 5 s"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_nothing_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main([]) == gpu_check.NO_GPU
    assert "no CUDA device" in capsys.readouterr().err
