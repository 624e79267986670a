"""The parts of the search over r = Tq; its bounds: `test_pricing.py`."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv.funnels.pricing.bottleneck import (
    BottleneckPricer,
    distances,
    free_energy,
    halves,
    risen,
    tightened,
)

from .cases import conditional_of, psi, xlogx
from .general import CASES, cloud, near_vertices


def test_any_theta_bounds_a_cell_and_the_found_one_is_nearly_the_best():
    conditional = conditional_of(CASES["four"])
    rng = np.random.default_rng(2)
    prices = near_vertices(conditional, 0.05)
    posteriors = rng.dirichlet(np.ones(7), (30, 4))
    vertices = posteriors @ conditional.T
    inner = rng.dirichlet(np.ones(4), 200) @ posteriors  # (30, 200, X): r in the cell
    for lam in (1e-3, 0.1):
        theta, bounds = tightened(conditional, prices, lam, vertices, np.zeros((30, 4)), -np.inf)
        values = np.stack([psi(points, conditional, lam, prices) for points in inner])
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
    conditional = conditional_of(CASES["four"])
    prices, lam = near_vertices(conditional, 0.05), 0.15
    start = -np.log(conditional.T)
    before = psi(free_energy(conditional, prices, lam, start)[1], conditional, lam, prices)
    theta, weights, values = risen(conditional, prices, lam, start)
    assert (values >= before - 1e-12).all()
    assert_allclose(theta, -np.log(weights @ conditional.T), atol=1e-6)


def test_an_exhausted_budget_is_reported_and_the_bound_still_holds():
    conditional = conditional_of(CASES["four"])
    prices, posteriors = near_vertices(conditional, 0.05), cloud(7)
    priced = BottleneckPricer(conditional, budget=5).price(prices, 0.05, 5)
    assert not priced.exact
    assert np.isfinite(priced.bound)
    assert priced.bound >= psi(posteriors, conditional, 0.05, prices).max()


def test_halves_fill_the_cell():
    cells = np.eye(4)[None]
    for _ in range(12):
        cells = halves(cells, distances(cells))
    assert len(cells) == 2**12
    assert_array_equal(cells.sum(axis=2), 1.0)
    volume = np.abs(np.linalg.det(cells)).sum()
    assert_allclose(volume, 1.0, rtol=1e-12)
    points = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    inside = np.linalg.solve(cells.transpose(0, 2, 1)[None], points[:, None, :, None])[..., 0]
    assert ((inside > -1e-12).all(axis=2).sum(axis=1) >= 1).all()
