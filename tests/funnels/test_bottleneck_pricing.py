"""The parts of the search over r = Tq; its bounds: `test_pricing.py`."""

import numpy as np
from numpy.testing import assert_allclose

from jaxpriv.funnels.pricing.bottleneck import (
    BottleneckPricer,
    free_energy,
    risen,
    tightened,
)

from .cases import conditional_of, psi
from .general import CASES, cloud, near_vertices


def test_the_bounds_of_cells_hold_in_them():
    conditional = conditional_of(CASES["four"])
    rng = np.random.default_rng(2)
    prices = near_vertices(conditional, 0.05)
    posteriors = rng.dirichlet(np.ones(7), (30, 4))
    vertices = posteriors @ conditional.T
    inner = rng.dirichlet(np.ones(4), 200) @ posteriors  # (30, 200, X): r in the cell
    for lam in (1e-3, 0.1):
        _, bounds = tightened(conditional, prices, lam, vertices, np.zeros((30, 4)), -np.inf)
        values = np.stack([psi(points, conditional, lam, prices) for points in inner])
        assert (values.max(axis=1) <= bounds).all()


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
