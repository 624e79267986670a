"""Curves: every point is the single solve, whatever its neighbours; and what is proved between the points."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_one_optimum, budget_at, distances, drawn_joint, raised, refused, thorough

JOINT = random_joint(0, 3, 4)
TABLE = distances(4)
IDLE = budget_at(JOINT, TABLE, 1.0)  # a constant meets this budget
# Infeasible, least, barely above it, inside, at the end and beyond it; not in order.
BUDGETS = np.array([0.3, -0.1, 0.0, 1e-6, 0.1, IDLE, 0.2, 5.0, 0.05, 0.25])


def problem(joint=JOINT, **form):
    return jp.DistortionProblem(joint, TABLE, **form)


@pytest.fixture(scope="module")
def curve():
    return jp.frontier(problem(budget=0.1), budgets=BUDGETS)


def band_with_the_optimum(curve, targets, ask, slack=1e-12):
    """The band at these targets, which holds the optima there."""
    lower, upper = curve.band(targets)
    for low, high, target in zip(lower, upper, targets, strict=True):
        fresh = jp.solve(ask(target))
        assert low <= fresh.value + slack
        assert fresh.lower_bound <= high + slack
    return lower, upper


def same_point(a, b):
    assert a.status == b.status
    if a.status == "optimal":
        assert_one_optimum(a, b)
        assert max(a.gap, b.gap) <= 1e-6


def test_every_point_is_a_single_solve(curve):
    assert (curve.form, curve.targets.shape) == ("budget", (10,))
    assert curve.solutions.mechanism.shape == (10, 4, 4)
    for k, budget in enumerate(BUDGETS):
        same_point(curve.solutions[k], jp.solve(problem(budget=budget), throw=False))
    feasible = BUDGETS >= 0
    assert_array_equal(curve.status == "optimal", feasible)
    assert_array_equal(curve.status == "infeasible", ~feasible)
    assert np.all(curve.solutions.distortion[feasible, 0] <= BUDGETS[feasible] * (1 + 1e-9))
    assert np.isnan(curve.solutions.mechanism[~feasible]).all()
    assert np.all(curve.value[BUDGETS >= IDLE] <= 1e-6)


@pytest.mark.parametrize("order", [np.argsort(BUDGETS), np.arange(10)[::-1]], ids=["sorted", "reversed"])
def test_the_order_of_the_points_is_kept_and_irrelevant(curve, order):
    other = jp.frontier(problem(budget=0.1), budgets=BUDGETS[order])
    assert_array_equal(other.targets, BUDGETS[order])
    assert_array_equal(other.solutions.value, curve.value[order])
    assert_array_equal(other.solutions.lower_bound, curve.lower_bound[order])


def test_points_do_not_depend_on_those_beside_them():
    """Side by side or, of fewer than six, one after another."""
    budgets = np.linspace(0.02, 0.3, 17)
    whole = jp.frontier(problem(budget=0.1), budgets=budgets)
    parts = [jp.frontier(problem(budget=0.1), budgets=part) for part in (budgets[:5], budgets[5:])]
    apart = [part[k] for part in parts for k in range(len(part))]
    for k, other in enumerate(apart):
        same_point(whole[k], other)


ASKED = {
    "sibson": {"leakage": lk.Sibson(2.0)},
    "ldp": {"leakage": lk.LocalDifferentialPrivacy()},
    "max-information": {"leakage": lk.MaxInformation()},
    "several": {"joint": np.stack([JOINT, random_joint(1, 3, 4)])},
    "chi-squared": {"leakage": lk.FInformation(lk.ChiSquared())},
    "total-variation": {"leakage": lk.FInformation(lk.TotalVariation())},
    "limited": {"limits": [(lk.MaxLift(), 0.6)]},
}
PRICED = ("chi-squared", "total-variation", "limited")


@pytest.mark.parametrize("compile_", ["never", *thorough("always")])
@pytest.mark.parametrize(
    ("form", "name"),
    [*itertools.product(["budget", "leakage_budget"], ASKED), *((("multiplier"), name) for name in PRICED)],
)
def test_points_side_by_side_are_single_solves(form, name, compile_, monkeypatch):
    monkeypatch.setenv("JAXPRIV_COMPILE", compile_)
    asked, targets = ASKED[name], np.linspace(0.02, 0.25, 8) * (10 if form == "multiplier" else 1)
    curve = jp.frontier(problem(**asked, **{form: 0.1}), **{f"{form}s": targets})
    for k, target in enumerate(targets):
        same_point(curve[k], jp.solve(problem(**asked, **{form: target}), throw=False))


def test_points_where_the_first_method_ends_too_early_go_on_to_the_next():
    """Here to the simplex method, which two steps of the interior point leave all of the work to."""
    asked, limits = problem(leakage=jp.leakage.MaxLift(), leakage_budget=0.1), [0.05, 0.2]
    early = {"leakage_budgets": limits, "max_steps": 2}
    assert set(jp.frontier(asked, solver="interior-point", **early).status) == {"not_certified"}
    curve = jp.frontier(asked, **early)
    for k, limit in enumerate(limits):
        same_point(curve[k], jp.solve(problem(leakage=jp.leakage.MaxLift(), leakage_budget=limit)))
        assert curve[k].status == "optimal"


def test_a_point_without_a_certificate_leaves_the_others():
    """Whether any mechanism has a finite leakage is not certified where the budget allows every pair."""
    joint = np.array([[0.8, 0.6, 0.2], [0.2, 0.4, 0.8]]) * [0.45, 0.05, 0.5]
    capped = lk.UserDivergence(lambda t: jnp.where(t <= 1.5, (t - 1) ** 2, jnp.inf), at_zero=1.0)
    table, asked = [[0.5, 0], [0, np.inf], [np.inf, 0]], {"leakage": lk.FInformation(capped)}
    limited, budgets = jp.DistortionProblem(joint, table, budget=0.1, **asked), [0.1, 0.3, -1.0]
    curve = jp.frontier(limited, budgets=budgets)
    assert list(curve.status) == ["optimal", "not_certified", "infeasible"]
    assert (curve[1].value, curve[1].lower_bound) == (np.inf, -np.inf)
    with raised(jp.NotCertifiedError, "no output excludes"):
        jp.frontier(limited, budgets=budgets, throw=True)


def test_an_infeasible_point_raises_if_asked_to():
    with raised(jp.InfeasibleError, r"^budget -?\S+ is below 0, the least distortion of any mechanism"):
        jp.frontier(problem(budget=0.1), budgets=BUDGETS, throw=True)
    with raised(jp.InfeasibleError, r"^leakage_budget"):
        jp.frontier(problem(budget=0.1), leakage_budgets=[0.01, -0.01], throw=True)


def test_multipliers():
    prices = np.array([0.0, 0.3, 1.0, 5.0, 1e3])
    curve = jp.frontier(problem(budget=0.1), multipliers=prices)
    assert curve.form == "multiplier"
    for k, price in enumerate(prices):
        same_point(curve.solutions[k], jp.solve(problem(multiplier=price)))
    # A dearer distortion is bought less, and leaks more.
    assert np.all(np.diff(curve.solutions.distortion[:, 0]) <= 1e-4)
    assert np.all(np.diff(curve.leakage) >= -1e-6)
    with refused(r"^band needs"):
        curve.band(0.1)


def test_leakage_budgets():
    limits = np.array([0.0, 1e-3, 0.01, 0.03, 1.0])
    curve = jp.frontier(problem(budget=0.1), leakage_budgets=limits)
    assert (curve.form, curve.targets.shape) == ("leakage_budget", (5,))
    for k, limit in enumerate(limits):
        same_point(curve.solutions[k], jp.solve(problem(leakage_budget=limit)))
    assert np.all(curve.leakage <= limits + 1e-12)
    assert np.all(np.diff(curve.value) <= 1e-6)
    band_with_the_optimum(curve, np.array([5e-4, 0.005, 0.02]), lambda limit: problem(leakage_budget=limit), 0.0)


def test_band_holds_the_optimum_between_the_points(curve):
    between = np.array([0.0, 0.02, 0.07, 0.12, 0.22, 0.28, 0.35, IDLE, 1.0, 9.0])
    lower, upper = band_with_the_optimum(curve, between, lambda budget: problem(budget=budget), 0.0)
    assert (lower <= upper).all()
    inside = (between > 0.05) & (between < 0.3)
    assert (upper - lower)[inside].max() < 0.02  # it says something
    assert np.isinf(curve.band(-0.05)[1])  # left of the least budget nothing is known to be attained
    with refused(r"^at "):
        curve.band("0.1")


def test_several_distortions_and_joints():
    tables = [TABLE, 1 - np.eye(4)]
    budgets = np.array([[0.1, 0.5], [0.3, 0.2]])
    curve = jp.frontier(jp.DistortionProblem(JOINT, tables, budget=[1, 1]), budgets=budgets)
    for k, pair in enumerate(budgets):
        same_point(curve.solutions[k], jp.solve(jp.DistortionProblem(JOINT, tables, budget=pair)))
    with refused(r"^band needs"):
        curve.band(0.1)


def test_progress_counts_every_point_once():
    seen = []
    jp.frontier(problem(budget=0.1), budgets=np.r_[-1.0, 5.0, np.linspace(0.02, 0.3, 17)], progress=seen.append)
    # What needs no iteration, then eight at a time.
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
    with refused(message):
        jp.frontier(problem(budget=0.1), **sweep)


def measured(measure, **form):
    joint = drawn_joint(5, 3, 4)
    return jp.DistortionProblem(joint, jp.distortion.absolute(np.arange(4) / 4), leakage=measure, **form)


def test_curve_of_another_measure_is_that_of_single_solves():
    limits = np.array([0.0, 0.05, 0.4, 0.1, 50.0])
    ask = lambda limit: measured(lk.MaxInformation(), leakage_budget=limit)  # noqa: E731
    curve = jp.frontier(ask(1.0), leakage_budgets=limits)
    assert (curve.status == "optimal").all()
    for k, limit in enumerate(limits):
        assert_one_optimum(curve[k], jp.solve(ask(limit)), 1e-12)
    # Between the points nothing is proved but monotony: the curve need not be convex.
    lower, upper = curve.band([0.05, 0.07, 0.4])
    assert lower[:2].tolist() == curve.lower_bound[[1, 3]].tolist()
    assert upper[1:].tolist() == curve.value[[1, 2]].tolist()


TRANSFORMED = [
    lk.MaximalLeakage(),
    lk.Sibson(2.0),
    lk.Sibson(0.5),
    lk.Arimoto(3.0),
    lk.FInformation(lk.ChiSquared()),
]


@pytest.mark.parametrize("measure", TRANSFORMED, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("form", ["budget", "leakage_budget"])
def test_band_of_an_average_measure_is_convex_in_its_sum_over_outputs(measure, form):
    """The band holds the optimum between the points, and lies far below the steps that monotony alone proves."""
    ask = lambda target: measured(measure, **{form: target})  # noqa: E731
    targets, between = np.array([0.02, 0.08, 0.2]), np.array([0.05, 0.14])
    if form == "leakage_budget":
        targets, between = np.array([0.01, 0.03, 0.09]), np.array([0.02, 0.06])
    curve = jp.frontier(ask(0.1), **{f"{form}s": targets})
    lower, upper = band_with_the_optimum(curve, between, ask)
    assert (upper - lower < 0.6 * -np.diff(curve.value)).all()
    assert_allclose(curve.band(targets)[1], curve.value, atol=1e-12)


@pytest.mark.parametrize("measure", [*TRANSFORMED, lk.CorrectGuess()], ids=lambda one: type(one).__name__)
def test_band_beyond_the_last_budget_holds_the_optimum(measure):
    """What the last point proves is no bound at a larger budget, where less leaks."""
    ask = lambda budget: measured(measure, budget=budget)  # noqa: E731
    curve = jp.frontier(ask(0.1), budgets=[0.02, 0.08])
    lower, _ = band_with_the_optimum(curve, np.array([0.081, 0.1, 0.2, 5.0]), ask)
    assert lower[0] > curve.lower_bound[1] - 0.1 * (curve.lower_bound[0] - curve.lower_bound[1])  # near it, it is close


def test_lines_of_a_bound_that_ignores_the_data_are_level():
    """From the distortion of a constant release on the bound is 0 at every budget, whatever price a solver returns."""
    curve = jp.frontier(problem(budget=0.1), budgets=[0.1, IDLE + 0.1])
    multipliers = np.asarray(curve.solutions.multipliers).copy()
    multipliers[1] = 10.0
    wrong = dataclasses.replace(curve, solutions=dataclasses.replace(curve.solutions, multipliers=multipliers))
    assert wrong.lower_bound[1] == 0.0
    assert (wrong.band([0.1, IDLE])[0] <= wrong.band([0.1, IDLE])[1] + 1e-12).all()


def test_both_kinds_of_frontier_have_the_same_attributes():
    curve = jp.frontier(problem(budget=0.1), budgets=[0.1, 0.2])
    funnel = jp.funnel_frontier(jp.FunnelProblem(JOINT, disclosure=0.1), disclosures=[0.1, 0.3])
    for one in (curve, funnel):
        assert len(one) == 2
        assert one[1].value == one.value[1] == one.solutions[1].value
        assert one.targets.shape == one.gap.shape == one.status.shape == one.leakage.shape == (2,)
        assert_allclose(one.gap, one.upper_bound - one.lower_bound, atol=1e-15)
        assert set(one.status) == {"optimal"}


@pytest.mark.parametrize("measure", [lk.MaxInformation(), lk.MaxLift()], ids=["information", "lift"])
def test_band_of_a_worst_outcome_lies_below_the_steps(measure):
    """The mixture of two neighbours meets the budget between them; an output of one of them alone leaks as before."""
    ask = lambda budget: measured(measure, budget=budget)  # noqa: E731
    curve = jp.frontier(ask(0.1), budgets=[0.02, 0.1, 0.2])
    _, upper = band_with_the_optimum(curve, np.array([0.04, 0.06, 0.15]), ask)
    assert (upper <= curve.value[[0, 0, 1]]).all()
    assert upper[2] < curve.value[1] - 1e-3
    assert_allclose(curve.band([0.02, 0.1, 0.2])[1], curve.value, atol=1e-10)


@pytest.mark.parametrize("measure", [lk.MutualInformation(), lk.MaxLift()], ids=repr)
def test_a_point_out_of_reach_of_a_limit_without_slack_is_marked_as_any_other(measure):
    """It ended the whole curve, although nothing was to be raised."""
    problem = jp.DistortionProblem(drawn_joint(1, 2, 3), 1 - np.eye(3), budget=0.5, limits=[(measure, 0.0)])
    assert jp.frontier(problem, budgets=[0.01, 0.9]).solutions.status.tolist() == ["infeasible", "optimal"]
    with raised(jp.InfeasibleError, "contradict each other"):
        jp.frontier(problem, budgets=[0.01, 0.9], throw=True)
