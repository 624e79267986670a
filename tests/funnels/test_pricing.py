"""Exact pricing: the bound holds for every posterior, and the best posterior attains it."""

import numpy as np
import pytest

from jaxpriv._runtime.clock import Clock
from jaxpriv.funnels.pricing import blocks_of, exact_pricer
from jaxpriv.funnels.pricing.local import LocalPricer

from .cases import binary_symmetric, block_joint, psi, random_joint

LAMBDAS = (0.0, 1e-6, 0.03, 0.4, 0.93, 1 - 1e-9)


def with_zeros(seed, useful):
    """A binary S that some symbols tell for sure, with two symbols that tell the same."""
    joint = random_joint(seed, 2, useful)
    joint[0, 0] = joint[1, 1] = 0.0
    joint[:, 2] = 0.5 * joint[:, 3]
    return joint / joint.sum()


def brute_force(joint, prices, lam, sign):
    """The best value over random posteriors, pairs on a fine grid, and symbols alone."""
    rng = np.random.default_rng(0)
    conditional = joint / joint.sum(axis=0)
    size = joint.shape[1]
    clouds = [rng.dirichlet(np.full(size, a), 4000) for a in (0.05, 0.3, 1.0, 3.0)] + [np.eye(size)]
    w = np.linspace(0, 1, 801)[:, None]
    clouds += [(1 - w) * np.eye(size)[i] + w * np.eye(size)[j] for i in range(size) for j in range(i)]
    cloud = np.vstack(clouds)
    return sign * (sign * (psi(cloud, conditional, lam) - cloud @ prices)).min()


CASES = {
    "two symbols": binary_symmetric(0.3, 0.1),
    "binary": random_joint(1, 2, 6),
    "binary with zeros": with_zeros(2, 7),
    "attribute": block_joint(3, [(2, 3), (1, 2), (2, 2), (1, 1)]),
    "X = S and noise": block_joint(4, [(1, 1), (1, 2), (1, 3)]),
}


@pytest.mark.parametrize("funnel", [True, False], ids=["funnel", "bottleneck"])
@pytest.mark.parametrize("name", CASES)
def test_bound_holds_and_is_attained(name, funnel):
    joint = CASES[name]
    pricer = exact_pricer(joint, funnel=funnel)
    assert pricer is not None
    conditional, sign = joint / joint.sum(axis=0), 1.0 if funnel else -1.0
    rng = np.random.default_rng(5)
    base = psi(np.eye(joint.shape[1]), conditional, 0.0)
    for lam in LAMBDAS:
        for scale in (0.0, 0.02, 0.3, 3.0):
            prices = base + scale * rng.normal(size=joint.shape[1])
            priced = pricer.price(prices, lam, 12)
            best = brute_force(joint, prices, lam, sign)
            assert sign * (best - priced.bound) >= 0, (lam, scale)
            values = psi(priced.posteriors, conditional, lam) - priced.posteriors @ prices
            assert priced.exact
            assert abs(values[0] - priced.bound) < 1e-9 * (1 + abs(prices).max()), (lam, scale)
            assert sign * (values[0] - best) <= 1e-9 * (1 + abs(prices).max())
            np.testing.assert_allclose(priced.posteriors.sum(axis=1), 1.0, atol=1e-12)
            assert priced.posteriors.min() >= 0
            assert 1 <= len(priced.posteriors) <= 12


def test_the_minimum_of_a_pair_satisfies_the_stationarity_condition():
    """D logit(r) - lambda logit(w) = nu_j - nu_i at an interior minimum, and a positive second derivative."""
    joint = binary_symmetric(0.3, 0.05)
    conditional = joint / joint.sum(axis=0)
    ends = psi(np.eye(2), conditional, 0.0)
    priced = exact_pricer(joint, funnel=True).price(ends + np.array([0.01, 0.0]), 0.3, 3)
    w = priced.posteriors[0, 1]
    assert 0 < w < 1
    low, high = conditional[1]
    r = low + (high - low) * w
    slope = (high - low) * np.log(r / (1 - r)) - 0.3 * np.log(w / (1 - w))
    assert slope == pytest.approx(ends[1] - ends[0] - 0.01, abs=1e-13)
    assert (high - low) ** 2 / (r * (1 - r)) > 0.3 / (w * (1 - w))


def test_tiny_weights_are_found():
    """A minimum at w = e^-40 is one: the search is in log-odds."""
    joint = np.array([[0.5, 0.01], [0.0, 0.49]])
    conditional = joint / joint.sum(axis=0)
    lam, aim = 0.5, np.exp(-40.0)
    difference = conditional[1, 1]
    rise = difference * np.log(difference * aim) - lam * np.log(aim)
    priced = exact_pricer(joint, funnel=True).price(np.array([0.0, rise]), lam, 3)
    assert priced.posteriors[:, 1].min() == 0.0
    inside = priced.posteriors[(priced.posteriors[:, 1] > 0) & (priced.posteriors[:, 1] < 1)]
    np.testing.assert_allclose(np.log(inside[:, 1]), -40.0, atol=1e-8)


