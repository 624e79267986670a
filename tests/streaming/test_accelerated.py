"""The accelerated method: certified, the same optimum as the interior point, honest where it stops early."""

import itertools
from typing import ClassVar

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.data.channel import AbstractChannel
from tests.cases import assert_one_optimum, raised, thorough

from .conftest import DISTORTIONS, line, smooth_joint, smooth_problem

FORMS = [{"budget": 0.04}, {"budget": 0.15}, {"multiplier": 0.4}, {"multiplier": 4.0}]


def agree(problem, solution, tol):
    """Both intervals hold the optimum; the mechanism meets the budgets and is a mechanism."""
    exact = jp.solve(problem, "interior-point", tol=1e-8)
    assert_one_optimum(solution, exact)
    assert solution.gap <= tol
    table = solution.mechanism
    table = table if isinstance(table, np.ndarray) else table.matrix()
    assert table.dtype == np.float64
    assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
    if problem.budget is not None:
        used = [problem.joints[0].sum(axis=0) @ (table * d).sum(axis=1) for d in problem.tables()]
        assert (used <= problem.budget * (1 + 1e-9)).all()
        assert_allclose(used, solution.distortion, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (kind, form) if kind == "absolute" else pytest.param(kind, form, marks=pytest.mark.thorough)
        for kind in DISTORTIONS
        for form in FORMS
    ],
    ids=str,
)
def test_it_finds_the_certified_optimum(kind, form):
    joint = smooth_joint(40, 4)
    problem = jp.DistortionProblem(joint, DISTORTIONS[kind](40), **form)
    solution = jp.solve(problem, "accelerated", tol=1e-4)
    assert solution.status == "optimal"
    assert isinstance(solution.mechanism, AbstractChannel)
    agree(problem, solution, 1e-4)


@pytest.mark.parametrize(("kind", "most"), [("random", 340), *thorough(("bumps", 700), ("hamming", 380))])
def test_few_passes_give_many_digits(kind, most):
    """Without averages of late rules, and with a gain that every step lowers: 1,880, 2,108 and 2,583 passes."""

    class Counted(jp.AcceleratedMirrorDescent):
        passes: ClassVar[list[None]] = []

        def _pass(self, *args):
            jax.debug.callback(lambda: self.passes.append(None))
            return super()._pass(*args)

    rng, x = np.random.default_rng(0), line(16)
    if kind == "bumps":
        place, width, share = rng.uniform(0, 1, 4), rng.uniform(0.05, 0.2, 4), rng.dirichlet(np.ones(4))
        joint = share[:, None] * np.exp(-0.5 * ((x - place[:, None]) / width[:, None]) ** 2) + 1e-4 / 64
        problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.absolute(x), multiplier=1.0)
    else:
        joint = np.random.default_rng(kind == "hamming").dirichlet(np.ones(64)).reshape(4, 16)
        distortion, price = (jp.distortion.absolute(x), 4.0) if kind == "random" else (jp.distortion.hamming(16), 0.3)
        problem = jp.DistortionProblem(joint, distortion, multiplier=price)
    solution = jp.solve(problem, Counted(single=False), tol=1e-12, rtol=1e-6)
    assert solution.status == "optimal"
    assert len(Counted.passes) <= most


def test_two_budgets_on_rough_data_with_zeros_and_empty_symbols(rough):
    joint, table = rough
    seen = []
    problem = jp.DistortionProblem(joint, [table, table**3], budget=[0.2, 0.04])
    solution = jp.solve(problem, "accelerated", tol=1e-5, progress=seen.append)
    assert solution.status == "optimal"
    agree(problem, solution, 1e-5)
    assert seen[-1].step == solution.steps
    assert [record.step for record in seen] == sorted({record.step for record in seen})
    assert all(record.solver == "accelerated" and record.seconds > 0 for record in seen)


