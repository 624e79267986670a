"""Exact pricing: the bound holds for every posterior, and the best posterior attains it, by every method."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv._runtime.clock import Clock
from jaxpriv.funnels.pricing import blocks_of, exact_pricer
from jaxpriv.funnels.pricing.bottleneck import BottleneckPricer
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer
from jaxpriv.funnels.pricing.local import LocalPricer
from tests.cases import drawn_joint, thorough

from .cases import binary_symmetric, block_joint, conditional_of, entropy, psi
from .general import CASES, LAMBDAS, cloud, near_vertices


def with_zeros(seed, useful):
    """A binary S that some symbols tell for sure, with two symbols that tell the same."""
    joint = drawn_joint(seed, 2, useful)
    joint[0, 0] = joint[1, 1] = 0.0
    joint[:, 2] = 0.5 * joint[:, 3]
    return joint / joint.sum()


STRUCTURED = {
    "two symbols": binary_symmetric(0.3, 0.1),
    "binary": drawn_joint(1, 2, 6),
    "binary with zeros": with_zeros(2, 7),
    "attribute": block_joint(3, [(2, 3), (1, 2), (2, 2), (1, 1)]),
    "X = S and noise": block_joint(4, [(1, 1), (1, 2), (1, 3)]),
}


class Method(NamedTuple):
    """Of P(S|X); `sign` 1: its bound is below all posteriors, -1: above; its accuracy; what is tried."""

    made: Any
    sign: float
    tolerance: float
    joints: dict[str, np.ndarray]
    lambdas: tuple[float, ...]
    scales: tuple[float, ...]
    count: int
    rounding: float = 0.0  # of a closed form, whose accuracy is relative to the prices


def of_parts(*, funnel):
    return Method(
        made=lambda given: exact_pricer(given / given.shape[1], funnel=funnel),
        sign=1.0 if funnel else -1.0,
        tolerance=1e-9,
        joints=STRUCTURED,
        lambdas=(0.0, 1e-6, 0.03, 0.4, 0.93, 1 - 1e-9),
        scales=(0.0, 0.02, 0.3, 3.0),
        count=4000,
        rounding=1e-15,
    )


METHODS = {
    "funnel of parts": of_parts(funnel=True),
    "bottleneck of parts": of_parts(funnel=False),
    "boxes": Method(BoxFunnelPricer, 1.0, 1e-8, CASES, LAMBDAS, (0.0, 0.02, 0.3), 4000),
    "bottleneck": Method(BottleneckPricer, -1.0, 1e-9, CASES, (0.0, 0.02, 0.9, 1.4), (0.05, 1.0), 20_000),
}
GENERAL = [METHODS["boxes"], METHODS["bottleneck"]]


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, method) for method in METHODS.values() for name in method.joints]
    + thorough(*((name, GENERAL[1]._replace(lambdas=(1e-6, 0.3))) for name in CASES)),
)
def test_bound_holds_and_is_attained(name, method):
    conditional, sign = conditional_of(method.joints[name]), method.sign
    pricer, points = method.made(conditional), cloud(conditional.shape[1], method.count)
    private, useful = psi(points, conditional, 0.0), entropy(points, axis=1)  # for all weights and prices
    for lam in method.lambdas:
        for scale in method.scales:
            prices = near_vertices(conditional, scale)
            priced = pricer.price(prices, lam, 12)
            assert priced.exact
            assert 1 <= len(priced.posteriors) <= 12
            assert priced.posteriors.min() >= 0
            assert_allclose(priced.posteriors.sum(axis=1), 1.0, atol=1e-12)
            best = sign * psi(priced.posteriors, conditional, lam, prices)
            assert best[0] <= best.min() + 1e-13
            size = 1 + abs(prices).max() if method.rounding else 1.1
            assert -method.rounding <= best[0] - sign * priced.bound <= method.tolerance * size, (lam, scale)
            assert sign * priced.bound <= (sign * (private + lam * useful - points @ prices)).min(), (lam, scale)


def test_tiny_weights_are_found():
    """A minimum at w = e^-40 is one: the search is in log-odds."""
    joint = np.array([[0.5, 0.01], [0.0, 0.49]])
    conditional = conditional_of(joint)
    lam, aim = 0.5, np.exp(-40.0)
    difference = conditional[1, 1]
    rise = difference * np.log(difference * aim) - lam * np.log(aim)
    priced = exact_pricer(joint, funnel=True).price(np.array([0.0, rise]), lam, 3)
    assert priced.posteriors[:, 1].min() == 0.0
    inside = priced.posteriors[(priced.posteriors[:, 1] > 0) & (priced.posteriors[:, 1] < 1)]
    assert_allclose(np.log(inside[:, 1]), -40.0, atol=1e-8)


def test_blocks_are_the_components_of_the_support():
    joint = block_joint(7, [(2, 3), (1, 2), (3, 4)])
    blocks = blocks_of(joint)
    assert sorted(block.joint.shape for block in blocks) == [(1, 2), (2, 3), (3, 4)]
    rebuilt = np.zeros_like(joint)
    for block in blocks:
        rebuilt[np.ix_(block.private, block.useful)] = block.mass * block.joint
        assert block.joint.sum() == pytest.approx(1.0)
    assert_allclose(rebuilt, joint, rtol=1e-14)


@pytest.mark.parametrize("funnel", [True, False], ids=["funnel", "bottleneck"])
def test_local_pricing_agrees_with_exact_pricing(funnel):
    joint = drawn_joint(11, 2, 5)
    conditional = conditional_of(joint)
    local, exact = LocalPricer(conditional, funnel=funnel), exact_pricer(joint, funnel=funnel)
    base = psi(np.eye(5), conditional, 0.0)
    rng = np.random.default_rng(1)
    for lam in (0.1, 0.6):
        prices = base + 0.1 * rng.normal(size=5)
        found, sure = local.price(prices, lam, 4), exact.price(prices, lam, 4)
        value = psi(found.posteriors[:1], conditional, lam, prices)
        assert not np.isfinite(found.bound)
        assert not found.exact
        assert value[0] == pytest.approx(sure.bound, abs=1e-9)


def test_joints_without_exact_pricing_say_so():
    assert exact_pricer(block_joint(1, [(2, 3), (9, 20)]), funnel=False) is None
    assert exact_pricer(block_joint(1, [(2, 3), (30, 900)]), funnel=True) is None


def local_search():
    """The conditional, a local pricer, and the prices at which symbols alone cost nothing."""
    conditional = conditional_of(drawn_joint(1, 3, 6))
    return conditional, LocalPricer(conditional, funnel=True), psi(np.eye(6), conditional, 0.0)


def test_a_local_search_that_the_clock_ends_gives_the_atoms_it_has():
    conditional, local, prices = local_search()
    local.price(prices, 0.3, 4)  # compiles
    found = local.price(prices, 0.3, 4, Clock(0.0))
    assert found.bound == -np.inf
    assert_allclose(found.posteriors.sum(axis=1), 1.0)
    values = psi(found.posteriors, conditional, 0.3, prices)
    assert values[0] == values.min() < 0.0


@pytest.mark.usefixtures("forgotten")
def test_a_local_search_without_the_time_to_compile_gives_the_symbols_alone():
    conditional, local, prices = local_search()
    found = local.price(prices, 0.3, 4, Clock(0.1))
    order = np.argsort(psi(np.eye(6), conditional, 0.3, prices))
    assert_array_equal(found.posteriors, np.eye(6)[order[:4]])


def test_an_exhausted_budget_is_reported_and_the_bound_still_holds():
    conditional = conditional_of(CASES["four"])
    prices, posteriors = near_vertices(conditional, 0.05), cloud(7)
    priced = BottleneckPricer(conditional, budget=5).price(prices, 0.05, 5)
    assert not priced.exact
    assert np.isfinite(priced.bound)
    assert priced.bound >= psi(posteriors, conditional, 0.05, prices).max()


def test_the_search_over_one_number_is_tight_for_clustered_columns():
    """Columns near (1, 0) and (0, 1): r of many orders of magnitude, maxima next to the ends of wide intervals."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        useful = int(rng.integers(2, 40))
        conditional = rng.dirichlet(np.full(2, 0.05), useful).T.copy()
        conditional[:, 0] = rng.permutation([1.0, 0.0])
        lam, scale = float(10 ** rng.uniform(-6, 0)), rng.choice([0.001, 0.1, 2.0])
        prices = scale * rng.normal(size=useful)
        priced = exact_pricer(conditional / useful, funnel=False).price(prices, lam, 5)
        best = psi(priced.posteriors, conditional, lam, prices).max()
        size = float(np.abs(prices).max()) + 2.0 + lam * np.log(useful)
        assert 0 <= priced.bound - best <= 1.2e-11 * size
