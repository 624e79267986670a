"""Starts after mirror steps: nearer to the solution than the independent release, so that few Newton steps are left."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_one_optimum, budget_at, distances, value_of
from tests.problems.measured_cases import SMOOTH

JOINTS = {"random": random_joint(5, 12, 12), "S = X": np.diag(np.full(12, 1.0 / 12))}


@pytest.mark.parametrize("share", [1e-4, 0.1, 0.9])
@pytest.mark.parametrize("joint", JOINTS)
@pytest.mark.parametrize("measure", [lk.MaxInformation(), lk.RelativeEntropyPrivacy()], ids=["information", "entropy"])
def test_fewer_steps_to_the_least_distortion_under_a_worst_outcome_limit(measure, joint, share):
    whole = value_of(measure, JOINTS[joint], np.eye(12))
    limit = share * (whole if np.isfinite(whole) else 4.0)
    problem = jp.DistortionProblem(JOINTS[joint], distances(12), leakage_budget=limit, leakage=measure)
    cold, warm = (jp.solve(problem, solver) for solver in (jp.InteriorPoint(warm_steps=0), jp.InteriorPoint()))
    assert cold.status == warm.status == "optimal"
    assert_one_optimum(cold, warm)
    assert warm.steps < cold.steps + (share < 0.1)  # next to no leakage is far from every start


MEASURES = SMOOTH | {"logarithmic loss": lk.AverageCostGain(lk.LogLoss())}


def steps_to_the_least(measure, joints, share):
    table = distances(6) / 5
    budget = min(budget_at(joint, table, share) for joint in joints)
    found = jp.solve(jp.DistortionProblem(np.stack(joints), table, budget=budget, leakage=measure))
    assert found.status == "optimal"
    return int(found.steps)


@pytest.mark.parametrize("name", MEASURES)
def test_at_most_eight_steps_to_the_least_smooth_average(name):
    """Ten to twenty from the independent release."""
    shares = enumerate((0.3, 0.1, 0.03))
    steps = [steps_to_the_least(MEASURES[name], [random_joint(seed, 6, 6)], share) for seed, share in shares]
    assert max(steps) <= 8, steps


@pytest.mark.parametrize("name", ["chi-squared", "sibson-0.5", "logarithmic loss"])
def test_rules_follow_the_prices_of_a_peak(name):
    """The price of one joint falls: 14 to 17 steps on average where its rules move with it and nothing is known."""
    pairs = [[random_joint(seed, 6, 6), random_joint(seed + 10, 6, 6)] for seed in range(3)]
    steps = [steps_to_the_least(MEASURES[name], pair, 0.1) for pair in pairs]
    assert sum(steps) <= 30, steps


def test_a_price_that_falls_as_far_as_it_may_leaves_the_others_where_budgets_are_met():
    """54 steps where Newton's move of the prices in the start is cut price by price."""
    steps = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        joint, tables = rng.dirichlet(np.full(8, 0.3)).reshape(2, 4), rng.uniform(size=(3, 4, 4)) * (1 - np.eye(4))
        budget = rng.uniform(0.05, 0.9, 3) * (joint.sum(axis=0) @ tables).min(axis=1)
        steps.append(int(jp.solve(jp.DistortionProblem(joint, list(tables), budget=budget)).steps))
    assert sum(steps) <= 40, steps


def test_a_start_that_lost_its_way_is_not_used():
    """Symbols of tiny mass: the price of the budget grows without end in the mirror steps."""
    joint = random_joint(2, 6, 6) * 10.0 ** -np.arange(0, 12, 2.0)
    assert steps_to_the_least(SMOOTH["hellinger"], [joint / joint.sum()], 0.01) <= 25
