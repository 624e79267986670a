"""Slopes of the optimal value from a mechanism that is an operator, by blocks of useful symbols."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.errors import ResourceError
from tests.cases import raised

from .conftest import smooth_problem

SIZE, PRIVATE = 40, 4
FORMS = {"budget": {"budget": 0.05}, "multiplier": {"multiplier": 2.0}}


@pytest.fixture(scope="module", params=[("budget", "accelerated"), ("multiplier", "two-grid")])
def solved(request):
    form, name = request.param
    problem = smooth_problem(SIZE, PRIVATE, **FORMS[form])
    return problem, jp.solve(problem, name, tol=1e-6)


def test_blocks_give_the_formula(solved, blocks_of):
    problem, solution = solved
    blocks_of(16)  # the last block of three is not full
    found = jp.sensitivity(problem, solution)
    joint, table, mechanism = problem.joints[0], problem.tables()[0], np.asarray(solution.mechanism)
    prices = np.atleast_1d(solution.multipliers if problem.multiplier is None else problem.multiplier)
    columns = mechanism.T @ joint.T
    seen = columns > 0
    independent = np.outer(mechanism.T @ joint.sum(axis=0), joint.sum(axis=1))
    scores = np.where(seen, np.log(np.where(seen, columns, 1.0) / np.where(seen, independent, 1.0)), 0.0)
    slope = scores.T @ mechanism.T + prices[0] * (table * mechanism).sum(axis=1)
    assert_allclose(found.joint[0], slope - (slope * joint).sum(), rtol=0, atol=1e-12)
    by_distortion = prices[0] * joint.sum(axis=0)[:, None] * mechanism
    assert_allclose(np.asarray(found.distortion)[0], by_distortion, rtol=1e-12, atol=1e-15)
    assert_array_equal(found.distortion.rows([5, 3])[0], np.asarray(found.distortion)[0][[5, 3]])
    if problem.budget is None:
        assert_allclose(found.multiplier, solution.distortion, rtol=1e-9)
        assert found.budget is None
    else:
        assert_array_equal(found.budget, -prices)
        assert found.multiplier is None


def test_blocks_agree_with_the_dense_method(solved):
    """The dense optimum is unique here. The gap bounds no single slope, which a useful symbol of little mass may move
    (0.054 at a gap of 8e-6): a settled mechanism has them.
    """
    problem, solution = solved
    exact = jp.sensitivity(problem, jp.solve(problem, "interior-point", tol=1e-10))
    found = jp.sensitivity(problem, jp.solve(problem, solution.solver, tol=1e-7))
    assert abs(found.joint - exact.joint).max() < 3e-3
    assert abs(np.asarray(found.distortion) - exact.distortion).max() < 3e-4


def test_the_gap_bounds_how_far_posteriors_are_from_the_rules(solved):
    """sum_y P(y) KL(P(.|y) || q_y) <= gap, with q_y = P(s) e^g normalised, for the rules g of any bound.

    The value less a bound is that sum and two more that are not negative: what rows lose to their cheapest outputs,
    and prices times what is left of the budgets. The rules of an optimum have the bound of the optimum.
    """
    problem, solution = solved
    exact = jp.solve(problem, "interior-point", tol=1e-10)
    joint, columns = problem.joints[0], np.asarray(solution.mechanism).T @ problem.joints[0].T
    mass = columns.sum(axis=1)
    posteriors = columns / np.where(mass > 0, mass, 1.0)[:, None]
    for rules, gap in ((solution.scores[0], solution.gap), (exact.scores[0], solution.gap + exact.gap)):
        q = joint.sum(axis=1) * np.exp(rules)
        q /= q.sum(axis=1, keepdims=True)
        assert np.nansum(columns * np.log(posteriors / q)) <= gap
        assert mass @ abs(posteriors - q).sum(axis=1) <= np.sqrt(2 * gap)  # Pinsker's and Jensen's inequalities


def test_the_slopes_of_the_distortion_hold_for_costs_that_are_far():
    """With a multiplier the optimum is concave in the costs, and the value of one mechanism linear: a tangent of the
    latter is above the optimum everywhere.
    """
    problem = smooth_problem(SIZE, PRIVATE, **FORMS["multiplier"])
    solution = jp.solve(problem, "two-grid", tol=1e-6)
    slopes, table = np.asarray(jp.sensitivity(problem, solution).distortion)[0], problem.tables()[0]
    change = np.random.default_rng(0).uniform(-1, 1, table.shape) * table
    for share in (0.3, -0.3):
        moved = jp.DistortionProblem(problem.joints[0], table + share * change, multiplier=problem.multiplier)
        assert jp.solve(moved, tol=1e-8).lower_bound <= solution.value + share * (slopes * change).sum()


def test_a_computed_joint_gives_the_slopes_of_its_table(solved):
    problem, solution = solved
    table = jnp.asarray(problem.joints[0])
    computed = jp.joints.from_function(lambda x: table[:, x[0].astype(int)], np.arange(float(SIZE)))
    form = {"budget": problem.budget, "multiplier": problem.multiplier}
    same = jp.DistortionProblem(computed, problem.distortions[0], **form)
    expected = jp.sensitivity(problem, solution).joint
    assert_allclose(jp.sensitivity(same, solution).joint, expected, rtol=0, atol=1e-12)


def test_the_table_of_the_slopes_is_refused_where_it_does_not_fit(solved, free_memory):
    problem, solution = solved
    slopes = jp.sensitivity(problem, solution).distortion
    free_memory(8.0 * SIZE * SIZE)
    # The slopes themselves need no table of the distortion or of the mechanism.
    assert jp.sensitivity(problem, solution).joint.shape == (1, PRIVATE, SIZE)
    with pytest.raises(ResourceError):
        solution.mechanism.matrix()
    with raised(ResourceError, r"rows\(index\)"):
        np.asarray(slopes)
    with raised(ValueError, "without a copy"):
        np.asarray(slopes, copy=False)
