"""`start=`: a mechanism of the caller's to begin with changes the steps, not the optimum and not what is proved."""

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from tests.cases import distances, drawn_joint, refused

RNG = np.random.default_rng(8)
JOINT = drawn_joint(RNG, 6, 6)
TABLE = distances(6)
STRANGE = {
    "random": RNG.dirichlet(np.ones(6), 6),
    "beyond the budget": np.roll(np.eye(6), 3, axis=0),
    "of one output": np.eye(6)[[2] * 6],
}
SIBSON = {"leakage": lk.Sibson(2.0), "budget": 0.4}
CASES = [
    ("interior-point", {"budget": 0.4}, 1e-6),
    ("interior-point", {"multiplier": 0.3}, 1e-6),
    ("interior-point", SIBSON, 1e-6),
    ("mirror-descent", {"budget": 0.4}, 1e-4),
    pytest.param(
        *("hybrid-gradient", {"leakage_budget": 0.4, "leakage": lk.MaximalLeakage()}, 1e-4),
        marks=pytest.mark.thorough,  # its first step from a start: solvers/test_hybrid_gradient.py
    ),
]


def problem(form):
    return jp.DistortionProblem(JOINT, TABLE, **form)


def assert_as_good(asked, start):
    """With the start the value is that without it, and is proved."""
    without, found = jp.solve(asked), jp.solve(asked, start=start)
    assert found.status == without.status
    assert abs(found.value - without.value) <= 2e-6
    return found


@pytest.mark.parametrize(("solver", "form", "tol"), CASES)
def test_the_optimum_as_a_start_takes_fewer_steps_to_the_same_value(solver, form, tol):
    without = jp.solve(problem(form), solver, tol=tol)
    within = jp.solve(problem(form), solver, tol=tol, start=jp.solve(problem(form)))
    assert within.status == without.status == "optimal"
    assert int(within.steps) < int(without.steps)
    assert abs(within.value - without.value) <= 2 * tol
    assert within.verify(problem(form)).valid


@pytest.mark.parametrize("start", STRANGE)
@pytest.mark.parametrize("form", [{"budget": 0.4}, {"leakage_budget": 0.2}, SIBSON], ids=str)
def test_whatever_the_start_the_optimum_is_certified(start, form):
    assert assert_as_good(problem(form), STRANGE[start]).status == "optimal"


def test_a_worst_outcome_limit_begins_with_it():
    asked = problem({"leakage_budget": 0.5, "leakage": lk.MaxInformation()})
    assert assert_as_good(asked, STRANGE["random"]).status == "optimal"


def test_symbols_without_mass_and_equal_ones_are_left_out_of_it():
    joint = np.concatenate([JOINT[:, :3], JOINT[:, 2:5], np.zeros((6, 1))], axis=1)
    joint /= joint.sum()
    costs = np.concatenate([TABLE[:3], TABLE[2:5], TABLE[:1]])
    asked = jp.DistortionProblem(joint, costs, budget=0.4)
    assert assert_as_good(asked, jp.solve(asked)).mechanism.shape == (7, 6)


def test_a_face_of_budgets_without_slack_takes_it():
    asked = jp.DistortionProblem(JOINT, np.round(TABLE / 2), budget=0.0)
    assert_as_good(asked, np.full((6, 6), 1 / 6))


def test_inside_of_jit_and_vmap():
    budgets = np.array([0.3, 0.4, 0.5])
    alone = [jp.solve(problem({"budget": one})) for one in budgets]

    def one(budget, start):
        solved = lambda b: jp.solve(problem({"budget": b}), start=start)  # noqa: E731
        found, moved = jax.jvp(solved, (budget,), (1.0,))
        return found, moved.value

    batch = jax.jit(jax.vmap(one))
    near, slopes = batch(budgets, np.stack([np.asarray(one.mechanism) for one in alone]))
    far, _ = batch(budgets, np.stack([STRANGE["random"]] * 3))
    assert (np.asarray(near.gap) <= 1e-6).all()
    assert (np.asarray(far.gap) <= 1e-6).all()
    assert (near.steps < far.steps).all()
    np.testing.assert_allclose(slopes, [-one.multipliers[0] for one in alone], rtol=1e-3)


def test_every_problem_of_a_batch_has_its_own():
    asked = [problem({"budget": one}) for one in (0.3, 0.4, 0.5)]
    without = jp.solve_many(asked)
    found = jp.solve_many(asked, start=[without[0], None, without[2].mechanism])
    for one, other in zip(found, without, strict=True):
        assert abs(one.value - other.value) <= 2e-6
    with refused("start has 1 entries for 3 problems"):
        jp.solve_many(asked, start=[None])
    with refused(r"problems\[1\]: start"):
        jp.solve_many(asked, start=[None, np.eye(5), None])


FUNNELS = [
    ("column-generation", jp.FunnelProblem(JOINT, disclosure=0.8)),
    ("column-generation", jp.BottleneckProblem(JOINT[:2] / JOINT[:2].sum(), disclosure=0.5)),
    ("vertex-generation", jp.FunnelProblem(JOINT, disclosure=0.8, leakage=lk.by_name("correct-guess"))),
    ("difference-of-convex", jp.FunnelProblem(JOINT, disclosure=0.8)),
    ("alternating", jp.FunnelProblem(JOINT, disclosure=0.8)),
]


@pytest.mark.parametrize(("solver", "asked"), FUNNELS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(FUNNELS)])
def test_a_funnel_begins_with_it(solver, asked):
    best = jp.solve(asked)
    without = jp.solve(asked, solver, max_steps=300)
    found = jp.solve(asked, solver, max_steps=300, start=best)
    assert found.steps <= without.steps
    sign = 1.0 if isinstance(asked, jp.FunnelProblem) else -1.0
    assert sign * (found.value - best.value) <= 1e-5
    assert max(found.lower_bound, best.lower_bound) <= min(found.upper_bound, best.upper_bound)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.eye(5), r"start has 5 rows \(axis x\), but the joint has 6 useful symbols"),
        (np.full((6, 5), 0.2), r"start has 5 columns \(axis y\), but the problem has 6 released symbols"),
        (np.full((6, 6), 0.2), r"start: row 0 sums to 1.2; rows \(axis x\) must sum to 1"),
        (np.eye(6) - 0.1, r"start\[0, 1\] is negative"),
        (np.full((6, 6), np.nan), r"start\[0, 0\] is NaN"),
        ("eye", "start"),
    ],
)
def test_what_is_no_mechanism_is_refused(start, message):
    with refused(message):
        jp.solve(problem({"budget": 0.4}), start=start)


@pytest.mark.parametrize("solver", ["accelerated", "two-grid"])
def test_a_method_without_a_start_is_named(solver):
    with refused(f"start: {solver} has none"):
        jp.solve(problem({"budget": 0.4}), solver, start=np.eye(6))


def test_problems_without_a_start_are_named():
    for asked, solver, text in [
        (problem({"budget": 0.4, "leakage": lk.MaxLift()}), "auto", "interior-point has none for .*; leave it out"),
        (problem({"leakage_budget": 0.4, "leakage": lk.MaximalLeakage()}), "linear-program", "linear-program"),
        (jp.FunnelProblem(JOINT, disclosure=0.8), "greedy", "greedy has none"),
        (jp.NoiseProblem(JOINT, 1.0 - np.eye(6)[0], budget=0.4), "auto", "additive noise has none"),
    ]:
        with refused(f"start: {text}"):
            jp.solve(asked, solver, start=np.eye(6))
