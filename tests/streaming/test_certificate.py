"""The streamed certificate is the dense one, block by block: same numbers, valid whatever it is given."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv.data.channel import Gibbs
from jaxpriv.program import program_of
from jaxpriv.program.certificates import certify_streamed
from tests.information import certify

from .conftest import stated


def mechanism_of(problem, seed):
    rng = np.random.default_rng(seed)
    program = stated(problem)
    scores = rng.normal(size=(problem.shape[1], len(program.prior)))
    return Gibbs(program.joint, program.distortions, program.prior, scores, rng.uniform(0, 5, 1))


@pytest.mark.parametrize("form", [{"budget": 0.2}, {"multiplier": 0.7}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_the_dense_certificate(rough, form, seed):
    problem = jp.DistortionProblem(*rough, **form)
    rng = np.random.default_rng(seed)
    mechanism, scores = mechanism_of(problem, seed), 0.005 * rng.normal(size=(19, 5))
    multipliers = rng.uniform(0, 2, 1)
    got = certify_streamed(stated(problem), mechanism, scores, multipliers)
    rows = np.zeros(0) if "multiplier" in form else multipliers
    program = program_of(problem)
    want = certify(program, mechanism.matrix(), scores[None], np.ones(1), rows)
    assert_allclose(got.value, want.value, atol=1e-11)
    # Where the rule proves less than the least cost of every row does, the dense bound is that one.
    floor = program.cost.min(axis=1).sum()
    assert got.lower_bound <= max(want.lower_bound, 0.0) + 1e-11
    if want.lower_bound > floor + 1e-9:
        assert_allclose(got.lower_bound, want.lower_bound, atol=1e-11)
    assert_allclose(got.leakages, want.leakages, atol=1e-12)
    if "budget" in form:
        assert_allclose(got.constraint_values, want.constraint_values, atol=1e-13)
        assert_allclose(got.violation, want.violation, atol=1e-10)
    # Rounded outwards: never inside the dense interval by more than the dense one's own allowance.
    assert got.value >= got.leakages[0]


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 30.0, 1e4]))
def test_no_rule_proves_more_than_the_optimum(rough, seed, scale):
    problem = jp.DistortionProblem(*rough, budget=0.2)
    optimum = jp.solve(problem, tol=1e-7).value
    rng = np.random.default_rng(seed)
    scores, multipliers = scale * rng.normal(size=(19, 5)), scale * rng.uniform(size=1)
    got = certify_streamed(stated(problem), mechanism_of(problem, 0), scores, multipliers)
    assert got.lower_bound <= optimum


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, -1.0])
def test_junk_from_a_solver_costs_tightness_only(rough, junk):
    problem = jp.DistortionProblem(*rough, budget=0.2)
    solution = jp.solve(problem, tol=1e-7)
    mechanism = mechanism_of(problem, 0)
    scores, multipliers = solution.scores[0].copy(), solution.multipliers
    scores[3, 1] = junk
    for rule, price in ((scores, multipliers), (solution.scores[0], np.full(1, junk))):
        got = certify_streamed(stated(problem), mechanism, rule, price)
        assert 0 <= got.lower_bound <= solution.value