def test_prices_that_fall_to_their_least_leave_the_others_where_budgets_are_met():
    """Cut price by price, Newton's moves took the rising price far beyond its place, and prices never fall again."""
    rng = np.random.default_rng(8)
    joint, tables = rng.dirichlet(np.full(8, 0.3)).reshape(2, 4), rng.uniform(size=(2, 4, 4)) * (1 - np.eye(4))
    budget = rng.uniform(0.05, 0.9, 2) * (joint.sum(axis=0) @ tables).min(axis=1)
    problem = jp.DistortionProblem(joint, list(tables), budget=budget)
    assert jp.solve(problem, jp.AcceleratedMirrorDescent(single=False), tol=1e-6).status == "optimal"


def test_a_relative_tolerance_counts_the_whole_objective():
    """The reduction shifts costs; the allowance is relative to the value that the user sees."""
    joint = smooth_joint(12, 3)
    problem = jp.DistortionProblem(joint, 5.0 + jp.distortion.absolute(np.arange(12.0)).matrix(), multiplier=1.0)
    solution = jp.solve(problem, tol=1e-14, rtol=1e-3)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-3 * solution.value
    assert solution.steps < jp.solve(problem, tol=1e-8).steps


@pytest.mark.parametrize(
    "solver",
    [
        jp.AcceleratedMirrorDescent(single=True),
        *thorough(
            jp.AcceleratedMirrorDescent(single=False),
            jp.MirrorDescent(single=True),
            jp.PrimalDualHybridGradient(single=True, inner=1),
        ),
    ],
    ids=repr,
)
def test_single_precision_passes_give_a_float64_proof(solver):
    problem = smooth_problem(40, 4, multiplier=2.0)
    solution = jp.solve(problem, solver, tol=1e-12, rtol=2e-3)
    assert solution.status == "optimal"
    assert solution.steps < jp.solve(problem, solver, tol=1e-12, rtol=1e-3).steps  # it ended as soon as that held
    agree(problem, solution, 2e-3 * solution.value)
    assert np.asarray(solution.mechanism).dtype == np.float64


def test_float64_goes_on_where_float32_gets_no_further():
    """A gap of 1e-8 is below the rounding of float32; the solver of the tables ends there, and the interval holds."""
    problem = smooth_problem(8, 2, budget=0.05)
    solvers = (jp.PrimalDualHybridGradient(single=single, patience=20) for single in (True, None))
    alone, both = (jp.solve(problem, solver, tol=1e-8) for solver in solvers)
    assert alone.status == "not_certified"
    assert both.status == "optimal"
    assert_one_optimum(alone, jp.solve(problem, tol=1e-8))


def test_few_steps_give_a_wide_interval_and_say_so():
    problem = smooth_problem(40, 4, budget=0.05)
    solution = jp.solve(problem, "accelerated", tol=1e-9, max_steps=3)
    assert solution.status == "not_certified"
    assert solution.steps == 3
    assert solution.gap > 1e-9
    exact = jp.solve(problem, tol=1e-8)
    assert_one_optimum(solution, exact)


def test_no_leakage_is_needed_where_one_symbol_is_near_enough():
    problem = smooth_problem(40, 4, budget=0.5)
    solution = jp.solve(problem, "accelerated")
    assert solution.status == "optimal"
    assert solution.value < 1e-9
    assert len(set(solution.mechanism.sample(jax.random.key(0), np.arange(40)))) == 1


def test_a_budget_without_slack_leaves_the_nearest_symbols():
    joint = smooth_joint(40, 4)
    problem = jp.DistortionProblem(joint, DISTORTIONS["hamming"](40), budget=0.0)
    solution = jp.solve(problem, "accelerated", tol=1e-6)
    assert solution.status == "optimal"
    assert_array_equal(solution.mechanism.matrix(), np.eye(40))
    assert_allclose(solution.value, float(jp.probability.mutual_information(joint)), atol=1e-9)


def test_an_impossible_budget_is_proved_so(rough):
    joint, table = rough
    least = joint.sum(axis=0) @ table.min(axis=1)
    problem = jp.DistortionProblem(joint, table, budget=0.9 * least)
    with raised(jp.InfeasibleError, r"^budget\[0\] .* is below") as info:
        jp.solve(problem, "accelerated")
    assert_allclose(info.value.proof["bound"], least, rtol=1e-12)
    assert jp.solve(problem, "accelerated", throw=False).status == "infeasible"


