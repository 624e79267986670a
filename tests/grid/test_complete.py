"""The complete product, `pytest -m grid tests/grid`: hours on one core."""

import itertools

import pytest

from .cells import AXES, Cell
from .judge import outcome

pytestmark = pytest.mark.grid


@pytest.mark.parametrize("also", AXES.also)
@pytest.mark.parametrize("form", AXES.form)
@pytest.mark.parametrize("measure", AXES.measure)
def test_every_cell_of_a_measure_in_a_form(measure, form, also):
    product = itertools.product(AXES.transform, AXES.solver, AXES.structure, AXES.level)
    cells = [Cell(solver, form, also, measure, *rest, transform) for transform, solver, *rest in product]
    wrong = {str(cell): found for cell in cells if (found := outcome(cell))}
    assert wrong == {}
