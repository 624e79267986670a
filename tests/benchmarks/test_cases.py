"""Cases and suites: the same numbers everywhere, and nothing named that does not exist."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.cases import FAMILIES, Case, budget_at
from benchmarks.solvers import SOLVERS
from benchmarks.suites import SUITES, Options
from tests.cases import value_of

SMALL = [
    Case.of("cube", n=5, distortion="squared", seed=3),
    Case.of("shape", S=3, X=4, Y=6, distortion="hamming", share=0.5, seed=3),
    Case.of("penalty", n=5, distortion="absolute", multiplier=2.0, seed=3),
    Case.of("source", n=5, distortion="absolute", multiplier=2.0, seed=3),
    Case.of("hard", kind="tiny-masses", S=3, X=4, distortion="absolute", seed=3),
    Case.of("census"),
    Case.of("ordered", n=20, S=3, distortion="absolute", multiplier=2.0, seed=3),
    Case.of("worst", n=5, distortion="hamming", share=0.2, seed=3),
    Case.of("linear", n=5, measure="local-dp", distortion="absolute", share=0.2, seed=3),
    Case.of("curve", S=3, X=4, Y=4, distortion="absolute", points=3, seed=3),
    Case.of("funnel-heart", bits=1.0),
    Case.of("funnel-census", table="small", nats=1.0),
    Case.of("funnel-random", S=3, X=4, share=0.6, seed=3),
]


def test_every_family_has_a_small_case_here():
    of_files = {"file", "file-penalty"}  # test_given.py has the cases of users' files
    assert {case.family for case in SMALL} | of_files == set(FAMILIES)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.family)
def test_a_case_builds_the_same_valid_instance_every_time(case):
    one, two = case.build(), case.build()
    assert_array_equal(one.joint, two.joint)
    assert one.budgets == two.budgets
    assert one.joint.sum() == pytest.approx(1, rel=1e-12)
    assert (one.joint >= 0).all()
    assert one.table.shape == (one.joint.shape[1], len(one.y))
    assert bool(one.budgets) == ("budget" in case.traits)
    assert (one.multiplier is not None) == ("multiplier" in case.traits)
    assert (one.limit is not None) == ("limit" in case.traits)
    assert (len(one.budgets) > 1) == ("curve" in case.traits)
    assert (one.disclosure is not None) == ("funnel" in case.traits)
    if "S = X" in case.traits:
        assert_array_equal(one.joint, np.diag(np.diag(one.joint)))


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.family)
def test_jaxpriv_is_asked_for_what_is_judged(case):
    from benchmarks.solvers.ours import problem_of

    instance = case.build()
    problem = problem_of(instance)
    if instance.disclosure is not None:
        assert_allclose(problem.joint, instance.joint, rtol=1e-14)
        assert (problem.form, problem.target) == ("disclosure", instance.disclosure)
        return
    assert_allclose(problem.tables()[0], instance.table, rtol=1e-15)
    assert_allclose(problem.joints[0], instance.joint, rtol=1e-14)
    if instance.limit is not None:
        assert float(problem.leakage_budget) == instance.limit.value
        mechanism = np.random.default_rng(3).dirichlet(np.ones(len(instance.y)), len(instance.x))
        measured = value_of(problem.leakage, instance.joint, mechanism)
        assert instance.limit.leaked(mechanism) == pytest.approx(measured, rel=1e-12)


def test_a_budget_is_a_share_of_the_way_to_an_independent_release():
    joint, table = np.full((2, 2), 0.25), np.array([[1.0, 2.0], [3.0, 1.0]])
    assert budget_at(joint, table, 0.0) == 1.0
    assert budget_at(joint, table, 1.0) == 1.5


@pytest.mark.parametrize("name", SUITES)
def test_suites_name_solvers_that_exist_and_cases_that_somebody_solves(name):
    for part in SUITES[name](Options(seed=1)):
        assert set(part.solvers) <= set(SOLVERS)
        sizes = []
        for case in part.cases:
            assert any(SOLVERS[solver].supports(case) for solver in part.solvers)
            for solver, rungs in ((s, r) for s, r in part.rungs.items() if s in part.solvers):
                assert set(rungs) <= {rung.label for rung in SOLVERS[solver].ladder(part.targets)}
            if part.axis is not None:
                sizes.append(case[part.axis])
        assert sizes == sorted(sizes), "what is too slow at one size is not tried at the next"
