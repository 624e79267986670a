"""Bottleneck pricing by a search over r = Tq: no posterior is above the bound, and one reaches it."""

import numpy as np
import pytest

from jaxpriv.funnels.pricing.bottleneck import (
    BottleneckPricer,
    distances,
    free_energy,
    halves,
    objective,
    risen,
    tightened,
    xlogx,
)
from tests.cases import further

from .general import CASES, LAMBDAS, cloud, near_vertices

TOLERANCE = 1e-9


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    joint = CASES[request.param]
    conditional = joint / joint.sum(axis=0)
    return conditional, BottleneckPricer(conditional), cloud(conditional.shape[1])


@pytest.mark.parametrize(
    "lam",
    further((*LAMBDAS, 1.4), (0.0, 0.02, 0.9, 1.4)),
)
def test_bound_holds_and_is_attained(case, lam):
    conditional, pricer, posteriors = case
    for scale in (0.05, 1.0):
        prices = near_vertices(conditional, scale)
        priced = pricer.price(prices, lam, 10)
        assert priced.bound >= objective(conditional, prices, lam, posteriors).max()
        best = objective(conditional, prices, lam, priced.posteriors)
        assert priced.exact
        assert 0 <= priced.bound - best[0] <= 1.1 * TOLERANCE
        np.testing.assert_allclose(priced.posteriors.sum(axis=1), 1.0, atol=1e-12)


def test_a_constant_in_the_prices_moves_the_bound():
    conditional = CASES["four"] / CASES["four"].sum(axis=0)
    pricer, prices = BottleneckPricer(conditional), near_vertices(conditional, 0.05)
    for lam in (0.01, 0.4):
        plain, moved = pricer.price(prices, lam, 3), pricer.price(prices + 0.7, lam, 3)
        assert abs(moved.bound - (plain.bound - 0.7)) <= 2 * TOLERANCE


def test_order_and_splitting_of_symbols_do_not_matter():
    joint = CASES["generic"]
    conditional = joint / joint.sum(axis=0)
    prices, lam, share = near_vertices(conditional, 0.05), 0.1, 0.3
    plain = BottleneckPricer(conditional).price(prices, lam, 3).bound
    turned = BottleneckPricer(conditional[::-1][:, ::-1].copy()).price(prices[::-1].copy(), lam, 3).bound
    assert abs(plain - turned) <= 2 * TOLERANCE
    split = np.vstack([share * conditional[0], (1 - share) * conditional[0], conditional[1:]])
    less = -(share * np.log(share) + (1 - share) * np.log(1 - share)) * conditional[0]
    assert abs(BottleneckPricer(split).price(prices - less, lam, 3).bound - plain) <= 3 * TOLERANCE


def test_any_theta_bounds_a_cell_and_the_found_one_is_nearly_the_best():
    conditional = CASES["four"] / CASES["four"].sum(axis=0)
    rng = np.random.default_rng(2)
    prices = near_vertices(conditional, 0.05)
    posteriors = rng.dirichlet(np.ones(7), (30, 4))
    vertices = posteriors @ conditional.T
    inner = rng.dirichlet(np.ones(4), 200) @ posteriors  # (30, 200, X): r in the cell
    for lam in (1e-3, 0.1):
        theta, bounds = tightened(conditional, prices, lam, vertices, np.zeros((30, 4)), -np.inf)
        values = np.stack([objective(conditional, prices, lam, points) for points in inner])
        assert (values.max(axis=1) <= bounds).all()
        heights = (vertices @ theta[:, :, None])[:, :, 0] + xlogx(vertices).sum(axis=2)
        at_theta = heights.max(axis=1) + free_energy(conditional, prices, lam, theta)[0]
        assert (at_theta <= bounds + 1e-12).all()
        lost = xlogx(vertices).sum(axis=2).mean(axis=1) - xlogx(vertices.mean(axis=1)).sum(axis=1)
        for size in (1e-3, 1e-2, 1e-1, 1.0) * 10:
            other = theta + size * rng.normal(size=theta.shape)
            heights = (vertices @ other[:, :, None])[:, :, 0] + xlogx(vertices).sum(axis=2)
            there = heights.max(axis=1) + free_energy(conditional, prices, lam, other)[0]
            assert (there >= at_theta - 0.6 * lost).all()


def test_risen_points_are_stationary_and_no_worse():
    conditional = CASES["four"] / CASES["four"].sum(axis=0)
    prices, lam = near_vertices(conditional, 0.05), 0.15
    start = -np.log(conditional.T)
    before = objective(conditional, prices, lam, free_energy(conditional, prices, lam, start)[1])
    theta, weights, values = risen(conditional, prices, lam, start)
    assert (values >= before - 1e-12).all()
    np.testing.assert_allclose(theta, -np.log(weights @ conditional.T), atol=1e-6)


def test_an_exhausted_budget_is_reported_and_the_bound_still_holds():
    conditional = CASES["four"] / CASES["four"].sum(axis=0)
    prices, posteriors = near_vertices(conditional, 0.05), cloud(7)
    priced = BottleneckPricer(conditional, budget=5).price(prices, 0.05, 5)
    assert not priced.exact
    assert np.isfinite(priced.bound)
    assert priced.bound >= objective(conditional, prices, 0.05, posteriors).max()


def test_bad_input():
    conditional = CASES["four"] / CASES["four"].sum(axis=0)
    pricer = BottleneckPricer(conditional)
    with pytest.raises(ValueError, match="lambda"):
        pricer.price(np.zeros(7), float("nan"), 1)
    with pytest.raises(ValueError, match="prices"):
        pricer.price(np.full(7, np.inf), 0.1, 1)


def test_halves_fill_the_cell():
    cells = np.eye(4)[None]
    for _ in range(12):
        cells = halves(cells, distances(cells))
    assert len(cells) == 2**12
    np.testing.assert_array_equal(cells.sum(axis=2), 1.0)
    volume = np.abs(np.linalg.det(cells)).sum()
    np.testing.assert_allclose(volume, 1.0, rtol=1e-12)
    points = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    inside = np.linalg.solve(cells.transpose(0, 2, 1)[None], points[:, None, :, None])[..., 0]
    assert ((inside > -1e-12).all(axis=2).sum(axis=1) >= 1).all()
