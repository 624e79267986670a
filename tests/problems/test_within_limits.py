"""No result has a mechanism that exceeds a limit: columns that are nearly equal, limits of 0, and what is rejected."""

import dataclasses
import math

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.program.solution import within_limits
from tests.cases import drawn_joint

from .checks import accepted, proved
from .measured_cases import MEASURES


def nearly_equal(seed: int, size: float) -> np.ndarray:
    """A joint whose columns repeat two posteriors, up to relative differences of this size."""
    rng = np.random.default_rng(seed)
    private, useful = int(rng.integers(2, 5)), int(rng.integers(3, 6))
    base = drawn_joint(rng, private, 2)
    joint = base[:, np.arange(useful) % 2] * (1 + size * rng.normal(size=(private, useful)))
    return joint / joint.sum()


def exceeded(problem: jp.DistortionProblem, solution: jp.Solution) -> float:
    """By how much the mechanism exceeds the leakage budget, relative to 1 + budget, computed again by `certify`."""
    found = jp.certify(problem, solution)
    assert found.violation == 0
    return (found.leakage - problem.leakage_budget) / (1.0 + problem.leakage_budget)


# The instance that the defect was found with: the optimum at a limit of 1e-12 is 0.34228.
BASE = np.array([[7, 9], [6, 23], [10, 2], [26, 17]]) / 100
NOISE = np.array([[0, -0.1, -2.7], [1.1, 0.6, 0.2], [1, -0.7, 0.4], [-0.6, 0.9, -0.1]])


def test_columns_equal_to_ten_digits_and_no_leakage():
    joint = BASE[:, [0, 1, 0]] * (1 + 1e-10 * NOISE)
    problem = jp.DistortionProblem(joint / joint.sum(), 1 - np.eye(3), leakage_budget=0.0)
    (many,) = jp.solve_many([problem])
    curve = jp.frontier(problem, leakage_budgets=[0.0, 1e-12])
    for solution in (jp.solve(problem), many, curve.solutions[0]):
        accepted(problem, solution)
        assert float(solution.value) == pytest.approx(0.34228188, abs=1e-6)
        assert exceeded(problem, solution) <= 1e-12


@pytest.mark.parametrize(
    "name", ["mutual-information", "sibson-2", "chi-squared", "max-information", "maximal-leakage", "max-lift"]
)
@pytest.mark.parametrize("size", [1e-5, 1e-7, 1e-8, 1e-10, 1e-13])
def test_a_limit_of_zero_is_kept_whatever_the_columns(name, size):
    for seed in range(3):
        joint = nearly_equal(seed, size)
        outputs = 1 + seed
        costs = (np.arange(joint.shape[1])[:, None] != np.arange(outputs)).astype(float)
        problem = jp.DistortionProblem(joint, costs, leakage_budget=0.0, leakage=MEASURES[name])
        solution = jp.solve(problem)
        assert exceeded(problem, solution) <= 1e-12
        assert solution.gap >= 0
        if not name.startswith("max"):
            assert solution.status == "optimal"


def test_near_twins_cost_what_twins_cost():
    """Metamorphic: differences far below what a leakage of 1e-12 shows do not move the optimum."""
    for seed in range(4):
        values = []
        for size in (0.0, 1e-11):
            joint = nearly_equal(seed, size)
            costs = 1 - np.eye(joint.shape[1])
            values.append(float(jp.solve(jp.DistortionProblem(joint, costs, leakage_budget=0.0)).value))
        assert values[0] == pytest.approx(values[1], abs=1e-8)


class Careless(jp.InteriorPoint):
    """Says of the identity that it costs nothing, and proves nothing."""

    def step(self, program, state):
        best = dataclasses.replace(state.best, mechanism=np.eye(3), value=np.float64(0.0), bound=np.float64(-1.0))
        return super().step(program, state)._replace(best=best)


