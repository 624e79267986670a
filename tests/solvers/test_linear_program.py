"""Linear programs: the simplex method, the interior-point and the first-order method prove one optimum."""

import functools

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_one_optimum, assert_proved, distances, drawn_joint, further

LAW, OTHER = (drawn_joint(seed, n, 6) for seed, n in ((0, 4), (1, 3)))
COSTS, WIDE = (abs(np.subtract.outer(np.linspace(0.0, 1.0, 6), np.linspace(0.0, 1.0, n))) for n in (6, 9))
VARIATION = lk.FInformation(lk.TotalVariation())


def stated(measure, joint=LAW, costs=COSTS, **form):
    return jp.DistortionProblem(joint, costs, leakage=measure, **form)


# The joints of the last one have one P(x), as a set of joints has.
PROBLEMS = {
    "max-lift": stated(lk.MaxLift(), leakage_budget=0.3),
    "more outputs": stated(lk.MaxLift(), costs=WIDE, leakage_budget=0.3),
    "lift": stated(lk.Lift(), leakage_budget=0.3),
    "local privacy": stated(lk.LocalDifferentialPrivacy(), leakage_budget=0.5),
    "maximal leakage": stated(lk.MaximalLeakage(), budget=0.1),
    "limit on maximal leakage": stated(lk.MaximalLeakage(), leakage_budget=np.log(1.3)),
    "guessing": stated(lk.CorrectGuess(), budget=0.1),
    "total variation": stated(VARIATION, budget=0.1),
    "limit on total variation": stated(VARIATION, leakage_budget=0.05),
    "forbidden pairs": stated(lk.MaxLift(), costs=np.where(COSTS > 0.61, np.inf, COSTS), leakage_budget=2.0),
    "two joints": stated(
        lk.MaximalLeakage(),
        np.stack([np.pad(OTHER * (LAW.sum(axis=0) / OTHER.sum(axis=0)), ((0, 1), (0, 0))), LAW]),
        budget=0.1,
    ),
}
# Each is compiled for seconds. The sets and forms of the others are those of these, of randomised response below or of
# test_hybrid_gradient.py.
ALWAYS = ("limit on total variation", "two joints")


@functools.cache
def vertex(name):
    found = jp.solve(PROBLEMS[name], "linear-program", tol=1e-9)
    assert_proved(PROBLEMS[name], found, 1e-9)
    return found


