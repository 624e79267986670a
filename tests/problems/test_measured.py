"""Problems with any measures: optimality, consistency, another solver, refusals."""

import math

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.errors import InfeasibleError
from tests.cases import assert_refused, raised, thorough, value_of
from tests.grid.cells import Cell
from tests.grid.judge import outcome

from .checks import proved
from .measured_cases import AVERAGE, BUDGET, DISTORTION, INF, JOINT, MEASURES, USERS, WORST, N, problem_of

# -- solutions -------------------------------------------------------------------------------------


# One of every kind of program: another of a kind is the same code (the guard has the optimum of every measure).
OF_EACH_KIND = [
    *("kl", "sibson-2", "total-variation", "max-information", "relative-entropy", "hellinger", "lift"),
    *thorough("maximal-leakage", "ldp", "sibson-0.5", "chi-squared", "jensen-shannon", "max-gain-brier"),
]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["budget", "leakage-budget"])
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_the_interval_holds_the_optimum_of_linear_programs(name, form):
    """Mechanism, value and bound by definitions and cutting planes that share no code with the library."""
    assert outcome(Cell("auto", form, "nothing", name, "dense", "inside", "host")) == ""


# -- limits that are none, and refusals ------------------------------------------------------------


@pytest.mark.parametrize("name", [*AVERAGE, *WORST])
def test_no_limit_leaves_the_cheapest_release(name):
    solution = jp.solve(problem_of(MEASURES[name], leakage_budget=INF))
    assert solution.status == "optimal"
    assert solution.solver == "closed-form"
    assert solution.value == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(solution.mechanism, np.eye(N))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lift", "ldp", "ldp-chain", "min-lift"])
@pytest.mark.parametrize("eps", [40.0, 1000.0])
def test_a_very_loose_limit_still_excludes_an_infinite_ratio(name, eps):
    """e^-40 is less than rounding beside 1, but a release without noise would be infinitely far off."""
    joint = np.kron(np.eye(2), np.ones((2, 2))) / 8
    solution = proved(problem_of(MEASURES[name], joint, leakage_budget=eps))
    assert value_of(MEASURES[name], joint, np.eye(N)) == INF
    assert solution.value <= 1e-6


@pytest.mark.parametrize("name", [*AVERAGE, *WORST, "user inverse", "user cubic"])
def test_a_limit_below_that_of_no_release_is_infeasible(name):
    measure = (MEASURES | USERS)[name]
    least_possible = float(value_of(measure, JOINT, np.full((N, N), 1 / N)))
    problem = problem_of(measure, leakage_budget=least_possible - 0.1)
    with raised(InfeasibleError, "below") as caught:
        jp.solve(problem)
    assert caught.value.proof["bound"] > caught.value.proof["allowed"]
    assert jp.solve(problem, throw=False).status == "infeasible"


@pytest.mark.slow
def test_limits_that_contradict_the_budget_are_proved():
    floor = jp.solve(problem_of(lk.RelativeEntropyPrivacy(), leakage_budget=0.2), tol=1e-7).lower_bound
    limits = [(lk.RelativeEntropyPrivacy(), 0.2)]
    with raised(InfeasibleError, "limits and `budget`") as caught:
        jp.solve(problem_of(None, budget=0.9 * floor, limits=limits))
    assert caught.value.proof["bound"] > caught.value.proof["allowed"] == 0
    met = proved(problem_of(None, budget=1.2 * floor, limits=limits))
    assert value_of(lk.RelativeEntropyPrivacy(), JOINT, met.mechanism) <= 0.2 + 1e-9


@pytest.mark.parametrize("neighbours", [np.ones((3, 4)), np.ones(4), np.full((4, 4), 2), np.full((4, 4), -1), "all"])
def test_neighbours_that_are_no_relation(neighbours):
    assert_refused("neighbours", lk.LocalDifferentialPrivacy, neighbours)


def _refused(message, measure=None, **form):
    assert_refused(message, lambda: jp.solve(problem_of(measure, **form)))


@pytest.mark.parametrize("value", [math.nan, -1, -INF, "much", True])
def test_a_limit_that_is_no_number(value):
    _refused(r"limits\[1\]", budget=1, limits=[(lk.Lift(), 1), (lk.MaxLift(), value)])


@pytest.mark.parametrize("limits", [3, [lk.Lift()], [(lk.Lift(), 1, 2)], {"lift": 1}, [("lift", 1)], [(lk.Lift, 1)]])
def test_limits_that_are_no_pairs(limits):
    _refused("limits", budget=1, limits=limits)


