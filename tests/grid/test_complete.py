"""What `-m grid` runs: the compiled cells of the covering (minutes), the complete product (hours)."""

import itertools

import pytest

from .cells import AXES, Cell
from .covering import compiled
from .judge import outcome

pytestmark = pytest.mark.grid


@pytest.mark.parametrize("cell", compiled(), ids=str)
def test_a_compiled_cell(cell):
    assert outcome(cell) == ""


@pytest.mark.parametrize("measure", AXES.measure)
def test_every_cell_of_a_measure(measure):
    product = itertools.product(AXES.form, AXES.also, AXES.transform, AXES.solver, AXES.structure, AXES.level)
    cells = [Cell(solver, form, also, measure, *rest, transform) for form, also, transform, solver, *rest in product]
    wrong = {str(cell): found for cell in cells if (found := outcome(cell))}
    assert wrong == {}
