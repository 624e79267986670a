"""Problems with any measures: optimality, consistency, another solver, refusals."""

import functools
import itertools
import math

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.leakage import evaluate
from jaxpriv.program.certify import certify_program
from jaxpriv.program.lower import measured_program
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import thorough

from .measured_cases import AVERAGE, BUDGET, DISTORTION, INF, JOINT, MEASURES, WORST, N


def value_of(name, joint, mechanism):
    return evaluate(MEASURES[name], joint, mechanism).value


# -- solutions -------------------------------------------------------------------------------------


@functools.cache
def least(name):
    """Least leakage within the budget."""
    return jp.solve(jp.DistortionProblem(JOINT, DISTORTION, budget=BUDGET, leakage=MEASURES[name]), tol=1e-7)


@pytest.mark.parametrize("seed", [1, 4])
def test_the_search_for_a_worst_outcome_reaches_small_tolerances(seed):
    """It goes on where the interval of one distance holds 0: the limits above and below it may still be decided."""
    joint = np.random.default_rng(5).dirichlet(np.ones(12)).reshape(3, 4)
    rng = np.random.default_rng(seed)
    table = rng.uniform(0.2, 1.0, (4, 4)) * (1.0 - np.eye(4))
    solution = jp.solve(jp.DistortionProblem(joint, table, budget=0.03, leakage=lk.MaxInformation()), tol=1e-10)
    assert solution.gap <= 1e-9


@functools.cache
def cheapest(name, eps):
    """Least distortion within a limit; mutual information through `limits`, so by the same method."""
    if name == "mutual-information":
        form = {"leakage": MEASURES["kl"], "leakage_budget": INF, "limits": [(MEASURES[name], eps)]}
    else:
        form = {"leakage": MEASURES[name], "leakage_budget": eps}
    return jp.solve(jp.DistortionProblem(JOINT, DISTORTION, **form), tol=1e-7)


def cost_of(mechanism, joint=JOINT):
    return np.einsum("sx,xy,...xy->...", joint, DISTORTION, mechanism)


def leaks_of(name, mechanisms):
    return np.array([MEASURES[name](JOINT, mechanism) for mechanism in mechanisms])


def around(mechanism):
    """600 mechanisms: at random, and close to one."""
    rng = np.random.default_rng(0)
    other = random_mechanisms(1, 600, N, N)
    # A third tends to the data, a third to a release of one symbol: cheaper, or telling less.
    other[::3] = 0.5 * other[::3] + 0.5 * np.eye(N)
    other[1::3] = 0.2 * other[1::3] + 0.8 * np.eye(N)[1]
    share = np.where(rng.random(600) < 0.2, 1.0, 10.0 ** rng.uniform(-5, 0, 600))[:, None, None]
    return (1 - share) * mechanism + share * other


