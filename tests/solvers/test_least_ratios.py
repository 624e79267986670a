"""Least worst log-ratios: paths that turn back, starts that fail, and prices that prove nothing."""

import dataclasses

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import InteriorPoint
from jaxpriv.program import program_of
from jaxpriv.solvers.interior_point.candidate import least_ratio
from jaxpriv.solvers.interior_point.system import rearrange
from tests.cases import assert_one_optimum, assert_proved, drawn_joint
from tests.compiling import kernels
from tests.solvers.kernel_cases import Stepped, both, compare, problem_of

pytestmark = pytest.mark.usefixtures("forgotten", "own_settings")

# Where mu, in prices that make a unit of the peak worth one, rises as the peak falls.
_TURNED_BACK = [
    ("max-lift", (3, 5, 4), 11),
    ("ldp", (4, 4, 4), 57),
    ("lift", (6, 6, 6), 32),
    ("max-lift", (4, 6, 5), 61),
]


@kernels
@pytest.mark.parametrize(("name", "sizes", "seed"), _TURNED_BACK)
def test_paths_that_turn_back_are_followed_by_their_peak(name, sizes, seed):
    problem = problem_of(name, seed, sizes)
    compare(problem)
    assert jp.solve(problem, Stepped(attempts=1)).steps < 40


@kernels
def test_a_start_that_fails_is_followed_by_those_of_the_method():
    # Budgets that next to nothing meets: the first start misses them by more than what they are.
    joint = drawn_joint(9, 4, 4, 0.2)
    cost = 1.0 - np.eye(4)
    budget = 0.1 * float((joint.sum(axis=0) @ cost).min())
    problem = jp.DistortionProblem(joint, cost, budget=budget, leakage=jp.leakage.MaxLift())
    stalled, (found, wanted) = jp.solve(problem, InteriorPoint(attempts=1)), both(problem, 1e-6)
    assert_proved(problem, found)
    assert_one_optimum(found, wanted, 1e-12)
    assert found.steps == wanted.steps < stalled.steps  # of a search, after its only start


def test_prices_that_exceed_their_budgets_by_rounding_prove_no_infinite_peak():
    """Without rules nothing falls with the peak: what is left above the budget is left at every peak."""
    problem = problem_of("max-lift", 0, (3, 3, 3))
    cheapest = float(problem.joints[0].sum(axis=0) @ problem.tables()[0].min(axis=1))
    program = program_of(problem)
    data = rearrange(program)
    k, eta, price = np.zeros((3, data.rows)), np.zeros((3, 0)), np.ones(1)
    for budget in (cheapest * (1.0 - 1e-15), cheapest * (1.0 - 1e-3)):
        short = rearrange(dataclasses.replace(program, budgets=np.array([budget])))
        with np.errstate(all="ignore"):
            assert least_ratio(short, k, eta, price, 0.0) == -np.inf
    rules = np.zeros_like(k)
    rules[:, 0] = 1e-3  # a little of a row: a peak that is finite
    assert np.isfinite(least_ratio(data, rules, eta, price * 1e-6, 0.0))
