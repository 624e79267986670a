"""The standard run as parameters of tests, with what is known to fail today."""

from typing import Any

import pytest

from .cells import Cell
from .covering import standard
from .known import FAILING, OPEN

PARTS = 2


def _why(cell: Cell) -> str | None:
    return next((reason for reason, cells in FAILING.items() if str(cell) in cells), None)


def part(number: int) -> list[Any]:
    """The cells of one file: whether one remains open, and whether it is known to fail."""
    parameters = []
    for cell in standard()[number - 1 :: PARTS]:
        reason = _why(cell)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
        parameters.append(pytest.param(cell, str(cell) in OPEN, id=str(cell), marks=marks))
    return parameters
