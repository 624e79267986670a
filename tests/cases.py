"""Further cases of a claim of which some case runs always, and files that are not part of the repository."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest


def thorough(*cases: Any) -> list[Any]:
    """Cases that run only with `-m thorough`; a tuple holds the arguments of one case."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough) for case in cases]


def further(cases: Iterable[str], always: Collection[str]) -> list[Any]:
    """All cases, of which those that are not among `always` run only with `-m thorough`."""
    return [case if case in always else thorough(case)[0] for case in cases]


def raw(shared: Path, name: str) -> Path:
    """A raw file of the census or of COMPAS; skips where it is absent."""
    path = shared / "data" / name
    if not path.exists():
        pytest.skip(f"{name} is not in {path.parent}")
    return path
