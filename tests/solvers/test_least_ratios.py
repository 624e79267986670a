"""Least worst log-ratios: paths that turn back, starts that fail, and prices that prove nothing."""

import dataclasses

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import InteriorPoint
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal
from jaxpriv.solvers.interior_point.candidate import least_ratio
from jaxpriv.solvers.interior_point.system import rearrange
from tests.compiling import kernels
from tests.solvers.kernel_cases import by_steps, compare, program_of, run_of, stated

pytestmark = pytest.mark.usefixtures("forgotten", "own_settings")

# Where mu, in prices that make a unit of the peak worth one, rises as the peak falls.
_TURNED_BACK = [
    ("max-lift", (3, 5, 4), 11),
    ("ldp", (4, 4, 4), 57),
    ("lift", (6, 6, 6), 32),
    ("max-lift", (4, 6, 5), 61),
]


@pytest.mark.parametrize(("name", "sizes", "seed"), _TURNED_BACK)
def test_paths_that_turn_back_are_followed_by_their_peak(name, sizes, seed):
    reduced = Reduced.of(program_of(name, seed, sizes), Goal(1e-6))
    found, steps = by_steps(lambda: run_of(InteriorPoint(attempts=1), reduced, 200))
    assert reduced.goal.met(found)
    assert steps < 40


@kernels
@pytest.mark.parametrize(("name", "sizes", "seed"), _TURNED_BACK)
def test_the_kernel_follows_them_too(name, sizes, seed):
    compare(program_of(name, seed, sizes))


@kernels
def test_a_start_that_fails_is_followed_by_those_of_the_method():
    # Budgets that next to nothing meets: the first start misses them by more than what they are.
    joint = np.random.default_rng(9).dirichlet(np.full(16, 0.2)).reshape(4, 4)
    cost = 1.0 - np.eye(4)
    budget = 0.1 * float((joint.sum(axis=0) @ cost).min())
    problem = jp.DistortionProblem(joint, cost, budget=budget, leakage=jp.leakage.MaxLift())
    reduced = Reduced.of(stated(problem), Goal(1e-6))

    def run(attempts):
        return run_of(InteriorPoint(attempts=attempts), reduced, 200)

    (stalled, short), (found, steps) = run(1), run(3)
    wanted, wanted_steps = by_steps(lambda: run(3))
    assert not reduced.goal.met(stalled)
    assert reduced.goal.met(found)
    assert reduced.goal.met(wanted)
    assert short < steps == wanted_steps
    # Two pairs of bounds on one optimum.
    assert found.bound <= wanted.value + 1e-12
    assert wanted.bound <= found.value + 1e-12


def test_prices_that_exceed_their_budgets_by_rounding_prove_no_infinite_peak():
    """Without rules nothing falls with the peak: what is left above the budget is left at every peak."""
    program = program_of("max-lift", 0, (3, 3, 3))
    data = rearrange(program)
    cheapest = program.constraints.min(axis=2).sum()
    k, eta, price = np.zeros((3, data.rows)), np.zeros((3, 0)), np.ones(1)
    for budget in (cheapest * (1.0 - 1e-15), cheapest * (1.0 - 1e-3)):
        short = rearrange(dataclasses.replace(program, budgets=np.array([budget])))
        assert least_ratio(short, k, eta, price, 0.0) == -np.inf
    rules = np.zeros_like(k)
    rules[:, 0] = 1e-3  # a little of a row: a peak that is finite
    assert np.isfinite(least_ratio(data, rules, eta, price * 1e-6, 0.0))
