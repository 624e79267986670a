"""The pieces of branch and bound, and the whole of it without the theorem that posteriors are sparse."""

import itertools

import numpy as np
import pytest

from jaxpriv.funnels.pricing.branch_cells import distances, halves, xlogx
from jaxpriv.funnels.pricing.branch_curvature import gradient, stationary, surely_convex, surely_saddle
from jaxpriv.funnels.pricing.branching import search, threshold
from jaxpriv.funnels.pricing.sparse import SparseFunnelPricer

from .cases import psi
from .general import CASES, near_vertices


def face(seed, size, private=4, count=40):
    """Columns (C, k, S) and points q (C, k) with r = Tq (C, S)."""
    rng = np.random.default_rng(seed)
    columns = rng.dirichlet(np.ones(private), (count, size))
    weights = rng.dirichlet(np.ones(size), count)
    return columns, weights, (weights[:, None, :] @ columns)[:, 0]


def hessian(columns, weights, mixed, lam):
    """On an orthonormal basis of the directions that sum to zero."""
    size = columns.shape[1]
    basis = np.linalg.svd(np.ones((1, size)))[2][1:]
    whole = (columns / mixed[:, None, :]) @ columns.transpose(0, 2, 1) - lam * np.eye(size) / weights[:, None, :]
    return basis @ whole @ basis.T


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


@pytest.mark.parametrize("size", [2, 3, 4])
def test_curvature_at_a_point_is_that_of_the_hessian(size):
    columns, weights, mixed = face(1, size)
    for lam in (0.01, 0.1, 0.4):
        lowest = np.linalg.eigvalsh(hessian(columns, weights, mixed, lam))[:, 0]
        assert (surely_convex(columns, mixed, weights, lam) == (lowest > 0)).all()
        assert not surely_convex(columns, mixed, weights, lam)[lowest < 0].any()
        assert not (surely_saddle(columns, mixed, weights, lam) & (lowest >= 0)).any()


def test_curvature_of_a_box_holds_at_its_points():
    columns, weights, mixed = face(2, 3)
    _, others, other_mixed = face(3, 3)
    other_mixed = (others[:, None, :] @ columns)[:, 0]
    lam = 0.05
    convex = surely_convex(columns, np.maximum(mixed, other_mixed), np.minimum(weights, others), lam)
    saddle = surely_saddle(columns, np.minimum(mixed, other_mixed), np.maximum(weights, others), lam)
    assert convex.any()
    assert not convex.all()
    for t in np.linspace(0, 1, 7):
        between = (1 - t) * weights + t * others
        lowest = np.linalg.eigvalsh(hessian(columns, between, (between[:, None, :] @ columns)[:, 0], lam))[:, 0]
        assert (lowest[convex] > 0).all()
        assert (lowest[saddle] < 0).all()


def test_repeated_columns_are_never_surely_convex():
    columns, weights, mixed = face(4, 3)
    columns[:, 1] = columns[:, 0]
    mixed = (weights[:, None, :] @ columns)[:, 0]
    assert not surely_convex(columns, mixed, weights, 1e-9).any()
    assert surely_saddle(columns, mixed, weights, 1e-9).all()


def test_gradient_and_newton():
    columns, weights, _ = face(5, 3)
    lam, prices = 0.02, np.random.default_rng(6).normal(size=(len(columns), 3)) * 0.05

    def f(q):
        return xlogx((q[:, None, :] @ columns)[:, 0]).sum(1) - lam * xlogx(q).sum(1) - (prices * q).sum(1)

    slope, _ = gradient(columns, weights, prices, lam)
    np.testing.assert_allclose((slope * weights).sum(axis=1), f(weights), rtol=1e-12)
    step = 1e-6 * np.array([1.0, -0.4, -0.6])
    np.testing.assert_allclose((f(weights + step) - f(weights - step)) / 2, slope @ step, rtol=1e-6, atol=1e-15)
    rest = stationary(columns, weights, prices, lam)
    inner = (rest > 1e-3).all(axis=1)
    assert inner.any()
    slope, _ = gradient(columns[inner], rest[inner], prices[inner], lam)
    assert np.ptp(slope, axis=1).min() < 1e-9


@pytest.mark.parametrize("name", ["generic", "zeros", "repeated symbols", "fewer useful than private"])
@pytest.mark.parametrize("lam", [1e-3, 0.1, 0.6])
def test_all_faces_give_what_the_sparse_ones_give(name, lam):
    conditional = CASES[name] / CASES[name].sum(axis=0)
    private, useful = conditional.shape
    prices = near_vertices(conditional, 0.05)
    state = threshold(prices, lam, private, useful, tolerance=1e-8, budget=500_000)
    for size in range(1, useful + 1):
        symbols = np.array(list(itertools.combinations(range(useful), size)))
        search(conditional, symbols, prices, lam, state)
    sparse = SparseFunnelPricer(conditional).price(prices, lam, 1)
    assert abs(state.bound - sparse.bound) <= 2e-8
    assert state.bound <= (psi(sparse.posteriors, conditional, lam) - sparse.posteriors @ prices).min()
