"""The example of docs/verifiers.md runs and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "verifiers.md"


def test_the_example_of_the_page_prints_what_the_page_says() -> None:
    page = PAGE.read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    run = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, cwd=PAGE.parents[1], timeout=60
    )
    assert run.returncode == 0, run.stderr
    for line in run.stdout.splitlines():
        assert f"`{line}`" in page
    assert len(run.stdout.splitlines()) == 2
