"""Curves: every point is the single solve, whatever its neighbours; and what is proved between the points."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.testing import random_joint

JOINT = random_joint(0, 3, 4)
TABLE = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
IDLE = (JOINT.sum(axis=0)[:, None] * TABLE).sum(axis=0).min()  # a constant meets this budget
# Infeasible, least, barely above it, inside, at the end and beyond it; not in order.
BUDGETS = np.array([0.3, -0.1, 0.0, 1e-6, 0.1, IDLE, 0.2, 5.0, 0.05, 0.25])


def problem(joint=JOINT, **form):
    return jp.DistortionProblem(joint, TABLE, **form)


@pytest.fixture(scope="module")
def curve():
    return jp.frontier(problem(budget=0.1), budgets=BUDGETS)


def same_point(a, b):
    assert a.status == b.status
    if a.status == "optimal":
        assert max(a.lower_bound, b.lower_bound) <= min(a.value, b.value)
        assert max(a.gap, b.gap) <= 1e-6


def test_every_point_is_a_single_solve(curve):
    assert (curve.parameter, curve.points.shape) == ("budget", (10, 1))
    assert curve.solution.mechanism.shape == (10, 4, 4)
    for k, budget in enumerate(BUDGETS):
        same_point(curve.solution[k], jp.solve(problem(budget=budget), throw=False))
    feasible = BUDGETS >= 0
    np.testing.assert_array_equal(curve.solution.status == "optimal", feasible)
    np.testing.assert_array_equal(curve.solution.status == "infeasible", ~feasible)
    assert np.all(curve.solution.distortion[feasible, 0] <= BUDGETS[feasible] * (1 + 1e-9))
    assert np.isnan(curve.solution.mechanism[~feasible]).all()
    assert np.all(curve.solution.value[BUDGETS >= IDLE] <= 1e-6)


@pytest.mark.parametrize("order", [np.argsort(BUDGETS), np.arange(10)[::-1]], ids=["sorted", "reversed"])
def test_the_order_of_the_points_is_kept_and_irrelevant(curve, order):
    other = jp.frontier(problem(budget=0.1), budgets=BUDGETS[order])
    np.testing.assert_array_equal(other.points[:, 0], BUDGETS[order])
    np.testing.assert_array_equal(other.solution.value, curve.solution.value[order])
    np.testing.assert_array_equal(other.solution.lower_bound, curve.solution.lower_bound[order])


@pytest.mark.parametrize("compile_", ["always", "never"])
def test_batches_and_padding_change_nothing(compile_, monkeypatch):
    """17 points: a full batch and one that is padded; the same numbers as in one padded batch each."""
    monkeypatch.setenv("JAXPRIV_COMPILE", compile_)
    budgets = np.linspace(0.02, 0.3, 17)
    whole = jp.frontier(problem(budget=0.1), budgets=budgets).solution
    parts = [jp.frontier(problem(budget=0.1), budgets=part).solution for part in (budgets[:5], budgets[5:])]
    for name in ("value", "lower_bound", "mechanism", "multipliers"):
        np.testing.assert_array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts]))


def test_an_infeasible_point_raises_if_asked_to():
    with pytest.raises(jp.InfeasibleError, match=r"^budget: no mechanism meets it"):
        jp.frontier(problem(budget=0.1), budgets=BUDGETS, throw=True)
    with pytest.raises(jp.InfeasibleError, match=r"^leakage_budget"):
        jp.frontier(problem(budget=0.1), leakage_budgets=[0.01, -0.01], throw=True)


def test_multipliers():
    prices = np.array([0.0, 0.3, 1.0, 5.0, 1e3])
    curve = jp.frontier(problem(budget=0.1), multipliers=prices)
    assert curve.parameter == "multiplier"
    for k, price in enumerate(prices):
        same_point(curve.solution[k], jp.solve(problem(multiplier=price)))
    # A dearer distortion is bought less, and leaks more.
    assert np.all(np.diff(curve.solution.distortion[:, 0]) <= 1e-4)
    assert np.all(np.diff(curve.solution.leakage) >= -1e-6)
    with pytest.raises(jp.InputError, match=r"^band needs"):
        curve.band(0.1)


def test_leakage_budgets():
    limits = np.array([0.0, 1e-3, 0.01, 0.03, 1.0])
    curve = jp.frontier(problem(budget=0.1), leakage_budgets=limits)
    assert (curve.parameter, curve.points.shape) == ("leakage_budget", (5,))
    for k, limit in enumerate(limits):
        same_point(curve.solution[k], jp.solve(problem(leakage_budget=limit)))
    assert np.all(curve.solution.leakage <= limits + 1e-12)
    assert np.all(np.diff(curve.solution.value) <= 1e-6)
    between = np.array([5e-4, 0.005, 0.02])
    lower, upper = curve.band(between)
    for low, high, limit in zip(lower, upper, between, strict=True):
        fresh = jp.solve(problem(leakage_budget=limit))
        assert low <= fresh.value
        assert fresh.lower_bound <= high


def test_band_holds_the_optimum_between_the_points(curve):
    between = np.array([0.0, 0.02, 0.07, 0.12, 0.22, 0.28, 0.35, IDLE, 1.0, 9.0])
    lower, upper = curve.band(between)
    for low, high, budget in zip(lower, upper, between, strict=True):
        fresh = jp.solve(problem(budget=budget))
        assert low <= fresh.value
        assert fresh.lower_bound <= high
        assert low <= high
    inside = (between > 0.05) & (between < 0.3)
    assert (upper - lower)[inside].max() < 0.02  # it says something
    assert np.isinf(curve.band(-0.05)[1])  # left of the least budget nothing is known to be attained
    with pytest.raises(jp.InputError, match=r"^at "):
        curve.band("0.1")


def test_several_distortions_and_joints():
    tables = [TABLE, 1 - np.eye(4)]
    budgets = np.array([[0.1, 0.5], [0.3, 0.2]])
    curve = jp.frontier(jp.DistortionProblem(JOINT, tables, budget=[1, 1]), budgets=budgets)
    for k, pair in enumerate(budgets):
        same_point(curve.solution[k], jp.solve(jp.DistortionProblem(JOINT, tables, budget=pair)))
    with pytest.raises(jp.InputError, match=r"^band needs"):
        curve.band(0.1)


def test_progress_counts_every_point_once():
    seen = []
    jp.frontier(problem(budget=0.1), budgets=np.r_[-1.0, 5.0, np.linspace(0.02, 0.3, 17)], progress=seen.append)
    # What needs no iteration, then batches of eight; reports from within a batch repeat the number before it.
    assert list(dict.fromkeys(record.done for record in seen)) == [2, 10, 18, 19]
    assert {record.total for record in seen} == {19}
    assert all(record.gap == abs(record.value - record.bound) for record in seen)
    seen.clear()
    jp.frontier(problem(budget=0.1), budgets=[5.0], progress=seen.append)
    assert [(record.done, record.total) for record in seen] == [(1, 1)]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({}, r"^give exactly one"),
        ({"budgets": [0.1], "multipliers": [1.0]}, r"^give exactly one"),
        ({"budgets": []}, r"^budgets is empty"),
        ({"budgets": 0.1}, r"^budgets has 0 dimension"),
        ({"budgets": [0.1, np.nan]}, r"^budgets\[1\] is NaN"),
        ({"budgets": [0.1, np.inf]}, r"^budgets\[1\] is infinite"),
        ({"budgets": [True, False]}, r"^budgets has dtype bool"),
        ({"budgets": [[0.1, 0.2]]}, r"^budget has 2 entries for 1 distortion"),
        ({"multipliers": [1.0, -1.0]}, r"^multiplier\[0\] is negative"),
        ({"leakage_budgets": [[0.1]]}, r"^leakage_budgets has 2 dimension"),
        ({"budgets": [0.1], "tol": 0.0}, r"^tol "),
        ({"budgets": [0.1], "max_steps": 0}, r"^max_steps"),
        ({"budgets": [0.1], "solver": "simplex"}, r"^solver 'simplex' is unknown"),
    ],
)
def test_bad_sweeps(sweep, message):
    with pytest.raises(jp.InputError, match=message):
        jp.frontier(problem(budget=0.1), **sweep)


MEASURED = jp.DistortionProblem(
    np.random.default_rng(5).dirichlet(np.ones(12)).reshape(3, 4),
    jp.distortion.absolute(np.arange(4) / 4),
    leakage=jp.leakage.MaxInformation(),
    leakage_budget=1.0,
)


def test_curve_of_another_measure_is_that_of_single_solves():
    limits = np.array([0.0, 0.05, 0.4, 0.1, 50.0])
    curve = jp.frontier(MEASURED, leakage_budgets=limits)
    assert (curve.solution.status == "optimal").all()
    for point, value, bound in zip(limits, curve.solution.value, curve.solution.lower_bound, strict=True):
        one = jp.solve(
            jp.DistortionProblem(
                MEASURED.joints[0], MEASURED.distortions[0], leakage=MEASURED.leakage, leakage_budget=point
            )
        )
        assert one.lower_bound <= value + 1e-12
        assert bound <= one.value + 1e-12
    # Between the points nothing is proved but monotony: the curve need not be convex.
    lower, upper = curve.band([0.05, 0.07, 0.4])
    assert lower[0] == curve.solution.lower_bound[1]
    assert upper[1] == curve.solution.value[1]
    assert lower[1] == curve.solution.lower_bound[3]
    assert upper[2] == curve.solution.value[2]
