"""Problems with any measures: optimality, consistency, another solver, refusals."""

import functools
import itertools
import math

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.errors import InfeasibleError
from jaxpriv.testing import random_joint
from tests.cases import assert_refused, thorough, value_of
from tests.grid.cells import Cell
from tests.grid.judge import outcome

from .checks import proved
from .measured_cases import AVERAGE, BUDGET, INF, JOINT, MEASURES, USERS, WORST, N, problem_of

# -- solutions -------------------------------------------------------------------------------------


@functools.cache
def cheapest(name, eps):
    """Least distortion within a limit; mutual information through `limits`, so by the same method."""
    if name == "mutual-information":
        form = {"measure": MEASURES["kl"], "leakage_budget": INF, "limits": [(MEASURES[name], eps)]}
    else:
        form = {"measure": MEASURES[name], "leakage_budget": eps}
    return jp.solve(problem_of(**form), tol=1e-7)


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


# Any limit on the first implies the same limit on the second (MATH: order of strength).
STRONGER = [
    ("lift", "max-lift"), ("lift", "min-lift"), ("lift", "maximal-leakage"), ("inferential", "lift"), ("ldp", "lift"),
    ("ldp", "ldp-chain"), ("max-lift", "relative-entropy"), ("max-lift", "maximal-leakage"),
    ("relative-entropy", "mutual-information"), ("max-information", "mutual-information"),
    ("maximal-leakage", "sibson-2"), ("sibson-2", "sibson-1"), ("sibson-1", "sibson-0.5"),
    ("maximal-leakage", "min-entropy"), ("maximal-leakage", "arimoto-3"), ("maximal-leakage", "arimoto-0.3"),
    ("maximal-leakage", "gain"), ("chi-squared", "mutual-information"), ("max-gain-zero-one", "gain-zero-one"),
    ("max-gain-brier", "gain-brier"), ("max-gain-losses", "gain-losses"),
]  # fmt: skip


def _costs(stronger, weaker):
    """The stronger limit cannot be cheaper: certified from both sides."""
    assert stronger.status == weaker.status == "optimal"
    assert stronger.value >= weaker.lower_bound - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("strong", "weak"), STRONGER)
def test_a_stronger_measure_costs_at_least_as_much(strong, weak):
    _costs(cheapest(strong, 0.2), cheapest(weak, 0.2))


@pytest.mark.slow
def test_limits_that_are_one_limit_in_two_units():
    def same(a, b):
        _costs(a, b)
        _costs(b, a)

    prior = JOINT.sum(axis=1)
    same(cheapest("ldp", 0.2), cheapest("inferential", 0.2))
    same(cheapest("maximal-leakage", 0.2), cheapest("sibson-inf", 0.2))
    same(cheapest("min-entropy", 0.2), cheapest("arimoto-inf", 0.2))
    same(cheapest("min-entropy", 0.2), cheapest("correct-guess", prior.max() * math.exp(0.2)))
    same(cheapest("gain-zero-one", 0.1), cheapest("correct-guess", prior.max() + 0.1))
    same(cheapest("max-information", 0.2), cheapest("max-gain-log-loss", 0.2))
    same(cheapest("kl", 0.2), cheapest("sibson-1", 0.2))
    # Mutual information by its own solver and as a limit beside none.
    same(jp.solve(problem_of(None, leakage_budget=0.2), tol=1e-7), cheapest("mutual-information", 0.2))
    # eps-lift: 2 eps-LDP, chi-squared at most (e^eps - 1)^2, total variation (e^eps - 1)/2.
    _costs(cheapest("lift", 0.2), cheapest("ldp", 0.4))
    _costs(cheapest("lift", 0.2), cheapest("chi-squared", math.expm1(0.2) ** 2))
    _costs(cheapest("lift", 0.2), cheapest("total-variation", 0.5 * math.expm1(0.2)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sibson-2", "total-variation", "ldp"])
def test_a_looser_limit_is_never_dearer(name):
    found = [cheapest(name, eps) for eps in (0.05, 0.2, 0.5, 3.0)]
    for tight, loose in itertools.pairwise(found):
        _costs(tight, loose)
    assert found[0].value > found[2].value + 1e-3
    assert found[-1].value <= found[-2].value + 1e-7


@pytest.mark.slow
def test_several_limits_at_once_cost_at_least_as_much_as_each():
    limits = [(MEASURES[name], eps) for name, eps in (("max-lift", 0.35), ("sibson-2", 0.2), ("total-variation", 0.1))]
    every = proved(problem_of(limits[0][0], leakage_budget=0.35, limits=limits[1:]), tol=1e-7)
    for name, (measure, eps) in zip(("max-lift", "sibson-2", "total-variation"), limits, strict=True):
        _costs(every, cheapest(name, eps))
        assert value_of(measure, JOINT, every.mechanism) <= eps + 1e-9
    # A limit of infinity is none, whatever its measure; and an objective within limits lies above the free one.
    none = [(lk.Lift(), INF), (lk.Sibson(2.0), INF)]
    free, plain = (jp.solve(problem_of(MEASURES["kl"], budget=BUDGET, limits=some), tol=1e-7) for some in (none, ()))
    assert free.value == pytest.approx(plain.value, abs=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("maximal-leakage", {"budget": 0.6}),
        ("chi-squared", {"budget": 0.6}),
        ("lift", {"leakage_budget": 0.3}),
    ],
)
def test_a_set_of_joints_is_at_least_as_hard_as_each_and_holds_under_all(name, form):
    joints = np.stack([JOINT, 0.5 * JOINT + 0.5 * random_joint(11, N, N)])
    both = proved(problem_of(MEASURES[name], joints, **form))
    leaks = [value_of(MEASURES[name], joint, both.mechanism) for joint in joints]
    assert max(leaks) == pytest.approx(both.value if "budget" in form else 0.3, abs=1e-6)
    for joint in joints:
        _costs(both, jp.solve(problem_of(MEASURES[name], joint, **form)))


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
    with pytest.raises(InfeasibleError, match="below") as caught:
        jp.solve(problem)
    assert caught.value.proof["bound"] > caught.value.proof["allowed"]
    assert jp.solve(problem, throw=False).status == "infeasible"


@pytest.mark.slow
def test_limits_that_contradict_the_budget_are_proved():
    floor = cheapest("relative-entropy", 0.2).lower_bound
    limits = [(lk.RelativeEntropyPrivacy(), 0.2)]
    with pytest.raises(InfeasibleError, match="limits and budget") as caught:
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
