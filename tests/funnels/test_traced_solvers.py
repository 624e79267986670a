"""Traced funnels by solvers with settings of their own: their precision, their rounds, kinks, their linear program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv.funnels.local import BottleneckIteration, DifferenceOfConvex
from jaxpriv.funnels.traced_linear_program import masses_and_prices
from jaxpriv.leakage.rule_sets import LINEAR, Role
from jaxpriv.program.lower import terms_of
from tests.cases import drawn_joint, further

JOINT = drawn_joint(1, 4, 10)


def test_bottlenecks_by_beta():
    few, betas = BottleneckIteration(starts=8), np.array([3.0, 10.0, 1e9])
    joint = JOINT[:, :4] * np.array([1.0, 1.0, 0.0, 1.0])  # the row of a symbol without mass is a distribution, too
    run = jax.jit(lambda beta: jp.solve(jp.BottleneckProblem(jnp.asarray(joint), beta=beta), few))
    for beta in betas:
        best, found = jp.solve(jp.BottleneckProblem(joint / joint.sum(), beta=beta)), run(beta)
        assert_allclose(found.mechanism.sum(axis=1), 1.0, rtol=1e-14)
        assert best.value - 1e-6 <= found.value <= best.upper_bound + 1e-12
        assert best.upper_bound <= found.upper_bound + 1e-12


def test_single_precision():
    few = DifferenceOfConvex(starts=24)
    with jax.enable_x64(False):
        found = jax.jit(lambda joint: jp.solve(jp.FunnelProblem(joint, multiplier=0.5), few))(np.float32(JOINT))
    assert found.value.dtype == found.mechanism.dtype == np.float32
    assert found.value == pytest.approx(jp.solve(jp.FunnelProblem(JOINT, multiplier=0.5)).value, abs=1e-4)


def test_later_rounds_come_nearer_to_the_optimum():
    joint = drawn_joint(3, 4, 10)

    def value(joint, rounds):
        problem = jp.FunnelProblem(joint, multiplier=0.2)
        return jp.solve(problem, DifferenceOfConvex(starts=4, rounds=rounds), tol=1e-9).value

    first, last = value(joint, 1), jax.jit(lambda joint: value(joint, 8))(joint)  # the first on the host
    proved = jp.solve(jp.FunnelProblem(joint, multiplier=0.2), tol=1e-7)
    assert proved.lower_bound <= last <= proved.value + 1e-6
    assert first > proved.value + 1e-3


KINKED = {
    "total variation": jp.leakage.FInformation(jp.leakage.TotalVariation()),
    "correct guess": jp.leakage.CorrectGuess(),
    "maximal leakage": jp.leakage.MaximalLeakage(),
}


@pytest.mark.parametrize("name", further(KINKED, ["total variation"]))
def test_measures_with_kinks_end_at_the_certified_optimum(name):
    """Descents of whole mechanisms alone end 2e-3, 4e-3 and 1e-1 above it."""
    joint, few = drawn_joint(3, 3, 4), DifferenceOfConvex(starts=8)

    def problem(joint):
        return jp.FunnelProblem(joint, multiplier=0.2, leakage=KINKED[name])

    quickly = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    found = jax.jit(lambda joint: jp.solve(problem(joint), few).value, compiler_options=quickly)(joint)
    best = jp.solve(problem(joint), tol=1e-8)
    assert best.lower_bound - 1e-12 <= found <= best.value + 1e-6 * abs(best.value)


@pytest.mark.parametrize("name", KINKED)
def test_a_softened_maximum_exceeds_it_by_the_temperature_times_a_constant(name):
    """A wrong one would make the search worse without an error."""
    (term,) = terms_of(KINKED[name], JOINT, Role.OBJECTIVE, whole=True)
    most = np.log(len(term.rows)) if term.cap is None else np.log(2.0) * term.cap.sum()
    rng = np.random.default_rng(0)
    for w in rng.dirichlet(np.ones(10), 4) @ term.rows.T:
        exact = LINEAR.columns(term, w[:, None])[0]
        for temperature in (1e-1, 1e-3, 1e-9):
            above = LINEAR.softened(term, w, temperature) - exact
            assert -1e-15 <= above <= temperature * most + 1e-15
    slopes = jax.grad(lambda w: LINEAR.softened(term, w, 0.1))(w)
    low, high = ([LINEAR.softened(term, w + step, 0.1) for step in way * np.eye(len(w))] for way in (-1e-6, 1e-6))
    assert_allclose(slopes, (np.array(high) - low) / 2e-6, atol=1e-8)


def test_the_linear_program_over_posteriors_is_solved():
    """A worse one would make the search worse without an error."""
    rng = np.random.default_rng(0)
    posteriors, costs = rng.dirichlet(np.ones(4), (5, 30)), rng.normal(size=(5, 30))
    source = posteriors.mean(axis=1)
    masses, prices = jax.jit(jax.vmap(masses_and_prices))(costs, posteriors, source)
    for k in range(5):
        exact = linprog(costs[k], A_eq=posteriors[k].T, b_eq=source[k])
        assert costs[k] @ masses[k] == pytest.approx(exact.fun, abs=1e-11)
        assert_allclose(masses[k] @ posteriors[k], source[k], atol=1e-12)
        assert_allclose(prices[k], exact.eqlin.marginals, atol=1e-9)
