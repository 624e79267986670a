"""Branch and bound over boxes of posteriors: nothing is cut off that could be best, in C and in NumPy alike."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv._runtime.clock import Clock
from jaxpriv.funnels.pricing import boxes
from jaxpriv.funnels.pricing.binary_funnel import BinaryFunnelPricer
from jaxpriv.funnels.pricing.box_steps import Search, stepped
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer
from jaxpriv.funnels.pricing.shapes import Entropy, Lagrangian
from tests.cases import drawn_joint, thorough
from tests.compiling import kernels

from .cases import conditional_of, entropy_of, psi

TOLERANCE = 1e-8


def instance(seed, private, useful, shape=1.0, zeros=0.0):
    """(T, prices of symbols alone less a random amount, lambda)."""
    rng = np.random.default_rng(seed)
    joint = drawn_joint(rng, private, useful, shape)
    joint[(rng.random(joint.shape) < zeros) & (joint < joint.max(axis=0))] = 0.0
    joint = joint[joint.sum(axis=1) > 0]
    conditional = conditional_of(joint)
    lam = float(rng.choice([0.02, 0.1, 0.3, 0.6, 0.9]))
    alone = psi(np.eye(useful), conditional, 0.0)
    return conditional, alone - lam * rng.choice([0.1, 0.5]) * rng.random(useful), lam


def rows_about(points, private, rng, margin=0.0):
    """Boxes with the rows of `points` (N, X) inside, at least `margin` from their ends; r is not confined."""
    count = len(points)
    low = np.maximum(points * rng.choice([0.0, 0.5, 0.99, 1.0], points.shape) - margin, 0.0)
    high = np.minimum(points + (1 - points) * rng.choice([0.0, 1e-3, 0.2, 1.0], points.shape) + margin, 1.0)
    high = np.where(high.sum(axis=1, keepdims=True) < 1 + 1e-9, 1.0, high)
    return np.hstack([low, high, points, np.zeros((count, private)), np.ones((count, private))])


def settled(point, conditional, prices, lam):
    """The end of q <- q^{1 + lambda} exp( nu - T'ln Tq ) from `point` (X,)."""
    used = point > 1e-9
    logs, columns = np.log(point[used]), conditional[:, used]
    for _ in range(20_000):
        mixed = columns @ np.exp(logs)
        seen = np.log(np.where(mixed > 0, mixed, 1.0))
        logs = (1 + lam) * logs + prices[used] - seen @ columns
        logs -= np.log(np.exp(logs).sum())
    found = np.zeros(len(point))
    found[used] = np.exp(logs)
    return found


def lagrangian_of(conditional, prices, lam):
    return Lagrangian(Entropy(len(conditional)), np.ascontiguousarray(conditional.T), prices, lam)


@functools.cache
def minimised(seed):
    """An instance, and its best posterior."""
    found = instance(seed, 2 + seed % 5, 4 + seed, shape=(0.3, 1.0)[seed % 2], zeros=0.2 * (seed % 3))
    conditional, prices, lam = found
    priced = BoxFunnelPricer(conditional, tolerance=1e-10).price(prices, lam, 1)
    return found, settled(priced.posteriors[0], conditional, prices, lam)


@pytest.mark.parametrize("step", [stepped, boxes._stepped], ids=["numpy", "kernel"])
@pytest.mark.parametrize("seed", range(12))
def test_boxes_about_a_minimiser_keep_it(seed, step):
    """Any box that holds a global minimiser still holds it after a step at a level of its value or more."""
    (conditional, prices, lam), best = minimised(seed)
    least = float(psi(best[None], conditional, lam, prices)[0])
    rng = np.random.default_rng(seed)
    rows = rows_about(np.repeat(best[None], 60, axis=0), len(conditional), rng, margin=1e-6)
    useful, lagrangian = len(prices), lagrangian_of(conditional, prices, lam)
    for above in (1e-9, 1e-4, 1e-2):
        search = Search(lagrangian, least + above, 1e-9)
        found = step(search, rows.copy(), np.full(len(rows), least - 0.5))
        assert (found.bounds <= least + 1e-12).all()
        low, high = found.rows[:, :useful], found.rows[:, useful : 2 * useful]
        # The minimiser is known to the accuracy of a descent only.
        assert (low <= best + 1e-6).all()
        assert (high >= best - 1e-6).all()
        r = conditional @ best
        spans = np.split(found.rows[:, 3 * useful :], 2, axis=1)
        assert (spans[0] <= r + 1e-6).all()
        assert (spans[1] >= r - 1e-6).all()


@kernels
@pytest.mark.parametrize("seed", range(8))
def test_the_kernel_computes_what_numpy_does(seed):
    conditional, prices, lam = instance(40 + seed, 2 + seed % 7, 5 + 3 * seed, zeros=0.15 * (seed % 2))
    rng = np.random.default_rng(seed)
    private = len(conditional)
    best = BoxFunnelPricer(conditional).price(prices, lam, 1).posteriors
    rows = rows_about(np.repeat(best, 60, axis=0), private, rng, margin=1e-3)
    least = float(psi(best, conditional, lam, prices)[0])
    search = Search(lagrangian_of(conditional, prices, lam), least + 1e-4, 1e-7)
    start = np.full(len(rows), -np.log(private) - prices.max())
    one, other = stepped(search, rows, start), boxes._stepped(search, rows.copy(), start.copy())
    open_ = np.isfinite(one.bounds)
    assert open_.any()
    assert_array_equal(open_, np.isfinite(other.bounds))
    assert_allclose(other.bounds[open_], one.bounds[open_], rtol=0, atol=1e-11)
    assert_allclose(other.rows[open_], one.rows[open_], rtol=0, atol=1e-7)
    assert_array_equal(other.symbol[open_], one.symbol[open_])
    assert_allclose(other.cut[open_], one.cut[open_], atol=1e-7)
    assert_allclose(other.gap[open_], one.gap[open_], atol=1e-7)
    assert_allclose(other.values[open_], one.values[open_], atol=1e-7)


def test_an_aim_that_holds_is_proved_and_no_more():
    conditional, prices, lam = instance(5, 6, 12)
    pricer = BoxFunnelPricer(conditional)
    least = pricer.price(prices, lam, 1).bound
    for below in (1e-2, 1e-5):
        priced = pricer.price(prices, lam, 1, aim=least - below)
        assert priced.exact
        assert least - below - 1e-10 <= priced.bound <= least
    missed = pricer.price(prices, lam, 4, aim=least + 0.01)
    assert missed.bound <= least + 1e-8
    assert psi(missed.posteriors[:1], conditional, lam, prices)[0] < least + 0.01


def test_a_search_without_time_proves_little_but_nothing_wrong():
    conditional, prices, lam = instance(8, 8, 40)
    pricer = BoxFunnelPricer(conditional)
    early = pricer.price(prices, lam, 4, Clock(0.0))
    assert not early.exact
    few = BoxFunnelPricer(conditional, budget=1).price(prices, lam, 4)
    least = psi(pricer.price(prices, lam, 1).posteriors, conditional, lam, prices)[0]
    assert early.bound <= few.bound <= least


def test_columns_that_are_equal_but_for_rounding_are_one_symbol():
    conditional, prices, lam = instance(9, 3, 6)
    twice = np.hstack([conditional, conditional * (1 + 1e-15)])
    more = np.concatenate([prices, prices - 0.1])
    pricer = BoxFunnelPricer(twice)
    assert len(pricer._classes) == 6
    both = pricer.price(more, lam, 3)
    assert both.bound == pytest.approx(BoxFunnelPricer(conditional).price(prices, lam, 3).bound, abs=2e-8)
    assert both.posteriors[:, 6:].max() == 0.0


@functools.cache
def _of_eight_private_symbols(share):
    """(a problem with a dense table, its solution, what was reported on the way)."""
    joint, records = drawn_joint(1, 8, 20), []
    problem = jp.FunnelProblem(joint, disclosure=share * entropy_of(joint))
    return problem, jp.solve(problem, progress=records.append), records


@pytest.mark.parametrize("share", [0.8, 0.95, *thorough(0.5)])
def test_a_dense_table_of_eight_private_symbols_is_proved(share):
    problem, solution, _ = _of_eight_private_symbols(share)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-6
    sure = BoxFunnelPricer(conditional_of(problem.core))
    proof = solution.proof
    assert proof is not None
    assert sure.price(proof.prices, proof.multiplier, 1, aim=proof.bound - 1e-9).bound >= proof.bound - 2e-9


def test_the_proof_goes_on_from_a_coarse_one():
    """A time limit would have left a bound: they rise, and several come before the last."""
    _, solution, records = _of_eight_private_symbols(0.8)
    bounds, values = [record.bound for record in records], [record.value for record in records]
    assert bounds == sorted(bounds)
    assert values == sorted(values, reverse=True) or np.ptp(values[-3:]) < 1e-9
    assert len({bound for bound in bounds if bound > 0}) >= 2
    assert max(bounds) <= solution.value


# 1,050 joints in all; the whole of them is the thorough test.
@pytest.mark.parametrize("chunk", [0, *thorough(*range(1, 21))])
def test_no_bound_is_above_the_best_of_many_descents(chunk):
    """Random joints, and the least value that is reached from 300 random starts and of symbols alone."""
    met = 0
    for seed in range(50 * chunk, 50 * (chunk + 1)):
        rng = np.random.default_rng(seed)
        private, useful = int(rng.integers(2, 9)), int(rng.integers(2, 16))
        conditional, prices, lam = instance(seed, private, useful, rng.choice([0.2, 1.0, 5.0]))
        starts = np.vstack([rng.dirichlet(np.full(useful, size), 100) for size in (0.1, 0.4, 1.0)])
        points = boxes.descended(lagrangian_of(conditional, prices, lam), (1 - 1e-6) * starts + 1e-6 / useful)
        priced = BoxFunnelPricer(conditional, budget=2_000_000).price(prices, lam, 1)
        best = psi(np.vstack([points, np.eye(useful), priced.posteriors]), conditional, lam, prices).min()
        assert priced.bound <= best + 1e-12, seed
        if priced.exact:
            assert priced.bound >= best - 2e-8, seed
            met += 1
        if private == 2:
            old = BinaryFunnelPricer(conditional).price(prices, lam, 1)
            assert old.bound <= best + 1e-12, seed
            if priced.exact:
                assert priced.bound == pytest.approx(old.bound, abs=2e-8), seed
    assert met >= 25