# One of every kind of program: another of a kind is the same code (the guard has the optimum of every measure).
OF_EACH_KIND = [
    *("kl", "sibson-2", "maximal-leakage", "total-variation", "max-information", "ldp"),
    *thorough("sibson-0.5", "chi-squared", "jensen-shannon", "max-gain-brier", "lift"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_least_leakage_within_a_budget(name):
    solution = least(name)
    assert solution.status == "optimal", solution.message
    assert 0 <= solution.gap <= 1e-7
    w = solution.mechanism
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    assert w.min() >= 0
    assert cost_of(w) <= BUDGET + 1e-9
    assert solution.distortion[0] == pytest.approx(cost_of(w), abs=1e-12)
    assert value_of(name, JOINT, w) <= solution.value + 1e-10
    assert solution.leakage == pytest.approx(value_of(name, JOINT, w), abs=1e-12)
    mechanisms = around(w)
    # All within the budget: those beyond it take a share of the data itself, which costs nothing.
    share = np.minimum(1, BUDGET / cost_of(mechanisms))[:, None, None]
    mechanisms = share * mechanisms + (1 - share) * np.eye(N)
    leaks = leaks_of(name, mechanisms)
    assert leaks.min() >= solution.lower_bound - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_least_distortion_within_a_limit(name):
    eps = float(least(name).value)
    solution = cheapest(name, eps)
    assert solution.status == "optimal", solution.message
    assert 0 <= solution.gap <= 1e-7
    w = solution.mechanism
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    assert w.min() >= 0
    assert value_of(name, JOINT, w) <= eps + 1e-9
    assert solution.value == pytest.approx(cost_of(w), abs=1e-12)
    # The budget form found a mechanism of this leakage at this distortion: so the two optima are one.
    assert solution.value == pytest.approx(BUDGET, abs=1e-5)
    mechanisms = around(w)
    leaks = leaks_of(name, mechanisms)
    within = leaks <= eps
    assert within.sum() > 30
    assert cost_of(mechanisms)[within].min() >= solution.lower_bound - 1e-12


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
    # eps-lift: 2 eps-LDP, chi-squared at most (e^eps - 1)^2, total variation (e^eps - 1)/2.
    _costs(cheapest("lift", 0.2), cheapest("ldp", 0.4))
    _costs(cheapest("lift", 0.2), cheapest("chi-squared", math.expm1(0.2) ** 2))
    _costs(cheapest("lift", 0.2), cheapest("total-variation", 0.5 * math.expm1(0.2)))


@pytest.mark.slow
def test_mutual_information_as_a_limit_is_its_own_solver():
    eps = 0.2
    own = jp.solve(jp.DistortionProblem(JOINT, DISTORTION, leakage_budget=eps), tol=1e-7)
    beside = cheapest("mutual-information", eps)
    assert own.status == beside.status == "optimal"
    assert own.lower_bound <= beside.value + 1e-12
    assert beside.lower_bound <= own.value + 1e-12
    assert evaluate(lk.MutualInformation(), JOINT, beside.mechanism).value <= eps + 1e-9


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
    alone = [cheapest(name, eps) for name, eps in (("max-lift", 0.35), ("sibson-2", 0.2), ("total-variation", 0.1))]
    limits = [(MEASURES["sibson-2"], 0.2), (MEASURES["total-variation"], 0.1)]
    every = jp.solve(
        jp.DistortionProblem(JOINT, DISTORTION, leakage=lk.MaxLift(), leakage_budget=0.35, limits=limits), tol=1e-7
    )
    for one in alone:
        _costs(every, one)
    for measure, eps in [(lk.MaxLift(), 0.35), *limits]:
        assert evaluate(measure, JOINT, every.mechanism).value <= eps + 1e-9
    # A limit of infinity is none, whatever its measure; and an objective within limits lies above the free one.
    free = jp.DistortionProblem(
        JOINT, DISTORTION, leakage=MEASURES["kl"], budget=BUDGET, limits=[(lk.Lift(), INF), (lk.Sibson(2.0), INF)]
    )
    assert jp.solve(free, tol=1e-7).value == pytest.approx(least("kl").value, abs=2e-7)


@pytest.mark.slow
def test_a_set_of_joints_is_at_least_as_hard_as_each_and_holds_under_all():
    joints = np.stack([JOINT, 0.5 * JOINT + 0.5 * random_joint(11, N, N)])
    for measure in (MEASURES["maximal-leakage"], MEASURES["chi-squared"]):
        both = jp.solve(jp.DistortionProblem(joints, DISTORTION, budget=0.6, leakage=measure))
        assert both.status == "optimal"
        leaks = [evaluate(measure, joint, both.mechanism).value for joint in joints]
        assert both.value == pytest.approx(max(leaks), abs=1e-6)
        for joint in joints:
            assert cost_of(both.mechanism, joint) <= 0.6 + 1e-9
            alone = jp.solve(jp.DistortionProblem(joint, DISTORTION, budget=0.6, leakage=measure))
            _costs(both, alone)
    within = jp.solve(jp.DistortionProblem(joints, DISTORTION, leakage_budget=0.3, leakage=lk.Lift()))
    assert within.status == "optimal"
    for joint in joints:
        assert evaluate(lk.Lift(), joint, within.mechanism).value <= 0.3 + 1e-9
        assert cost_of(within.mechanism, joint) <= within.value + 1e-9
        _costs(within, jp.solve(jp.DistortionProblem(joint, DISTORTION, leakage_budget=0.3, leakage=lk.Lift())))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sibson-2", "total-variation", "lift"])
def test_a_corrupted_rule_keeps_the_bound_valid(name):
    """The solver's own rules prove its bound, any others prove less."""
    eps = 0.2
    solution = cheapest(name, eps)
    asked = jp.DistortionProblem(JOINT, DISTORTION, leakage=MEASURES[name], leakage_budget=eps)
    program = measured_program(asked, ((MEASURES[name], eps),))
    parts = (solution.scores[0], solution.weights, solution.multipliers)
    assert certify_program(program, solution.mechanism, *parts).lower_bound == pytest.approx(
        solution.lower_bound, abs=1e-12
    )
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0, 100.0):
        for _ in range(25):
            k, eta, price = (part * (1 + size * rng.normal(size=part.shape)) for part in parts)
            k = k + size * rng.normal(size=k.shape) * (rng.random(k.shape) < 0.2)
            assert certify_program(program, solution.mechanism, k, eta, price).lower_bound <= solution.value


# -- another solver --------------------------------------------------------------------------------


def _other_solver(name, eps):
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable((N, N), nonneg=True)
    seen, prior, mass = JOINT @ w, JOINT.sum(axis=1), JOINT.sum(axis=0)
    released = mass @ w
    product = cp.multiply(prior[:, None], cp.vstack([released] * N))
    if name == "maximal-leakage":
        rules = [cp.sum(cp.max(cp.multiply(1 / prior[:, None], seen), axis=0)) <= math.exp(eps)]
    elif name == "total-variation":
        rules = [0.5 * cp.sum(cp.abs(seen - product)) <= eps]
    elif name == "lift":
        rules = [seen <= math.exp(eps) * product, seen >= math.exp(-eps) * product]
    elif name == "chi-squared":
        parts = [
            cp.quad_over_lin(seen[s, y] - prior[s] * released[y], prior[s] * released[y])
            for s in range(N) for y in range(N)
        ]  # fmt: skip
        rules = [sum(parts) <= eps]
    elif name == "hellinger":  # (sqrt a - sqrt b)^2 = a + b - 2 sqrt(ab)
        means = [cp.geo_mean(cp.hstack([seen[s, y], product[s, y]])) for s in range(N) for y in range(N)]
        rules = [2 - 2 * sum(means) <= eps]
    else:
        assert name == "relative-entropy"
        rules = [cp.sum(cp.rel_entr(seen[:, y], product[:, y])) <= eps * released[y] for y in range(N)]
    cost = cp.sum(cp.multiply(mass[:, None] * DISTORTION, w))
    return cp.Problem(cp.Minimize(cost), [cp.sum(w, axis=1) == 1, *rules]).solve(solver=cp.CLARABEL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["maximal-leakage", "total-variation", "lift", "chi-squared", "hellinger", "relative-entropy"]
)
def test_another_solver_finds_the_same_distortion(name):
    assert cheapest(name, 0.2).value == pytest.approx(_other_solver(name, 0.2), abs=2e-6)


# -- limits that are none, and refusals ------------------------------------------------------------


@pytest.mark.parametrize("name", [*AVERAGE, *WORST])
def test_no_limit_leaves_the_cheapest_release(name):
    problem = jp.DistortionProblem(JOINT, DISTORTION, leakage=MEASURES[name], leakage_budget=INF)
    solution = jp.solve(problem)
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
    solution = jp.solve(jp.DistortionProblem(joint, DISTORTION, leakage=MEASURES[name], leakage_budget=eps))
    assert solution.status == "optimal"
    assert evaluate(MEASURES[name], joint, np.eye(N)).value == INF
    assert evaluate(MEASURES[name], joint, solution.mechanism).value <= eps
    assert solution.value <= 1e-6


@pytest.mark.parametrize("name", [*AVERAGE, *WORST])
def test_a_limit_below_that_of_no_release_is_infeasible(name):
    least_possible = float(value_of(name, JOINT, np.full((N, N), 1 / N)))
    problem = jp.DistortionProblem(JOINT, DISTORTION, leakage=MEASURES[name], leakage_budget=least_possible - 0.1)
    with pytest.raises(InfeasibleError, match="below") as caught:
        jp.solve(problem)
    assert caught.value.proof["bound"] > caught.value.proof["allowed"]
    assert jp.solve(problem, throw=False).status == "infeasible"


@pytest.mark.slow
def test_limits_that_contradict_the_budget_are_proved():
    eps = 0.2
    floor = cheapest("relative-entropy", eps).lower_bound
    limits = [(lk.RelativeEntropyPrivacy(), eps)]
    problem = jp.DistortionProblem(JOINT, DISTORTION, budget=0.9 * floor, limits=limits)
    with pytest.raises(InfeasibleError, match="limits and budget") as caught:
        jp.solve(problem)
    assert caught.value.proof["bound"] > caught.value.proof["allowed"] == 0
    met = jp.solve(jp.DistortionProblem(JOINT, DISTORTION, budget=1.2 * floor, limits=limits))
    assert met.status == "optimal"
    assert evaluate(lk.RelativeEntropyPrivacy(), JOINT, met.mechanism).value <= eps + 1e-9
    assert cost_of(met.mechanism) <= 1.2 * floor + 1e-9


def test_alphabets_of_one_symbol():
    for name in ("sibson-2", "maximal-leakage", "max-information", "ldp"):
        one_private = jp.DistortionProblem(JOINT.sum(axis=0)[None], DISTORTION, leakage=MEASURES[name], budget=0.1)
        one_useful = jp.DistortionProblem(JOINT.sum(axis=1)[:, None], np.ones((1, N)), leakage=MEASURES[name], budget=2)
        one_released = jp.DistortionProblem(JOINT, DISTORTION[:, :1], leakage=MEASURES[name], budget=5)
        for problem in (one_private, one_useful, one_released):
            solution = jp.solve(problem)
            assert solution.status == "optimal", name
            assert solution.leakage == pytest.approx(0, abs=1e-12), name


@pytest.mark.parametrize("value", [math.nan, "much", [0.1, 0.2], True])
def test_a_leakage_budget_that_is_no_number(value):
    with pytest.raises(InputError, match="leakage_budget"):
        jp.DistortionProblem(JOINT, DISTORTION, leakage=lk.Lift(), leakage_budget=value)


@pytest.mark.parametrize("value", [math.nan, -1, -INF, "much", True])
def test_a_limit_that_is_no_number(value):
    with pytest.raises(InputError, match=r"limits\[1\]"):
        jp.DistortionProblem(JOINT, DISTORTION, budget=1, limits=[(lk.Lift(), 1), (lk.MaxLift(), value)])


@pytest.mark.parametrize("limits", [3, [lk.Lift()], [(lk.Lift(), 1, 2)], {"lift": 1}, [("lift", 1)], [(lk.Lift, 1)]])
def test_limits_that_are_no_pairs(limits):
    with pytest.raises(InputError, match="limits"):
        jp.DistortionProblem(JOINT, DISTORTION, budget=1, limits=limits)


@pytest.mark.parametrize("order", [0, -1, math.nan, -INF])
def test_orders_outside_their_range(order):
    for kind in (lk.Sibson, lk.Arimoto):
        with pytest.raises(InputError, match="order"):
            kind(order)


@pytest.mark.parametrize("neighbours", [np.ones((3, 4)), np.ones(4), np.full((4, 4), 2), np.full((4, 4), -1), "all"])
def test_neighbours_that_are_no_relation(neighbours):
    with pytest.raises(InputError, match="neighbours"):
        lk.LocalDifferentialPrivacy(neighbours)


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
    for form in ({"budget": BUDGET, "leakage": measure}, {"budget": BUDGET, "limits": [(measure, 1)]}):
        with pytest.raises(InputError, match="private symbols"):
            jp.solve(jp.DistortionProblem(JOINT, DISTORTION, **form))


def test_neighbours_without_pairs_limit_nothing():
    for relation in (np.zeros((N, N), dtype=bool), np.eye(N, dtype=bool)):
        measure = lk.LocalDifferentialPrivacy(relation)
        limited = jp.solve(jp.DistortionProblem(JOINT, DISTORTION, leakage=measure, leakage_budget=0.1))
        assert limited.status == "optimal"
        assert limited.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["sibson-2", "arimoto-0.3", "maximal-leakage", "min-entropy", "gain", *WORST])
