"""Proximal augmented Lagrangian method: optima of linear programs and smooth averages to many digits, in traces too."""

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from tests.cases import assert_certified, assert_one_optimum, assert_proved, distances, drawn_joint, refused

JOINT, COSTS = drawn_joint(3, 3, 5), distances(5)
VARIATION = lk.FInformation(lk.TotalVariation())
# Tests of one problem run one program: with a start, and watched, for a run of few steps has one of its own else.
WATCHED = {"solver": "augmented-lagrangian", "start": np.full((5, 5), 0.2), "progress": [].append}


def stated(measure, joint=JOINT, costs=COSTS, **form):
    return jp.DistortionProblem(joint, costs, leakage=measure, **form)


def proved(problem, tol=1e-8):
    solution = jp.solve(problem, "augmented-lagrangian", tol=tol)
    assert_proved(problem, solution, tol)
    assert_one_optimum(solution, jp.solve(problem, "linear-program", tol=1e-9), 1e-10)
    return solution


@pytest.mark.parametrize(
    "form",
    [
        {"multiplier": 0.2},
        {"budget": 0.6, "limits": ((lk.MaximalLeakage(), 0.3), (lk.MaxLift(), 0.5))},
    ],
    ids=["multiplier", "further limits"],
)
def test_every_form_comes_to_the_certified_optimum(form):
    proved(stated(VARIATION, **form))


def test_the_least_worst_outcome():
    proved(stated(lk.MaxLift(), budget=0.4), 1e-5)


def test_costs_of_any_size_and_rare_symbols():
    """The optimum is scaled with the costs, and symbols of masses of 1e-9 and 0 change it by no more than they can."""
    plain = proved(stated(lk.MaximalLeakage(), leakage_budget=0.2))
    scaled = proved(stated(lk.MaximalLeakage(), costs=1e6 * COSTS, leakage_budget=0.2), 1e-2)
    assert scaled.value == pytest.approx(1e6 * plain.value, abs=0.02)
    rare = np.column_stack([JOINT[:, :4], 1e-9 * JOINT[:, 4], 0.0 * JOINT[:, 4]])
    proved(stated(lk.MaxLift(), rare / rare.sum(), distances(6), leakage_budget=0.2))


def test_inside_of_jit_vmap_and_grad_it_has_the_values_and_slopes_of_the_host():
    def value(limit, solver="augmented-lagrangian"):
        return jp.solve(stated(lk.MaxLift(), leakage_budget=limit), solver, tol=1e-9).value

    limits = np.array([0.1, 0.3, 0.7])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(limits)
    for limit, found, slope in zip(limits, values, slopes, strict=True):
        lower, here, upper = (value(limit + way, "linear-program") for way in (-1e-4, 0.0, 1e-4))
        assert found == pytest.approx(here, abs=1e-8)
        assert slope == pytest.approx((upper - lower) / 2e-4, rel=1e-4)


def test_more_digits_than_there_are_end_by_themselves_and_hold():
    problem = stated(VARIATION, budget=0.3)
    solution = jp.solve(problem, tol=1e-300, max_steps=100_000, **WATCHED)
    assert solution.steps < 1500
    assert assert_certified(problem, solution).gap < 1e-12
    assert_one_optimum(solution, jp.solve(problem, "linear-program"), 1e-12)


def test_an_interrupted_run_has_an_interval_that_holds():
    problem = stated(VARIATION, budget=0.3)
    early = jp.solve(problem, max_steps=5, **WATCHED)
    assert early.status != "optimal"
    assert_one_optimum(early, jp.solve(problem, "linear-program"), 1e-12)


def test_it_begins_with_the_mechanism_of_the_caller():
    problem = stated(VARIATION, budget=0.3)
    near = jp.solve(problem, tol=1e-9)
    far, warm = (jp.solve(problem, max_steps=1, **WATCHED | each) for each in ({}, {"start": near.mechanism}))
    assert warm.value <= near.value + 1e-9 < far.value


