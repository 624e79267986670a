"""The instances of `benchmarks.robustness_faces` have budgets that can be met, and no slack."""

import pytest

from benchmarks import robustness_faces
from jaxpriv.program import feasibility, program_of


@pytest.mark.parametrize("seed", range(3))
def test_instances_leave_no_slack(seed):
    forms = set()
    for one in robustness_faces.instances(30, seed, only="mutual information"):
        checked = feasibility.check(program_of(one.problem))
        assert checked.feasible, one.label
        assert checked.boundary, one.label
        forms.add(one.form)
    assert forms == set(robustness_faces.FORMS)


def test_every_measure_has_its_turn_and_a_number_of_its_own():
    drawn = list(robustness_faces.instances(len(robustness_faces.MEASURES), 5))
    assert [one.family for one in drawn] == list(robustness_faces.MEASURES)
    (again,) = robustness_faces.instances(1, 5, first=3)
    assert (again.problem.joints == drawn[3].problem.joints).all()
