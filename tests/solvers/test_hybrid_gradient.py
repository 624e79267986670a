"""Primal-dual hybrid gradient with Bregman steps: the optima of the interior point, bounds that hold, refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.program.certify import certify_program
from jaxpriv.program.lower import limits_of, measured_program
from jaxpriv.solvers import PrimalDualHybridGradient
from jaxpriv.solvers.hybrid_gradient import _balanced_prices
from tests.cases import further

JOINT = np.random.default_rng(0).dirichlet(np.ones(15)).reshape(3, 5)
COSTS = abs(np.arange(5.0)[:, None] - np.arange(5.0))

# A measure of every rule set, average and worst outcome, in every form that it has.
PROBLEMS = {
    "entropic, budget": {"budget": 0.4, "leakage": lk.MutualInformation()},
    "entropic, multiplier": {"multiplier": 0.1, "leakage": lk.MutualInformation()},
    "power, budgets": {"budget": [0.4, 0.9], "leakage": lk.Sibson(2.0)},
    "f, leakage budget": {"leakage_budget": 0.1, "leakage": lk.FInformation(lk.SquaredHellinger())},
    "shares, budget": {"budget": 0.4, "leakage": lk.MaximalLeakage()},
    "box, budget": {"budget": 0.4, "leakage": lk.FInformation(lk.TotalVariation())},
    "cone, leakage budget": {"leakage_budget": 0.3, "leakage": lk.MaxLift()},
    "balanced, leakage budget": {"leakage_budget": 0.5, "leakage": lk.LocalDifferentialPrivacy()},
    "worst entropic, leakage budget": {"leakage_budget": 0.2, "leakage": lk.MaxInformation()},
    "average within a worst-outcome limit": {
        "budget": 0.9,
        "leakage": lk.MutualInformation(),
        "limits": ((lk.MaxLift(), 0.4),),
    },
}


def problem_of(name):
    own = PROBLEMS[name]
    tables = [COSTS, COSTS**2] if np.ndim(own.get("budget", 0.0)) else COSTS
    return jp.DistortionProblem(JOINT, tables, **own)


# Further cases of these sets: other tests of this file compare the optima of Sibson's information, total variation and
# the largest lift, and the average within a limit is that of mutual information.
ALWAYS = ("f, leakage budget", "shares, budget", "balanced, leakage budget", "average within a worst-outcome limit")


@pytest.mark.parametrize("name", further(PROBLEMS, ALWAYS))
def test_every_set_and_form_comes_to_the_certified_optimum(name):
    problem = problem_of(name)
    solution = jp.solve(problem, "hybrid-gradient")
    assert solution.status == "optimal"
    assert solution.gap <= 1e-6
    other = jp.solve(problem, tol=1e-9)
    assert solution.lower_bound <= other.value + 1e-9
    assert other.lower_bound <= solution.value + 1e-9


def test_inside_of_jit_vmap_and_grad_it_has_the_values_and_slopes_of_the_host():
    def value(budget):
        problem = jp.DistortionProblem(JOINT, COSTS, budget=budget, leakage=lk.Sibson(2.0))
        return jp.solve(problem, "hybrid-gradient", tol=1e-9).value

    budgets = np.array([0.2, 0.4, 0.7])
    with jax.enable_x64(True):
        values, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(budgets)
    for budget, found, slope in zip(budgets, values, slopes, strict=True):
        lower, here, upper = (
            jp.solve(jp.DistortionProblem(JOINT, COSTS, budget=b, leakage=lk.Sibson(2.0)), tol=1e-10).value
            for b in (budget - 1e-3, budget, budget + 1e-3)
        )
        assert found == pytest.approx(here, abs=3e-9)
        assert slope == pytest.approx((upper - lower) / 2e-3, rel=1e-4)


def test_rules_of_any_size_prove_no_false_bound():
    """Whatever coordinates the adversary has, the certificate's bound is below the optimum."""
    problem = problem_of("power, budgets")
    program = measured_program(problem, limits_of(problem))
    uniform = np.full(COSTS.shape, 0.2)
    program = dataclasses.replace(program, feasible_point=uniform)
    best = jp.solve(problem, tol=1e-9)
    rows = sum(len(term.rows) for term in program.terms)
    optimum = certify_program(program, np.asarray(best.mechanism), np.zeros((5, rows)), np.zeros((5, 0)), np.zeros(2))
    rng = np.random.default_rng(1)
    for scale in (1e-30, 1e-3, 1.0, 1e3, 1e200, np.inf, np.nan):
        k = scale * rng.normal(size=(5, rows))
        proof = certify_program(program, uniform, k, np.zeros((5, 0)), abs(scale * rng.normal(size=2)))
        assert proof.lower_bound <= optimum.value