@pytest.mark.parametrize(
    "measure",
    [
        lk.LocalDifferentialPrivacy(np.ones((3, 3))),
        lk.GainLeakage(np.ones((2, 3))),
        lk.AverageCostGain(lk.LossMatrix(np.ones((3, 2)))),
        lk.MaxCostGain(lk.LossMatrix(np.ones((5, 2)))),
    ],
)
def test_parameters_for_another_number_of_symbols(measure):
    _refused("private symbols", measure, budget=BUDGET)
    _refused("private symbols", budget=BUDGET, limits=[(measure, 1)])


@pytest.mark.parametrize("name", ["sibson-2", "arimoto-0.3", "maximal-leakage", "min-entropy", "gain", *WORST])
def test_a_multiplier_needs_an_average_that_is_no_logarithm(name):
    _refused("multiplier", MEASURES[name], multiplier=1)


@pytest.mark.parametrize("measure", [lk.Sibson(1.0), lk.Arimoto(1.0)], ids=repr)
def test_what_leakage_and_distortion_are_together_is_not_capped_by_the_most_that_leaks(measure):
    """The value was ln |S|, which no order of Sibson or Arimoto exceeds, and the price of the distortion was lost."""
    solution = proved(jp.DistortionProblem(JOINT, DISTORTION + 5.0, multiplier=1.0, leakage=measure))
    assert solution.value == pytest.approx(solution.leakage + solution.distortion[0], abs=1e-9)


@pytest.mark.parametrize("relation", [np.zeros((N, N), dtype=bool), np.eye(N, dtype=bool)])
def test_neighbours_without_pairs_limit_nothing(relation):
    limited = proved(problem_of(lk.LocalDifferentialPrivacy(relation), leakage_budget=0.1))
    assert limited.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["ldp", *thorough("max-information", "lift", "max-lift", "ldp-chain")])
def test_curve_of_a_worst_outcome_reaches_zero_and_says_what_is_out_of_reach(name, monkeypatch):
    """Points in closed form, points of the search and infeasible ones are of one shape."""
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")  # to the last bit those of the curve, whose points are compiled
    problem = problem_of(WORST[name], budget=BUDGET)
    curve = jp.frontier(problem, budgets=[BUDGET, 10.0, -1.0])
    assert list(curve.solutions.status) == ["optimal", "optimal", "infeasible"]
    single = jp.solve(problem)
    assert curve.solutions.value[0] == pytest.approx(single.value, abs=1e-9)
    np.testing.assert_array_equal(curve.solutions[0].scores, single.scores)
    assert curve.solutions.value[1] == curve.solutions.lower_bound[1] == 0.0
    assert value_of(WORST[name], JOINT, curve.solutions.mechanism[1]) <= 1e-12


@pytest.mark.parametrize(
    "joint",
    [
        [[0.5, 0.2, 0.3]],
        [[[0.5, 0.2, 0.3]], [[0.1, 0.2, 0.7]]],
        [[[0.5, 0.2, 0.3], [0.0, 0.0, 0.0]], [[0.1, 0.2, 0.1], [0.1, 0.3, 0.2]]],
    ],
    ids=["one joint", "two", "of two one"],
)
@pytest.mark.parametrize("form", [{"budget": 0.75}, {"leakage_budget": 0.1}])
def test_total_variation_from_a_single_private_symbol_is_nothing(joint, form):
    """All rows of such a term are zeros."""
    measure = lk.by_name("f-information", divergence="total-variation")
    proved(jp.DistortionProblem(joint, [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], leakage=measure, **form))


def test_slopes_that_grow_with_powers_of_ratios_take_no_step_for_each_unit():
    """Rows without a private symbol may show of it as little as e^-70: the slope of reverse KL is 1 - 1/ratio, which
    changed by three halves in a step. Gaps of 1.6e-4 and 3e-3 were left after 200 steps.
    """
    joint = np.array([[0.23, 0.015, 0.2, 0.007], [0.33, 0.13, 0.088, 0]])
    limit = {"leakage": lk.FInformation(lk.ReverseKullbackLeibler()), "leakage_budget": 1.0}
    assert proved(jp.DistortionProblem(joint, 1 - np.eye(4), **limit), "interior-point").steps <= 30
    counts = np.random.default_rng(0).multinomial(1000, np.random.default_rng(0).dirichlet(np.full(80, 0.6)))
    line = abs(np.subtract.outer(np.arange(20), np.arange(20))) / 20
    problem = jp.DistortionProblem(counts.reshape(4, 20) / 1000, line, **limit)
    assert proved(problem, "interior-point").steps <= 30