def test_an_answer_beyond_a_limit_is_replaced_by_a_release_within():
    """Whatever a solver returns."""
    joint = np.array([[0.3, 0.1, 0.05], [0.05, 0.2, 0.3]])
    problem = jp.DistortionProblem(joint, 1 - np.eye(3), leakage_budget=0.01)
    solution = jp.solve(problem, Careless(), max_steps=3)
    assert solution.status == "not_certified"
    assert exceeded(problem, solution) <= 1e-12
    assert solution.lower_bound <= solution.value <= 0.65 + 1e-12  # that of the most frequent symbol


def test_where_there_is_none_the_mechanism_is_nan():
    solution = jp.solve(jp.DistortionProblem(np.eye(2) / 2, 1 - np.eye(2), budget=0.2))
    assert within_limits(solution, 0.0) is solution
    lost = within_limits(solution, 1e-3)
    assert np.isnan(lost.mechanism).all()
    assert (lost.value, lost.gap, lost.status) == (np.inf, np.inf, "not_certified")
    assert lost.lower_bound == solution.lower_bound


@pytest.mark.parametrize("budget", [-0.1, 0.05, 0.2])
def test_a_trace_returns_a_mechanism_within_the_budgets_or_none(budget):
    """The least distortion is 0.1: below it a compiled function cannot raise."""
    costs = np.array([[0.1, 1.0], [1.0, 0.1]])
    joint = np.array([[0.3, 0.2], [0.1, 0.4]])
    solution = jax.jit(lambda d: jp.solve(jp.DistortionProblem(joint, costs, budget=d)))(budget)
    if budget < 0.1:
        assert np.isnan(np.asarray(solution.mechanism)).all()
        assert math.isinf(float(solution.value))
        assert math.isinf(float(solution.gap))
        assert "NaN" in dataclasses.replace(solution, solver="").message
        assert solution.status == "not_certified"
    else:
        assert float(solution.distortion[0]) <= budget * (1 + 1e-12) + 1e-12
        assert solution.status == "optimal"


@pytest.mark.parametrize("measure", [jp.leakage.MutualInformation(), jp.leakage.MaxLift(), jp.leakage.Sibson(2.0)])
def test_budgets_equal_to_what_the_only_release_costs(measure):
    """One output, distortions of sizes from 1e-3 to 1e3, budgets to the rounding of another order of the sums."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        joint = drawn_joint(rng, 3, 4)
        tables = rng.random((3, 4, 1)) * 10.0 ** rng.uniform(-3, 3, (3, 1, 1))
        budgets = (tables[:, :, 0] @ joint.sum(axis=0)) * (1 + 1e-13 * rng.normal(size=3))
        solution = proved(jp.DistortionProblem(joint, tables, budget=budgets, leakage=measure))
        assert float(solution.value) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("measure", [jp.leakage.MutualInformation(), jp.leakage.MaxLift()])
def test_budgets_that_contradict_each_other_by_a_billionth_are_infeasible(measure):
    """Costs that hardly depend on the output: each budget alone is the least, no mechanism meets both."""
    rng = np.random.default_rng(3)
    joint = drawn_joint(rng, 3, 4)
    tables = np.repeat(rng.random((2, 4, 1)) * [[[1e3]], [[1e-2]]], 2, axis=2) * (1 + 1e-9 * rng.random((2, 4, 2)))
    each = joint.sum(axis=0)[:, None] * tables
    least = each.min(axis=2).sum(axis=1)
    with pytest.raises(jp.InfeasibleError) as raised:
        jp.solve(jp.DistortionProblem(joint, tables, budget=least, leakage=measure))
    weights = np.asarray(raised.value.proof["multipliers"])
    assert (np.tensordot(weights, each, 1).min(axis=1).sum()) > weights @ least
    both = each[:, np.arange(4), each[0].argmin(axis=1)].sum(axis=1)  # what the cheapest of the first distortion costs
    problem = jp.DistortionProblem(joint, tables, budget=both, leakage=measure)
    assert jp.certify(problem, jp.solve(problem)).violation == 0