def test_it_begins_with_the_mechanism_of_the_caller():
    problem = problem_of("shares, budget")
    near = jp.solve(problem, tol=1e-8)
    cold, warm = (jp.solve(problem, "hybrid-gradient", max_steps=1, start=start) for start in (None, near))
    assert warm.value <= near.value + 1e-9 < cold.value


def test_an_interrupted_run_has_an_interval_that_holds():
    problem = problem_of("shares, budget")
    early = jp.solve(problem, "hybrid-gradient", max_steps=2)
    optimum = jp.solve(problem)
    assert early.status != "optimal"
    assert early.lower_bound <= optimum.value
    assert early.value >= optimum.lower_bound


def test_prices_of_a_balanced_limit_are_the_nearest_ones():
    """The conditions of optimality of the projection onto { k >= 0, reference . k = 0 }."""
    rng = np.random.default_rng(2)
    reference = np.array([1.0, 0.5, -2.0, -0.3])
    points = rng.normal(size=(20, 4)) * 3.0
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        near = np.asarray(_balanced_prices(jnp.asarray(reference), jnp.asarray(points)))
    assert (near >= 0).all()
    np.testing.assert_allclose(near @ reference, 0.0, atol=1e-9)
    price = ((points - near) / reference)[np.arange(20), near.argmax(axis=1)]
    rest = points - near - price[:, None] * reference  # 0 where k > 0, at most 0 where k = 0
    some = near.max(axis=1) > 1e-9
    assert some.any()
    np.testing.assert_allclose(rest[some][near[some] > 1e-9], 0.0, atol=1e-8)
    assert rest[some].max() <= 1e-8


def test_what_it_does_not_take_is_refused_with_what_does():
    loss = lk.AverageCostGain(lk.CustomLoss(lambda q: -jnp.log(q), proper=True))
    joints = [JOINT, JOINT[::-1]]
    cases = {
        "no loss of one's own": jp.DistortionProblem(JOINT, COSTS, budget=0.4, leakage=loss),
        "one joint": jp.DistortionProblem(joints, COSTS, budget=0.4, leakage=lk.Sibson(2.0)),
    }
    for words, problem in cases.items():
        with pytest.raises(jp.InputError, match=f"{words}.*'interior-point'"):
            jp.solve(problem, "hybrid-gradient")


@pytest.mark.thorough
def test_steps_that_are_all_refused_change_nothing():
    """The average over no step is the point itself, and no mechanism without mass."""
    problem = problem_of("entropic, multiplier")
    program = measured_program(problem, limits_of(problem))
    program = dataclasses.replace(program, feasible_point=np.full(COSTS.shape, 0.2))
    solver = PrimalDualHybridGradient(inner=1)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        program = jax.tree.map(jnp.asarray, program)
        state = solver.init(program, jnp.array(0), solver.blank(program))
        state = jax.jit(solver.step)(program, dataclasses.replace(state, eta=jnp.asarray(1e4)))
    assert state.sum_lengths == 0
    np.testing.assert_allclose(state.best.mechanism.sum(axis=1), 1.0)
    np.testing.assert_allclose(state.primal.x, 0.2)
    assert state.best.value >= jp.solve(problem).lower_bound


@pytest.mark.parametrize("inner", [0, -1, True])
def test_steps_without_iterations_are_refused(inner):
    with pytest.raises(jp.InputError, match="inner"):
        PrimalDualHybridGradient(inner=inner)


def test_sets_of_joints_of_linear_measures_are_taken():
    problem = jp.DistortionProblem(
        [JOINT, JOINT[::-1]], COSTS, budget=0.9, leakage=lk.FInformation(lk.TotalVariation())
    )
    solution, other = jp.solve(problem, "hybrid-gradient", tol=1e-4), jp.solve(problem)
    assert solution.status == "optimal"
    assert abs(solution.value - other.value) <= 1.01e-4


def test_the_least_worst_outcome_is_found_by_distances():
    problem = jp.DistortionProblem(JOINT, COSTS, budget=0.4, leakage=lk.MaxLift())
    solution, other = jp.solve(problem, "hybrid-gradient", tol=1e-4), jp.solve(problem)
    assert solution.status == "optimal"
    assert abs(solution.value - other.value) <= 1.01e-4
