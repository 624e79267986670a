"""The code of a page of the documentation, run."""

import re
from pathlib import Path
from typing import Any


def code_of(page: str) -> dict[str, Any]:
    """The names that the Python blocks of docs/`page` define, run one after another."""
    text = (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": page}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(block, page, "exec"), names)
    return names
