"""The upper bound holds: against brute force, pooling, random mechanisms and private symbols."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from jaxpriv import leakage, maximum_utility
from jaxpriv.extremal import record_utility
from tests.cases import drawn_joint, value_of
from tests.funnels.cases import information
from tests.information import divergence

LDP, PML, LIFT = leakage.LocalDifferentialPrivacy(), leakage.MaxLift(), leakage.Lift()
RNG = np.random.default_rng(3)


def staircase(p, eps):
    columns = np.array(list(itertools.product([1.0, math.exp(eps)], repeat=len(p))))
    return columns / (columns @ p)[:, None]


def box_vertices(p, low, high):
    rows = []
    for free in range(len(p)):
        others = np.delete(np.arange(len(p)), free)
        for choice in itertools.product([low, high], repeat=len(p) - 1):
            lift = np.empty(len(p))
            lift[others] = choice
            lift[free] = (1 - p[others] @ lift[others]) / p[free]
            if low - 1e-12 <= lift[free] <= high + 1e-12:
                rows.append(np.clip(lift, low, high))
    return np.array(rows)


def by_listing(lifts, p):
    result = linprog(-divergence(lifts, p), A_eq=lifts.T, b_eq=np.ones(len(p)), method="highs")
    return -result.fun


def sources():
    yield np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    yield np.array([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])  # two types
    yield RNG.dirichlet(np.ones(7))
    yield RNG.dirichlet(np.full(7, 0.3))


@pytest.mark.parametrize("eps", [0.2, 1.0, 3.0])
def test_agrees_with_the_listed_vertices(eps):
    for p in sources():
        cases = [
            (LDP, staircase(p, eps)),
            (PML, box_vertices(p, 0.0, math.exp(eps))),
            (LIFT, box_vertices(p, math.exp(-eps), math.exp(eps))),
        ]
        for measure, vertices in cases:
            result = maximum_utility(p, (measure, eps))
            assert result.value == pytest.approx(by_listing(vertices, p), abs=1e-8)
            assert result.status == "optimal"
            assert result.gap < 1e-10


@pytest.mark.parametrize("eps", [1.5, 3.0])
def test_column_generation_agrees_with_the_listed_vertices(eps):
    p = np.random.default_rng(0).dirichlet(np.ones(13))
    result = maximum_utility(p, (LDP, eps))
    assert (result.method, result.status) == ("column generation", "optimal")
    assert result.value == pytest.approx(by_listing(staircase(p, eps), p), abs=1e-8)


@pytest.mark.parametrize("measure", [LDP, PML, LIFT])
def test_limits_on_s(measure):
    rng = np.random.default_rng(5)
    for _ in range(3):
        joint = drawn_joint(rng, 3, 4)
        p = joint.sum(axis=0)
        result = maximum_utility(joint, (measure, 0.3))
        assert result.status == "optimal"
        assert result.leakage[0] <= 0.3
        on_x = maximum_utility(p, (measure, 0.3))
        assert result.upper_bound >= on_x.value  # S tells less than X: its limit is the weaker one
        for mechanism in rng.dirichlet(np.full(4, 0.5), (50, 4)):
            while value_of(measure, joint, mechanism) > 0.3:
                mechanism = 0.8 * mechanism + 0.2 * (p @ mechanism)
            assert information(p[:, None] * mechanism) <= result.upper_bound


def test_large_ratios_lose_no_vertex():
    joint = drawn_joint(0, 2, 4)
    for eps in (20.0, 35.0, 100.0, 400.0):
        for measure in (LDP, LIFT):
            result = maximum_utility(joint, (measure, eps))
            p = joint.sum(axis=0)
            assert result.value == pytest.approx(-p @ np.log(p), abs=1e-6)
            assert result.status == "optimal"


@pytest.mark.parametrize("rare", [1e-6, 1e-8, 1e-12])
def test_rare_symbols_lose_no_vertex(rare):
    """Of a posterior of size 1 they have no digits: a bound of 0 was proved where half a nat is disclosed."""
    p = np.array([rare, 0.6, 0.4 - rare])
    for measure, eps in ((PML, 3.0), (LDP, 0.5), (LIFT, 1.0)):
        best = maximum_utility(p, (measure, eps))
        # The last symbol in two equal halves, which tell nothing of S.
        halves = np.diag(p)[:, [0, 1, 2, 2]] * [1, 1, 0.5, 0.5]
        result = maximum_utility(halves, (measure, eps))
        assert result.value == pytest.approx(best.value + p[2] * math.log(2), abs=1e-9)
        assert result.status == "optimal"
    record = record_utility(p, (3,), 3.0)
    assert record.value == pytest.approx(maximum_utility(p, (PML, 3.0)).value, abs=1e-9)
    assert record.gap < 1e-9
