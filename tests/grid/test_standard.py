"""The standard run of the grid."""

import pytest

from .covering import standard
from .judge import outcome


@pytest.mark.parametrize("cell", standard(), ids=str)
def test_a_cell_is_answered_rightly_or_refused_with_its_reason(cell):
    assert outcome(cell) == ""
