"""Sensitivities with other measures and with limits, against central differences of certified values."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import leakage as lk
from tests.cases import assert_refused, budget_at, drawn_joint, further, thorough

from .measured_cases import MEASURES as BUILT_IN, problem_of

_RNG = np.random.default_rng(5)
N, M = 3, 4
JOINT = drawn_joint(_RNG, N, M)
OTHER = 0.5 * JOINT + 0.5 * drawn_joint(_RNG, N, M)
TABLES = _RNG.uniform(0.2, 1.0, (2, M, M)) * (1.0 - np.eye(M))
LOSSES, GAINS = _RNG.uniform(0, 1, (N, 2)), _RNG.uniform(0, 1, (3, N))
STEP, TIGHT = 1e-4, 1e-10

MEASURES = BUILT_IN | {
    "gain": lk.GainLeakage(GAINS),
    "gain-losses": lk.AverageCostGain(lk.LossMatrix(LOSSES)),
    "max-gain-losses": lk.MaxCostGain(lk.LossMatrix(LOSSES)),
    "ldp-chain": lk.LocalDifferentialPrivacy(np.eye(N, k=1, dtype=bool) | np.eye(N, k=-1, dtype=bool)),
}
# Limits at which the slopes are compared.
LINEAR = {
    "maximal-leakage": 0.2, "sibson-inf": 0.2, "min-entropy": 0.1, "correct-guess": 0.55, "gain": 0.01,
    "total-variation": 0.1, "e-gamma": 0.1, "gain-zero-one": 0.05, "gain-losses": 0.01, "lift": 0.3, "max-lift": 0.3,
    "min-lift": 0.3, "ldp": 0.3, "ldp-chain": 0.3, "inferential": 0.3, "max-gain-zero-one": 0.1,
    "max-gain-losses": 0.02,
}  # fmt: skip
ONE_OF_A_KIND = ("maximal-leakage", "total-variation", "gain-losses", "lift", "max-lift", "ldp", "max-gain-losses")
SMOOTH = ("sibson-2", "sibson-0.5", "arimoto-3", "chi-squared", "hellinger", "gain-brier")


def stated(name, form):
    return lambda joint, table, level: jp.DistortionProblem(joint, table, leakage=MEASURES[name], **{form: level})


def agree_with_differences(name, solver, rtol, joint=None, **level):
    """The problem of a measure by its name, `JOINT` and the first table."""
    ((form, number),) = level.items()
    parts = JOINT if joint is None else joint, TABLES[0], np.array(number)
    agree(stated(name, form), parts, solver, rtol)


def slope_of(found, place):
    names = (found.budget, found.multiplier, found.leakage_budget)
    return (found.joint, found.distortion, next(one for one in names if one is not None), found.limits)[place]


def agree(build, parts, solver, rtol, atol=1e-8):
    """Along a direction in each part in turn; that of the joint keeps its total and its zeros."""

    def value(*moved):
        solution = jp.solve(build(*moved), solver, tol=TIGHT)
        return 0.5 * (solution.value + solution.lower_bound)

    problem = build(*parts)
    found = jp.sensitivity(problem, jp.solve(problem, solver, tol=TIGHT))
    assert_allclose((found.joint * problem.joints).sum(axis=(1, 2)), 0.0, atol=1e-12)
    rng = np.random.default_rng(1)
    for place, part in enumerate(parts):
        change = rng.normal(size=np.shape(part)) * part
        if place == 0:
            change = change - part * change.sum(axis=(-2, -1), keepdims=True)
        ends = [
            value(*(one + sign * STEP * change if i == place else one for i, one in enumerate(parts)))
            for sign in (1.0, -1.0)
        ]
        slope = np.sum(slope_of(found, place).reshape(np.shape(part)) * change)
        assert_allclose(slope, (ends[0] - ends[1]) / (2 * STEP), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", further(LINEAR, ONE_OF_A_KIND))
def test_piecewise_linear_measures_have_the_slopes_of_their_rules(name):
    agree_with_differences(name, "linear-program", 2e-5, budget=[0.08])
    agree_with_differences(name, "linear-program", 1e-6, leakage_budget=LINEAR[name])


def test_a_set_of_joints_has_the_slopes_of_the_joints_that_decide():
    both = np.stack([JOINT, OTHER])
    for level in ({"budget": [0.08]}, {"leakage_budget": 0.2}):
        agree_with_differences("maximal-leakage", "linear-program", 1e-6, both, **level)


def test_limits_and_several_budgets_have_slopes():
    def average(joint, tables, budgets, limits):
        beside = [(lk.MaxLift(), limits[0]), (lk.CorrectGuess(), limits[1])]
        return jp.DistortionProblem(joint, list(tables), budget=budgets, leakage=lk.MaximalLeakage(), limits=beside)

    def worst(joint, tables, budgets, limits):
        beside = [(lk.MaximalLeakage(), limits[0])]
        return jp.DistortionProblem(joint, list(tables), budget=budgets, leakage=lk.MaxLift(), limits=beside)

    budgets = np.array([0.3, 0.2])
    agree(average, (JOINT, TABLES, budgets, np.array([0.4, 0.6])), "linear-program", 1e-6)
    agree(worst, (JOINT, TABLES, budgets, np.array([0.25])), "linear-program", 1e-6)


@pytest.mark.parametrize("name", further(SMOOTH, ["sibson-2"]))
def test_smooth_measures_have_their_own_slopes(name):
    agree_with_differences(name, "auto", 1e-4, budget=[0.08])


@pytest.mark.slow
@pytest.mark.parametrize("name", further(SMOOTH, ["hellinger"]))
def test_limits_on_smooth_measures(name):
    agree_with_differences(name, "auto", 1e-4, leakage_budget=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["max-information", "max-gain-brier"])
def test_smooth_worst_outcomes(name):
    for level in ({"budget": [0.08]}, {"leakage_budget": 0.1}):
        agree_with_differences(name, "auto", 1e-4, **level)


@pytest.mark.slow
def test_multipliers_of_other_measures():
    agree_with_differences("chi-squared", "auto", 1e-4, multiplier=[0.3])


def test_the_slope_of_a_logarithm_is_no_multiplier():
    """The price of the convex program is 0.351, the slope of Sibson's information -0.666."""
    joint = np.array([[0.3, 0.1, 0.1], [0.1, 0.1, 0.3]])
    problem = jp.DistortionProblem(joint, 1.0 - np.eye(3), budget=0.1, leakage=lk.Sibson(2.0))
    found = jp.sensitivity(problem, jp.solve(problem, tol=TIGHT))
    assert_allclose(found.budget, -0.666015389, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tolerance"), [("sibson-2", 1e-6), *thorough(("max-information", 1e-4), ("maximal-leakage", 1e-5))]
)
def test_the_optimal_mechanism_moves_as_differences_say(name, tolerance):
    """Along a direction in which the joint and the budget move; |X| < |S|, so that the optimum is unique."""
    rng = np.random.default_rng(0)
    joint, table = drawn_joint(rng, 4, 3), rng.random((3, 4))
    budget = budget_at(joint, table, 0.4)
    change = rng.normal(size=joint.shape)
    change = 0.05 * joint.min() * (change - change.mean())

    def mechanism(t):
        asked = jp.DistortionProblem(joint + t * change, table, budget=budget * (1 + 0.3 * t), leakage=MEASURES[name])
        return jp.optimal_mechanism(asked)

    found, moved = jax.jit(lambda: jax.jvp(mechanism, (0.0,), (1.0,)))()
    expected = (mechanism(STEP) - mechanism(-STEP)) / (2 * STEP)
    assert_allclose(found, mechanism(0.0), atol=1e-6)
    assert abs(expected).max() > 0.1
    assert_allclose(moved, expected, atol=tolerance)