def test_the_reported_best_stays_the_best_when_the_precision_changes():
    """float64 goes on from the iterate of float32, whose value was 0.2 % above the best one found by then."""
    seen = []
    problem = smooth_problem(40, 4, multiplier=2.0)
    solution = jp.solve(problem, "accelerated", tol=1e-6, progress=seen.append)
    assert solution.status == "optimal"
    changed = int(next(note for note in solution.notes if "float64" in note).split("from step ")[1].split()[0])
    assert seen[0].step < changed < seen[-1].step
    for before, after in itertools.pairwise(seen):
        rounding = 1e-6 * before.value if before.step <= changed < after.step else 0.0
        assert after.value <= before.value + rounding
        assert after.bound >= before.bound - rounding
    assert solution.steps == jp.solve(problem, "accelerated", tol=1e-6).steps


def test_a_changed_budget_never_recompiles():
    joint, d = smooth_joint(40, 4), DISTORTIONS["absolute"](40)
    jp.solve(jp.DistortionProblem(joint, d, budget=0.1), "accelerated", tol=1e-7)
    second = jp.solve(jp.DistortionProblem(joint, d, budget=0.15), "accelerated", tol=1e-5)
    assert second.seconds["compile"] == 0


def test_the_caller_keeps_float32():
    with jax.enable_x64(False):
        problem = smooth_problem(40, 4, budget=0.1)
        solution = jp.solve(problem, "accelerated", tol=1e-5)
        assert not jax.config.jax_enable_x64
        assert solution.status == "optimal"
        assert solution.mechanism.rows([3]).dtype == np.float64


def drawn(number):
    """The instance of that number in a search for trouble: sparse joints of 4 x 32, a kind of distortion, a budget."""
    rng, found = np.random.default_rng(5), ()
    for _ in range(number + 1):
        joint = rng.dirichlet(np.ones(128) * 10.0 ** rng.uniform(-1.5, 1.0)).reshape(4, 32)
        found = joint, rng.integers(3), [0.003, 0.03, 0.1, 0.3, 0.7][rng.integers(5)]
    joint, kind, share = found
    x = np.arange(32) / 32
    distortion = [jp.distortion.absolute(x), jp.distortion.squared(x), jp.distortion.hamming(32)][kind]
    table, mass = jp.distortion.dense(distortion), joint.sum(axis=0)
    least, most = mass @ table.min(axis=1), (mass @ table).min()
    return jp.DistortionProblem(joint, distortion, budget=least + share * (most - least))


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "gap"), [(1792, 1e-2), (689, 5e-2)])
def test_float64_passes_do_not_lose_what_float32_ones_found(number, gap):
    """From where float32 gave up float64 may get nowhere; it then starts again, and the best of all is returned."""
    problem = drawn(number)
    solution = jp.solve(problem, "accelerated", tol=1e-12, rtol=1e-2)
    agree(problem, solution, gap * solution.value)


@pytest.mark.parametrize("price", [1e3, 1e12, 1e100])
def test_a_price_beyond_all_leakage_releases_the_nearest(price):
    joint = smooth_joint(40, 4)
    problem = jp.DistortionProblem(joint, jp.distortion.absolute(np.arange(40.0) / 40), multiplier=price)
    solution = jp.solve(problem, "accelerated", tol=1e-12, rtol=1e-3)
    assert solution.status == "optimal"
    leaked = float(jp.probability.mutual_information(joint))
    assert solution.lower_bound <= leaked
    assert_allclose(solution.value, leaked, rtol=1e-3)


def test_a_budget_without_slack_beside_one_with_slack():
    x = np.arange(30.0) / 30
    problem = jp.DistortionProblem(
        smooth_joint(30, 3), [jp.distortion.absolute(x), jp.distortion.hamming(30)], budget=[0.0, 0.5]
    )
    solution = jp.solve(problem, "accelerated")
    assert (solution.status, solution.solver) == ("optimal", "closed-form")
    assert solution.multipliers[1] == 0
    agree(problem, solution, 1e-6)
