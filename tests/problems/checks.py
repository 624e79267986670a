"""What holds of every solution, and of every mechanism beside it."""

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv.testing import random_mechanisms
from tests.grid.measures import MEASURES
from tests.grid.optimum import Limit, Question, least


def accepted(problem, solution, tol=1e-6):
    """The solution: optimal, its numbers those of its mechanism by NumPy alone, its bound that of its rules."""
    assert solution.status == "optimal", solution.message
    assert -1e-15 <= solution.gap <= tol
    w = solution.mechanism
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    assert w.min() >= 0
    tables = np.where(w > 0, problem.tables(), 0.0)
    used = np.einsum("kx,mxy,xy->km", problem.joints.sum(axis=1), tables, w).max(axis=0)
    leak = max(jp.leakage.evaluate(problem.leakage, joint, w).value for joint in problem.joints)
    np.testing.assert_allclose(solution.distortion, used, rtol=1e-12, atol=1e-12)
    if problem.budget is not None:
        assert np.all(used <= problem.budget + 1e-12 * np.maximum(1.0, abs(problem.budget)))
        assert leak <= solution.value + 1e-12
    elif problem.leakage_budget is not None:
        assert leak <= problem.leakage_budget * (1 + 1e-9) + 1e-12
    found = jp.certify(problem, solution)
    assert found.valid, found.message
    assert found.agrees, found.message
    return solution


def proved(problem, *args, tol=1e-6, **options):
    """`accepted` of what `solve` returns."""
    return accepted(problem, jp.solve(problem, *args, tol=tol, **options), tol)


def assert_nothing_is_better(problem, solution, unit=1.0):
    """No mechanism at random or close to the solution's is below its bound; the identity is to cost nothing."""
    (joint,), (table,) = problem.joints, problem.tables()
    rng, size = np.random.default_rng(0), len(table)
    other = random_mechanisms(1, 600, size, size)
    # A third tends to the data, a third to a release of one symbol: cheaper, or telling less.
    other[::3] = 0.5 * other[::3] + 0.5 * np.eye(size)
    other[1::3] = 0.2 * other[1::3] + 0.8 * np.eye(size)[1]
    share = np.where(rng.random(600) < 0.2, 1.0, 10.0 ** rng.uniform(-5, 0, 600))[:, None, None]
    mechanisms = (1 - share) * solution.mechanism + share * other
    if problem.budget is not None:  # those beyond it take a share of the data
        share = np.minimum(1, problem.budget / costs_of(joint, table, mechanisms))[:, None, None]
        mechanisms = share * mechanisms + (1 - share) * np.eye(size)
    leaks = np.asarray(jax.jit(jax.vmap(lambda w: problem.leakage(joint, w)))(mechanisms))
    if problem.budget is not None:
        assert leaks.min() >= solution.lower_bound - 1e-12 * unit
        return
    within = leaks <= problem.leakage_budget
    assert within.sum() > 20
    assert costs_of(joint, table, mechanisms)[within].min() >= solution.lower_bound - 1e-12


def costs_of(joint, table, mechanisms):
    """E d of mechanisms (..., X, Y)."""
    return np.einsum("sx,xy,...xy->...", joint, table, mechanisms)


def least_total(name, joints, support, within=()):
    """The least sum of columns of a measure of the grid (of I itself) by cutting planes; `within`: (costs, budget)."""
    terms = [Limit(MEASURES[name], joint, None) for joint in joints]
    return least(Question(np.zeros(support.shape), list(within), terms, support))[0]