def test_blocks_are_the_components_of_the_support():
    joint = block_joint(7, [(2, 3), (1, 2), (3, 4)])
    blocks = blocks_of(joint)
    assert sorted(block.joint.shape for block in blocks) == [(1, 2), (2, 3), (3, 4)]
    rebuilt = np.zeros_like(joint)
    for block in blocks:
        rebuilt[np.ix_(block.private, block.useful)] = block.mass * block.joint
        assert block.joint.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(rebuilt, joint, rtol=1e-14)


@pytest.mark.parametrize("funnel", [True, False], ids=["funnel", "bottleneck"])
def test_local_pricing_agrees_with_exact_pricing(funnel):
    joint = random_joint(11, 2, 5)
    conditional = joint / joint.sum(axis=0)
    local, exact = LocalPricer(conditional, funnel=funnel), exact_pricer(joint, funnel=funnel)
    base = psi(np.eye(5), conditional, 0.0)
    rng = np.random.default_rng(1)
    for lam in (0.1, 0.6):
        prices = base + 0.1 * rng.normal(size=5)
        found, sure = local.price(prices, lam, 4), exact.price(prices, lam, 4)
        value = psi(found.posteriors[:1], conditional, lam) - found.posteriors[:1] @ prices
        assert not np.isfinite(found.bound)
        assert not found.exact
        assert value[0] == pytest.approx(sure.bound, abs=1e-9)


def test_joints_without_exact_pricing_say_so():
    assert exact_pricer(block_joint(1, [(2, 3), (9, 20)]), funnel=False) is None
    assert exact_pricer(block_joint(1, [(2, 3), (30, 900)]), funnel=True) is None


def test_five_hundred_symbols_in_one_call():
    joint = random_joint(3, 2, 500)
    conditional = joint / joint.sum(axis=0)
    ends = psi(np.eye(500), conditional, 0.0)
    priced = exact_pricer(joint, funnel=True).price(ends, 0.2, 1000)
    assert len(np.unique(priced.posteriors, axis=0)) == len(priced.posteriors) <= 1000
    assert (priced.posteriors > 0).sum(axis=1).max() == 2
    values = psi(priced.posteriors, conditional, 0.2) - priced.posteriors @ ends
    assert np.all(np.diff(values) >= -1e-13)
    assert 0 <= values[0] - priced.bound < 1e-12


def test_local_searches_at_the_same_prices_begin_elsewhere_each_time():
    """A search that finds nothing new is about the prices, not about one list of starts."""
    joint = np.random.default_rng(1).dirichlet(np.full(8 * 60, 0.3)).reshape(8, 60)
    conditional = joint / joint.sum(axis=0)
    local, prices = LocalPricer(conditional, funnel=True), psi(np.eye(60), conditional, 0.0)
    seen, fresh = set(), []
    for _ in range(3):
        found = {tuple(np.flatnonzero(row > 1e-3)) for row in local.price(prices, 0.3, 10_000).posteriors}
        fresh.append(len(found - seen))
        seen |= found
    assert sum(fresh[1:]) > 40


def test_a_local_search_that_the_clock_ends_gives_the_atoms_it_has():
    joint = random_joint(1, 3, 6)
    conditional = joint / joint.sum(axis=0)
    local, prices = LocalPricer(conditional, funnel=True), psi(np.eye(6), conditional, 0.0)
    local.price(prices, 0.3, 4)  # compiles
    found = local.price(prices, 0.3, 4, Clock(0.0))
    assert found.bound == -np.inf
    np.testing.assert_allclose(found.posteriors.sum(axis=1), 1.0)
    values = psi(found.posteriors, conditional, 0.3) - found.posteriors @ prices
    assert values[0] == values.min() < 0.0


def test_a_local_search_without_the_time_to_compile_gives_the_symbols_alone(monkeypatch):
    monkeypatch.setattr("jaxpriv._runtime.clock._COMPILED", set())
    joint = random_joint(1, 3, 6)
    conditional = joint / joint.sum(axis=0)
    local, prices = LocalPricer(conditional, funnel=True), np.arange(6.0)
    monkeypatch.setattr(local, "_searched", None)
    found = local.price(prices, 0.3, 4, Clock(0.1))
    np.testing.assert_array_equal(found.posteriors, np.eye(6)[::-1][:4])