def test_the_host_takes_the_value_of_another_solver():
    asked = stated("maximal-leakage", "budget")(JOINT, TABLES[0], [0.08])
    assert jp.optimal_value(asked, solver="linear-program") == jp.solve(asked, "linear-program").value


def test_rules_that_prove_nothing_have_no_slopes():
    problem = stated("max-lift", "budget")(JOINT, TABLES[0], [0.08])
    solution = jp.solve(problem, "linear-program", tol=10.0)  # any mechanism will do: nothing is proved
    assert solution.lower_bound == 0
    assert_refused("prove no lower bound", jp.sensitivity, problem, solution)
    free = stated("max-lift", "budget")(JOINT, TABLES[0], [9.0])
    assert not jp.sensitivity(free, jp.solve(free)).budget.any()


@pytest.mark.parametrize("solver", ["hybrid-gradient", *thorough("interior-point")])
def test_second_derivatives_inside_of_jit_are_differences_of_slopes(solver):
    def problem(budget):
        return problem_of(lk.Sibson(2.0), budget=budget)

    def slope(budget):
        return jp.sensitivity(problem(budget), jp.solve(problem(budget), tol=1e-11)).budget[0]

    curved = jax.jit(jax.hessian(lambda budget: jp.solve(problem(budget), solver, tol=1e-8).value))(0.3)
    assert curved == pytest.approx((slope(0.3 + 3e-4) - slope(0.3 - 3e-4)) / 6e-4, rel=1e-5)
    assert curved > 0.1