def assert_brackets_the_vertex(name, solver):
    found = jp.solve(PROBLEMS[name], solver, tol=1e-8)
    assert_proved(PROBLEMS[name], found, 1e-8)
    assert_one_optimum(found, vertex(name), 1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_interior_point_method_brackets_the_vertex(name):
    assert_brackets_the_vertex(name, "interior-point")


@pytest.mark.parametrize("name", further(PROBLEMS, ALWAYS))
def test_the_first_order_method_brackets_the_vertex(name):
    assert_brackets_the_vertex(name, "hybrid-gradient")


@pytest.mark.parametrize("name", further(PROBLEMS, (*ALWAYS, "maximal leakage", "forbidden pairs")))
def test_the_augmented_lagrangian_brackets_the_vertex(name):
    assert_brackets_the_vertex(name, "augmented-lagrangian")


@pytest.mark.parametrize(("n", "ceiling"), [(3, 1.0), (3, 1.5), (5, 2.5), (5, 4.5), (8, 1.0), (8, 3.25), (8, 7.5)])
def test_maximal_leakage_against_hamming_distortion(n, ceiling):
    """S = X: with p sorted and G = e^L, 1 - sum_{i <= floor G} p_i - (G - floor G) p_{floor G + 1}."""
    p = np.sort(np.random.default_rng(n).dirichlet(np.ones(n)))[::-1]
    whole = int(ceiling)
    known = 1.0 - p[:whole].sum() - (ceiling - whole) * p[whole]
    problem = stated(lk.MaximalLeakage(), np.diag(p), 1.0 - np.eye(n), leakage_budget=np.log(ceiling))
    found = jp.solve(problem, "linear-program", tol=1e-9)
    assert found.value == pytest.approx(known, abs=1e-9)
    assert found.lower_bound == pytest.approx(known, abs=1e-9)


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_local_privacy_of_a_uniform_symbol_is_randomised_response(eps):
    n = 5
    problem = stated(lk.LocalDifferentialPrivacy(), np.eye(n) / n, 1.0 - np.eye(n), leakage_budget=eps)
    known = (n - 1) / (np.exp(eps) + n - 1)
    for solver, tol in (("linear-program", 1e-9), ("hybrid-gradient", 1e-8)):
        found = jp.solve(problem, solver, tol=tol)
        assert found.value == pytest.approx(known, abs=tol)
        assert found.lower_bound == pytest.approx(known, abs=tol)


def test_inside_of_jit_the_first_order_method_brackets_the_vertex():
    def solved(limit, solver="hybrid-gradient"):
        return jp.solve(stated(lk.MaximalLeakage(), leakage_budget=limit), solver, tol=1e-8)

    run = jax.jit(solved)
    for limit in (0.1, 0.3, 1.0):
        found = run(limit)
        assert found.status == "optimal"
        assert_one_optimum(found, solved(limit, "linear-program"), 1e-12)


PLACES = distances(20) / 20
# Most steps of six joints together: 86, 64 and 93 with lengths of their own for mechanism and prices, 93, 75 and 102
# with one for both.
MOST = {"maximal leakage": 89, "guessing": 69, "total variation": 97}


@pytest.mark.parametrize("name", MOST)
def test_few_steps_to_the_value_of_the_simplex_method(name, monkeypatch):
    monkeypatch.setenv("JAXPRIV_COMPILE", "never")
    steps = 0
    for seed in range(6):
        problem = stated(PROBLEMS[name].leakage, random_joint(seed, 20, 20), PLACES, budget=0.1)
        found, exact = (jp.solve(problem, solver=solver) for solver in ("interior-point", "linear-program"))
        assert found.status == exact.status == "optimal"
        assert_one_optimum(found, exact, 1e-12)
        steps += int(found.steps)
    assert steps <= MOST[name], steps


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_symbol_that_is_not_iterated_on_may_use_more_than_the_budget(seed):
    joint = drawn_joint(seed, 3, 5) * [1.0, 1e-5, 1e-13, 1.0, 1.0]
    problem = stated(lk.MaximalLeakage(), joint / joint.sum(), distances(5), budget=1e-9)
    found = jp.solve(problem, "linear-program", tol=1e-10)
    assert_proved(problem, found, 1e-10)
    assert found.value < float(lk.evaluate(lk.MaximalLeakage(), problem.joints[0], np.eye(5)).value) - 1e-10


@pytest.mark.parametrize("seed", [5, 7])
def test_a_vertex_meets_budgets_without_slack_beside_a_limit(seed):
    """The shares of Z are those of q exactly, and no mixture repairs what HiGHS misses of them: the feasible point, of
    leakages of .303 and .368 where .166 and .002 are optimal, stood for the mechanism.
    """
    joint, costs = drawn_joint(seed, 3, 4), distances(4)
    mechanism = 0.6 * np.eye(4) + 0.1
    budget, lift = (joint.sum(axis=0)[:, None] * costs * mechanism).sum(), lk.MaxLift()
    near = {"within": 0.1, "cost": costs, "leakage": lk.MaximalLeakage()}
    limits = [(lift, 1.02 * float(lift(joint, mechanism)) + 0.01)]
    problem = jp.with_marginal(joint, costs, joint.sum(axis=0) @ mechanism, budget=budget, limits=limits, **near)
    solution, inside = jp.solve(problem, "linear-program"), jp.solve(problem, "interior-point")
    assert solution.status == "optimal"
    assert inside.lower_bound <= solution.value <= inside.value + 1e-9