SMOOTH = {
    "information, multiplier": (lk.MutualInformation(), {"multiplier": 0.3}),
    "Sibson 1/2": (lk.Sibson(0.5), {"budget": 0.3}),
    "chi-squared": (lk.FInformation(lk.ChiSquared()), {"budget": 0.3}),
    "Brier": (lk.AverageCostGain(lk.BrierLoss()), {"budget": 0.3}),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_averages_come_to_the_optimum_of_the_interior_point(name):
    """On random joints, one with a symbol of S and one of X that are rare."""
    measure, form = SMOOTH[name]
    rare = drawn_joint(5, 3, 5) * np.array([[1.0], [1.0], [1e-6]]) * np.array([1.0, 1.0, 1.0, 1.0, 1e-7])
    for joint in (JOINT, drawn_joint(4, 3, 5), rare / rare.sum()):
        problem = stated(measure, joint, **form)
        solution = jp.solve(problem, "augmented-lagrangian", tol=1e-8)
        assert_proved(problem, solution, 1e-8)
        assert_one_optimum(solution, jp.solve(problem, "interior-point", tol=1e-8), 1e-10)


def test_budgets_that_bind_and_do_not_and_pairs_that_are_forbidden():
    costs = np.where(np.arange(5) == 4 - np.arange(5)[:, None], np.inf, COSTS)
    problem = stated(lk.MutualInformation(), costs=[costs, COSTS**2], budget=[0.3, 5.0])
    solution = jp.solve(problem, "augmented-lagrangian", tol=1e-8)
    assert_proved(problem, solution, 1e-8)
    assert_one_optimum(solution, jp.solve(problem, "interior-point", tol=1e-8), 1e-10)
    assert (np.asarray(solution.mechanism)[~np.isfinite(costs)] == 0).all()


def test_of_smooth_averages_too_traces_have_the_values_and_slopes_of_the_host():
    def value(budget, solver="augmented-lagrangian"):
        return jp.solve(stated(lk.Sibson(2.0), budget=budget), solver, tol=1e-9).value

    budgets = np.array([0.2, 0.4])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(budgets)
    for budget, found, slope in zip(budgets, values, slopes, strict=True):
        lower, here, upper = (value(budget + way, "interior-point") for way in (-1e-4, 0.0, 1e-4))
        assert found == pytest.approx(here, abs=1e-8)
        assert slope == pytest.approx((upper - lower) / 2e-4, rel=1e-4)


def test_what_it_does_not_take_is_refused_with_what_does():
    for form in ({"leakage_budget": 0.1}, {"budget": 0.3, "limits": ((lk.MaxLift(), 0.5),)}):
        with refused("smooth averages of one joint with budgets or multipliers, only.*'interior-point'"):
            jp.solve(stated(lk.Sibson(2.0), **form), "augmented-lagrangian")
    with refused("linear programs only.*'interior-point'"):
        jp.solve(stated(lk.Sibson(2.0), budget=0.3), "linear-program")
    with refused("outside of jit"):
        jax.jit(lambda budget: jp.solve(stated(lk.MaxLift(), budget=budget), "augmented-lagrangian").value)(0.3)


def test_of_smooth_averages_the_first_steps_are_those_of_the_hybrid_gradient_and_can_be_counted():
    """A limit on steps, as on time, ends it before the first centre: six looks of the hybrid gradient at least."""
    problem = stated(lk.MutualInformation(), budget=0.5)
    for steps in (1, 3):
        ours, theirs = (
            jp.solve(problem, solver, tol=1e-12, max_steps=steps, throw=False)
            for solver in ("augmented-lagrangian", "hybrid-gradient")
        )
        assert ours.steps == theirs.steps == steps
        assert (ours.value, ours.lower_bound) == pytest.approx((theirs.value, theirs.lower_bound), rel=1e-12)