def test_a_multiplier_needs_an_average_that_is_no_logarithm(name):
    with pytest.raises(InputError, match="multiplier"):
        jp.solve(jp.DistortionProblem(JOINT, DISTORTION, multiplier=1, leakage=MEASURES[name]))


@pytest.mark.parametrize("solver", ["mirror-descent", "blahut-arimoto", "accelerated", "two-grid", "gossip"])
def test_solvers_of_mutual_information_are_refused(solver):
    for form in ({"leakage": lk.Lift()}, {"limits": [(lk.Lift(), 1)]}):
        with pytest.raises(InputError, match="solver"):
            jp.solve(jp.DistortionProblem(JOINT, DISTORTION, budget=BUDGET, **form), solver)


def test_what_leakage_may_not_be():
    for wrong in ("lift", lk.Lift, 3):
        with pytest.raises(InputError, match="leakage"):
            jp.DistortionProblem(JOINT, DISTORTION, budget=1, leakage=wrong)


@pytest.mark.parametrize(
    "name",
    [
        "ldp",
        *thorough("max-information", "lift", "max-lift", "ldp-chain"),
    ],
)
def test_curve_of_a_worst_outcome_reaches_zero_and_says_what_is_out_of_reach(name, monkeypatch):
    """Points in closed form, points of the search and infeasible ones are of one shape."""
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")  # to the last bit those of the curve, whose points are compiled
    problem = jp.DistortionProblem(JOINT, DISTORTION, budget=BUDGET, leakage=WORST[name])
    curve = jp.frontier(problem, budgets=[BUDGET, 10.0, -1.0])
    assert list(curve.solutions.status) == ["optimal", "optimal", "infeasible"]
    single = jp.solve(problem)
    assert curve.solutions.value[0] == pytest.approx(single.value, abs=1e-9)
    np.testing.assert_array_equal(curve.solutions[0].scores, single.scores)
    assert curve.solutions.value[1] == curve.solutions.lower_bound[1] == 0.0
    assert jp.leakage.evaluate(WORST[name], JOINT, curve.solutions.mechanism[1]).value <= 1e-12


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
    problem = jp.DistortionProblem(joint, [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], leakage=measure, **form)
    found = jp.solve(problem)
    assert found.status == "optimal"
    assert jp.certify(problem, found).agrees
