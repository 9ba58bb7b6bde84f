"""The examples of the documentation run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["tasks.md", "models.md"])
def test_the_examples_of_a_page_run(page):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": page})
