"""The standard run of the grid, part 2 of 2 (files of equal length for `--dist loadfile`)."""

import pytest

from .judge import outcome
from .standard import part


@pytest.mark.parametrize("cell", part(2), ids=str)
def test_a_cell_is_answered_rightly_or_refused_with_its_reason(cell):
    assert outcome(cell) == ""
