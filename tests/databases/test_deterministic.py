"""Corollary 2: the collapsed form against the whole database, where that is small."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose
from scipy.special import comb, entr

import jaxpriv.leakage as lk
from jaxpriv import databases as db
from tests.cases import assert_refusals, assert_refused, value_of


@given(st.integers(0, 2**32 - 1))
def test_any_function_of_a_small_private_variable(seed):
    """S of 6 symbols, X = f(S) of 3: Definition 4 computed from S and from (P_X, H(S|X))."""
    rng = np.random.default_rng(seed)
    image = np.append(rng.permutation(3), rng.integers(3, size=3))
    private = rng.dirichlet(np.ones(6))
    joint = np.zeros((6, 3))
    joint[np.arange(6), image] = private
    prior = joint.sum(axis=0)
    query = db.deterministic_query(prior, entr(joint / prior).sum(axis=0))
    mechanism = rng.dirichlet(np.full(2, 0.5), 3)
    before, after = entr(private).sum(), entr(joint @ mechanism / (prior @ mechanism)).sum(axis=0)
    assert query.entropy == pytest.approx(before, abs=1e-12)
    assert_allclose(query.outcomes(mechanism), before - after, atol=1e-11)
    assert query.constant <= 0
    assert np.logaddexp.reduce(query.log_zeta) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (6, 0.3), (8, 0.5)])
def test_counting_query_against_the_whole_database(n, p):
    query, counts = db.counting_query(n, p), db.counts((2,) * n)
    joint = np.zeros((2**n, n + 1))
    joint[np.arange(2**n), counts] = p**counts * (1 - p) ** (n - counts)
    assert_allclose(query.prior, joint.sum(axis=0), rtol=1e-12)
    assert_allclose(np.exp(query.log_zeta), comb(n, np.arange(n + 1)) / 2.0**n, rtol=1e-12)
    mechanism = db.geometric_count(n, 0.8)
    exact = value_of(lk.MaxInformation(), joint, mechanism)
    assert query.max_information(mechanism) == pytest.approx(exact, abs=1e-11)
    # Uniform databases: P_X is zeta, so an output without information has leakage 0 = constant.
    blind = np.full((n + 1, 1), 1.0)
    assert query.max_information(blind) == pytest.approx(0.0, abs=1e-12)
    assert (query.constant > -1e-12) == (p == 0.5)


def test_records_with_more_than_two_values():
    """A record has the property with probability 0.4, then two equal values; three unequal ones otherwise."""
    values, counted = np.array([0.2, 0.2, 0.3, 0.2, 0.1]), np.array([1, 1, 0, 0, 0])
    inside, outside = np.log(2), entr(values[2:] / 0.6).sum()
    query = db.counting_query(3, 0.4, inside=inside, outside=outside)
    table = np.indices((5, 5, 5)).reshape(3, -1)
    joint = np.zeros((125, 4))
    joint[np.arange(125), counted[table].sum(axis=0)] = values[table].prod(axis=0)
    mechanism = db.geometric_count(3, 1.3)
    assert query.entropy == pytest.approx(3 * entr(values).sum())
    exact = value_of(lk.MaxInformation(), joint, mechanism)
    assert query.max_information(mechanism) == pytest.approx(exact, abs=1e-11)


def test_large_databases_and_degenerate_ones():
    query = db.counting_query(10_000, 0.3)
    assert np.logaddexp.reduce(query.log_zeta) == pytest.approx(0.0, abs=1e-9)
    # H(S) = n h(p), and the sum of the C(n, x) is 2^n.
    assert query.constant == pytest.approx(10_000 * (entr([0.3, 0.7]).sum() - np.log(2)), rel=1e-9)
    assert np.isfinite(query.log_zeta).all()  # also where the prior underflows
    for p, count in ((0.0, 0), (1.0, 4)):
        certain = db.counting_query(4, p)
        assert certain.prior[count] == 1.0
        assert certain.constant == certain.entropy == 0.0
        assert certain.max_information(np.eye(5)) == 0.0


def test_symbols_and_outputs_without_mass():
    query = db.deterministic_query([0.5, 0.5, 0.0], [0.0, np.log(2), 5.0])
    assert query.log_zeta[2] == -np.inf
    assert_allclose(np.exp(query.log_zeta[:2]), [1 / 3, 2 / 3])
    outcomes = query.outcomes(np.eye(3))
    assert np.isnan(outcomes[2])
    # S uniform-ish: (1/2, 1/4, 1/4) has 1.5 ln 2; X = 0 tells all of it, X = 1 leaves ln 2.
    assert_allclose(outcomes[:2], [1.5 * np.log(2), 0.5 * np.log(2)])


def test_bad_input():
    assert_refusals(
        db.deterministic_query,
        ("sums to 0.9", [0.5, 0.4], [0, 0]),
        ("residual has 1", [0.5, 0.5], [0]),
        (r"residual\[1\] is negative", [0.5, 0.5], [0, -1]),
        (r"residual\[1\] is infinite", [0.5, 0.5], [0, np.inf]),
    )
    assert_refused("outside must be", db.counting_query, 3, 0.5, outside=1e308)
    assert_refusals(
        db.counting_query,
        ("records", 0, 0.5),
        ("probability", 3, 1.5),
        ("probability", 3, np.nan),
    )
    assert_refused("inside", db.counting_query, 3, 0.5, inside=-1.0)
    assert_refused("3 rows", db.counting_query(3, 0.5).outcomes, np.eye(3))


def test_clamped_query_is_the_query_of_the_clamped_count():
    """Against all 2^n databases: the leakage of a mechanism that treats the results of a cell alike."""
    query = db.counting_query(6, 0.3)
    inner = query.clamped(1, 4)
    assert inner.entropy == query.entropy
    assert inner.prior.sum() == pytest.approx(1, abs=1e-14)
    mechanism = np.random.default_rng(2).dirichlet(np.ones(3), size=4)
    spread = mechanism[np.clip(np.arange(7) - 1, 0, 3)]
    assert_allclose(inner.outcomes(mechanism), query.outcomes(spread), atol=1e-13)
    alone = query.clamped(3, 3)  # one result, of which nothing is learnt
    assert_allclose(alone.prior, [1.0], atol=1e-14)
    assert_allclose(alone.hidden, [query.entropy], atol=1e-13)
    assert_refused("first", query.clamped, 3, 2)
    assert_refused("last", query.clamped, 0, 7)
