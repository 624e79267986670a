"""The standard run of the grid, part 2 of 2 (files of equal length for `--dist loadfile`)."""

import pytest

from .judge import outcome
from .standard import part


@pytest.mark.parametrize(("cell", "remains_open"), part(2))
def test_a_cell_is_answered_rightly_or_refused_with_its_reason(cell, remains_open):
    assert outcome(cell, remains_open) == ""
