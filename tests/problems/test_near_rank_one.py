"""S and X nearly independent: limits are tiny, their prices large, and a rule hardly seen is worth a lot."""

import numpy as np
import pytest

import jaxpriv as jp
import jaxpriv.leakage as lk
from jaxpriv.leakage import MaxInformation
from tests.cases import value_of

from .measured_cases import DISTORTION as TABLE


def _problem(seed, deviation, fraction):
    rng = np.random.default_rng((seed, 5))
    joint = np.outer(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4)))
    joint = joint * (1 + deviation * rng.uniform(-1, 1, joint.shape))
    joint /= joint.sum()
    whole = value_of(MaxInformation(), joint, np.eye(4))
    return jp.DistortionProblem(joint, TABLE, leakage=MaxInformation(), leakage_budget=fraction * whole)


@pytest.mark.parametrize("deviation", [1e-2, 1e-3, 1e-4, 1e-5])
def test_worst_outcome_limits_are_certified(deviation):
    """Mostly in 10 to 20 steps; without `dual_tolerance` half of them take more than 35 or stall."""
    for seed in range(2):
        for fraction in (0.01, 0.03, 0.7):
            solution = jp.solve(_problem(seed, deviation, fraction))
            assert solution.status == "optimal", (seed, fraction)
            assert solution.steps <= 50, (seed, fraction)


@pytest.mark.parametrize("deviation", [1e-6, 1e-8, 1e-10, 1e-11])
@pytest.mark.parametrize("measure", [lk.Lift(), lk.MaxLift(), lk.MinLift(), lk.FInformation(lk.TotalVariation())])
def test_no_bound_under_a_limit_of_zero_excludes_a_release_that_ignores_the_data(measure, deviation):
    """Rows of such limits are differences of probabilities, far below their rounding: bounds of 6.3 were claimed where
    a constant output costs 0.23, and no mechanism was found to meet the limit.
    """
    rng = np.random.default_rng(1)
    for private, useful, outputs in ((3, 3, 3), (2, 4, 3), (4, 3, 2)):
        joint = np.outer(rng.dirichlet(np.ones(private)), rng.dirichlet(np.ones(useful)))
        joint = joint * (1 + deviation * rng.normal(size=joint.shape))
        joint /= joint.sum()
        table = rng.random((useful, outputs))
        constant = (joint.sum(axis=0) @ table).min()
        found = jp.solve(jp.DistortionProblem(joint, table, leakage=measure, leakage_budget=0.0))
        assert found.lower_bound <= found.value + 1e-12
        assert found.value <= constant + 1e-6
        assert found.lower_bound <= constant + 1e-12


@pytest.mark.parametrize("measure", [lk.Sibson(50.0), lk.Arimoto(100.0), lk.Arimoto(0.5), lk.MutualInformation()])
def test_no_bound_is_above_the_value_of_a_release_that_meets_a_limit_of_zero_up_to_rounding(measure):
    """Released as it is, X leaks 1e-13 nats: bounds of releases that leak nothing at all were 3.5 times its cost."""
    rng = np.random.default_rng(0)
    joint = np.outer(rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(3)))
    joint = joint * (1 + 1e-7 * rng.normal(size=joint.shape))
    joint /= joint.sum()
    table = 1e12 * rng.random((3, 4))
    problem = jp.DistortionProblem(joint, table, leakage=measure, leakage_budget=0.0)
    found = jp.solve(problem, throw=False)
    proof = found.verify(problem)
    assert 0.99 * found.value <= found.lower_bound <= found.value
    assert proof.lower_bound <= proof.value


def test_a_constant_meets_a_budget_just_above_its_cost_and_every_limit():
    """The distance to the budgets was known to 4e-10 of their range, and no answer was given."""
    rng = np.random.default_rng(12)
    sizes = [int(rng.integers(2, high)) for high in (6, 7, 7)]
    joint = np.outer(rng.dirichlet(np.ones(sizes[0])), rng.dirichlet(np.ones(sizes[1])))
    joint = joint * (1 + 10.0 ** rng.integers(-11, -1) * rng.standard_normal(joint.shape))
    joint /= joint.sum()
    table = rng.random(sizes[1:])
    budget = (joint.sum(axis=0) @ table).min() * (1 + 1e-9)
    limits = [(lk.RelativeEntropyPrivacy(), 1e-8)]
    assert jp.solve(jp.DistortionProblem(joint, table, budget=budget, limits=limits)).status == "optimal"
