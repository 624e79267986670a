"""Pricing of general joints with a small S: no posterior beats the bound, and one reaches it."""

import numpy as np
import pytest

from jaxpriv.funnels.pricing.sparse import SparseFunnelPricer, number_of_faces

from .cases import psi
from .general import CASES, LAMBDAS, cloud, near_vertices

TOLERANCE = 1e-10


def value(posteriors, conditional, prices, lam):
    return psi(posteriors, conditional, lam) - posteriors @ prices


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    joint = CASES[request.param]
    conditional = joint / joint.sum(axis=0)
    return conditional, SparseFunnelPricer(conditional), cloud(conditional.shape[1])


@pytest.mark.parametrize("lam", LAMBDAS)
def test_bound_holds_and_is_attained(case, lam):
    conditional, pricer, posteriors = case
    for scale in (0.0, 0.05, 1.0):
        prices = near_vertices(conditional, scale)
        priced = pricer.price(prices, lam, 10)
        assert priced.exact
        assert priced.bound <= value(posteriors, conditional, prices, lam).min()
        best = value(priced.posteriors, conditional, prices, lam)
        assert 0 <= best[0] - priced.bound <= 3 * TOLERANCE
        assert (np.diff(best) >= -1e-12).all()


def test_posteriors_are_sparse_distinct_distributions(case):
    conditional, pricer, _ = case
    rank = np.linalg.matrix_rank(conditional, tol=1e-12)
    priced = pricer.price(near_vertices(conditional, 0.05), 0.05, 8)
    assert len(priced.posteriors) <= 8
    np.testing.assert_allclose(priced.posteriors.sum(axis=1), 1.0, atol=1e-12)
    assert (priced.posteriors >= 0).all()
    assert ((priced.posteriors > 0).sum(axis=1) <= rank).all()
    supports = {tuple(row) for row in priced.posteriors > 1e-3}
    assert len(supports) == len(priced.posteriors)


def test_a_constant_in_the_prices_moves_the_bound():
    conditional = CASES["generic"] / CASES["generic"].sum(axis=0)
    pricer, prices = SparseFunnelPricer(conditional), near_vertices(conditional, 0.05)
    for lam in (0.01, 0.4):
        plain, moved = pricer.price(prices, lam, 3), pricer.price(prices + 0.7, lam, 3)
        assert abs(moved.bound - (plain.bound - 0.7)) <= 1e-12 + 2 * TOLERANCE


def test_order_of_symbols_does_not_matter():
    joint = CASES["zeros"]
    rng = np.random.default_rng(3)
    rows, columns = rng.permutation(joint.shape[0]), rng.permutation(joint.shape[1])
    conditional = joint / joint.sum(axis=0)
    prices = near_vertices(conditional, 0.05)
    for lam in (0.01, 0.4):
        plain = SparseFunnelPricer(conditional).price(prices, lam, 3).bound
        turned = SparseFunnelPricer(conditional[rows][:, columns]).price(prices[columns], lam, 3).bound
        assert abs(plain - turned) <= 2 * TOLERANCE


def test_splitting_a_private_symbol_is_a_change_of_prices():
    """Rows a t and (1 - a) t in place of t: -H(Tq) falls by h(a) t.q."""
    joint = CASES["generic"]
    conditional = joint / joint.sum(axis=0)
    share = 0.3
    split = np.vstack([share * conditional[0], (1 - share) * conditional[0], conditional[1:]])
    less = -(share * np.log(share) + (1 - share) * np.log(1 - share)) * conditional[0]
    prices = near_vertices(conditional, 0.05)
    for lam in (0.01, 0.4):
        plain = SparseFunnelPricer(conditional).price(prices, lam, 3).bound
        other = SparseFunnelPricer(split).price(prices - less, lam, 3).bound
        assert abs(plain - other) <= 3 * TOLERANCE


def test_repeated_symbol_takes_the_better_price():
    conditional = CASES["generic"] / CASES["generic"].sum(axis=0)
    prices = near_vertices(conditional, 0.05)
    double = SparseFunnelPricer(np.hstack([conditional, conditional]))
    for lam in (0.0, 0.05):
        plain = SparseFunnelPricer(conditional).price(prices, lam, 3).bound
        assert abs(double.price(np.append(prices, prices - 0.01), lam, 3).bound - plain) <= 3 * TOLERANCE


def test_an_exhausted_budget_is_reported_and_the_bound_still_holds():
    conditional = CASES["generic"] / CASES["generic"].sum(axis=0)
    prices, posteriors = near_vertices(conditional, 0.05), cloud(conditional.shape[1])
    priced = SparseFunnelPricer(conditional, budget=30).price(prices, 0.01, 5)
    assert not priced.exact
    assert np.isfinite(priced.bound)
    assert priced.bound <= value(posteriors, conditional, prices, 0.01).min()


@pytest.mark.parametrize("lam", [-1e-9, float("nan")])
def test_bad_multiplier(lam):
    conditional = CASES["generic"] / CASES["generic"].sum(axis=0)
    with pytest.raises(ValueError, match="lambda"):
        SparseFunnelPricer(conditional).price(np.zeros(conditional.shape[1]), lam, 1)


def test_bad_prices():
    conditional = CASES["generic"] / CASES["generic"].sum(axis=0)
    with pytest.raises(ValueError, match="prices"):
        SparseFunnelPricer(conditional).price(np.full(conditional.shape[1], np.nan), 0.1, 1)


def test_number_of_faces():
    assert number_of_faces(5, 5) == 2**5 - 1
    assert number_of_faces(12, 4) == 12 + 66 + 220 + 495
