"""Primal-dual hybrid gradient with Bregman steps: the optima of the interior point, bounds that hold, refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import PrimalDualHybridGradient, leakage as lk
from jaxpriv.program import program_of
from tests.cases import assert_one_optimum, assert_proved, distances, drawn_joint, further, thorough

JOINT = drawn_joint(0, 3, 5)
COSTS = distances(5)
# Tests of one problem run one program: with a start, and watched, for a run of few steps has one of its own else.
WATCHED = {"start": np.full((5, 5), 0.2), "progress": [].append}

# A measure of every rule set, average and worst outcome, in every form that it has.
PROBLEMS = {
    "entropic, budget": {"budget": 0.4, "leakage": lk.MutualInformation()},
    "entropic, multiplier": {"multiplier": 0.1, "leakage": lk.MutualInformation()},
    "power, budgets": {"budget": [0.4, 0.9], "leakage": lk.Sibson(2.0)},
    "f, leakage budget, idle limit": {
        "leakage_budget": 0.1,
        "leakage": lk.FInformation(lk.SquaredHellinger()),
        "limits": ((lk.Sibson(2.0), 1.0),),
    },
    "shares, budget": {"budget": 0.4, "leakage": lk.MaximalLeakage()},
    "box, budget": {"budget": 0.4, "leakage": lk.FInformation(lk.TotalVariation())},
    "cone, leakage budget": {"leakage_budget": 0.3, "leakage": lk.MaxLift()},
    "balanced, leakage budget": {"leakage_budget": 0.5, "leakage": lk.LocalDifferentialPrivacy()},
    "worst entropic, leakage budget": {"leakage_budget": 0.2, "leakage": lk.MaxInformation()},
    "least worst outcome": {"budget": 0.4, "leakage": lk.MaxLift()},
    "joints, budget": {"budget": 0.9, "leakage": lk.FInformation(lk.TotalVariation())},
    "smooth joints, budget": {"budget": 0.9, "leakage": lk.Sibson(2.0)},
    "own loss of joints, leakage budget": {
        "leakage_budget": 0.1,
        "leakage": lk.AverageCostGain(lk.CustomLoss(lambda q: -jnp.log(q), proper=True)),
    },
    "average within a worst-outcome limit": {
        "budget": 0.9,
        "leakage": lk.MutualInformation(),
        "limits": ((lk.MaxLift(), 0.4),),
    },
    "average within a balanced limit": {
        "budget": 0.9,
        "leakage": lk.MutualInformation(),
        "limits": ((lk.LocalDifferentialPrivacy(), 0.6),),
    },
}


def problem_of(name):
    own = PROBLEMS[name]
    tables = [COSTS, COSTS**2] if np.ndim(own.get("budget", 0.0)) else COSTS
    return jp.DistortionProblem([JOINT, JOINT[::-1]] if "joints" in name else JOINT, tables, **own)


# Further cases of these sets: other tests of this file compare the optima of Sibson's information, total variation and
# the largest lift, and the average within a limit is that of mutual information.
ALWAYS = (
    "f, leakage budget, idle limit", "shares, budget", "balanced, leakage budget", "least worst outcome",
    "joints, budget", "average within a balanced limit", "own loss of joints, leakage budget",
)  # fmt: skip


@pytest.mark.parametrize("name", further(PROBLEMS, ALWAYS))
def test_every_set_and_form_comes_to_the_certified_optimum(name):
    problem = problem_of(name)
    tol = 1e-4 if name in ("least worst outcome", "joints, budget") else 1e-6
    # More than a thousand where the price of an idle limit falls too slowly.
    solution = jp.solve(
        problem, "hybrid-gradient", tol=tol, max_steps=200, **(WATCHED if name == "shares, budget" else {})
    )
    assert_proved(problem, solution, tol)
    other = jp.solve(problem, tol=1e-9)
    assert_one_optimum(solution, other, 1e-9)


@pytest.mark.parametrize(
    ("solver", "tol", "off", "steepness"),
    [
        ("hybrid-gradient", 1e-9, 3e-9, 1e-4),
        ("accelerated", 1e-8, 1e-8, 1e-3),
        *thorough(("mirror-descent", 1e-8, 1e-5, 1e-3)),
    ],
)
def test_inside_of_jit_vmap_and_grad_it_has_the_values_and_slopes_of_the_host(solver, tol, off, steepness):
    def value(budget, solver=solver, tol=tol):
        problem = jp.DistortionProblem(JOINT, COSTS, budget=budget, leakage=lk.Sibson(2.0))
        return jp.solve(problem, solver, tol=tol).value

    budgets = np.array([0.2, 0.4, 0.7])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(budgets)
    for budget, found, slope in zip(budgets, values, slopes, strict=True):
        lower, here, upper = (value(budget + way, "auto", 1e-10) for way in (-1e-3, 0.0, 1e-3))
        assert found == pytest.approx(here, abs=off)
        assert slope == pytest.approx((upper - lower) / 2e-3, rel=steepness)


def test_it_begins_with_the_mechanism_of_the_caller():
    problem = problem_of("shares, budget")
    near = jp.solve(problem, tol=1e-8)
    far, warm = (
        jp.solve(problem, "hybrid-gradient", max_steps=1, **WATCHED | each) for each in ({}, {"start": near.mechanism})
    )
    assert warm.value <= near.value + 1e-9 < far.value


def test_an_interrupted_run_has_an_interval_that_holds():
    problem = problem_of("shares, budget")
    early = jp.solve(problem, "hybrid-gradient", max_steps=2, **WATCHED)
    optimum = jp.solve(problem)
    assert early.status != "optimal"
    assert_one_optimum(early, optimum)


@pytest.mark.thorough
def test_steps_that_are_all_refused_change_nothing():
    """The average over no step is the point itself, and no mechanism without mass."""
    problem = problem_of("entropic, multiplier")
    program = program_of(problem)
    program = dataclasses.replace(program, feasible_point=np.full(COSTS.shape, 0.2))
    solver = PrimalDualHybridGradient(inner=1)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        program = jax.tree.map(jnp.asarray, program)
        state = solver.init(program, jnp.array(0), solver.blank(program))
        state = jax.jit(solver.step)(program, dataclasses.replace(state, eta=jnp.asarray(1e4)))
    assert state.cycle.sums.lengths == 0
    assert_allclose(state.best.mechanism.sum(axis=1), 1.0)
    assert_allclose(state.cycle.primal.x, 0.2)
    assert state.best.value >= jp.solve(problem).lower_bound


def test_rare_symbols_do_not_hold_it_up():
    """Private symbols of masses 1e-4 to .9, useful ones of 3e-6 to .5: steps of rare ones are as long as of others."""
    joint = np.array(
        [
            [7e-6, 1e-4, 1e-9, 1e-9, 6e-7],
            [0.392, 1e-9, 1.1e-3, 2.5e-6, 0.542],
            [5.3e-4, 8.9e-3, 0.0556, 1.8e-7, 5.8e-7],
        ]
    )
    measure = lk.FInformation(lk.TotalVariation())
    problem = jp.DistortionProblem(joint / joint.sum(), COSTS, budget=0.25, leakage=measure)
    found = jp.solve(problem, solver="hybrid-gradient", tol=1e-7, rtol=1e-4, max_steps=100)
    assert found.gap <= 1e-7
    assert_one_optimum(found, jp.solve(problem, solver="interior-point", tol=1e-9))
