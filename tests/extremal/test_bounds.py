"""The upper bound holds: against brute force, pooling, random mechanisms and private symbols."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from jaxpriv import leakage, maximum_utility
from jaxpriv._runtime.numerics import divergence
from jaxpriv.extremal.pricing import BoxPricer, RatioPricer
from jaxpriv.extremal.search import attempt
from jaxpriv.extremal.types import split_at
from jaxpriv.extremal.utility import posteriors
from tests.cases import drawn_joint
from tests.funnels.cases import information

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


@pytest.mark.parametrize("heavy", [0, 1, 3, 6])
@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_pooling_brackets_the_optimum(heavy, eps):
    p = np.random.default_rng(heavy).dirichlet(np.ones(11))
    low, high = math.exp(-eps), math.exp(eps)
    for make in (lambda s: RatioPricer(s, eps), lambda s: BoxPricer(s, 0.0, high), lambda s: BoxPricer(s, low, high)):
        exact = attempt(make(split_at(p, 2**16)), 1e-9)
        pooled = attempt(make(split_at(p, 2**16, heavy)), 1e-9)
        assert exact.upper_bound - exact.value < 1e-9
        assert pooled.value <= exact.upper_bound
        assert pooled.upper_bound >= exact.value
        np.testing.assert_allclose(pooled.weights @ pooled.lifts, 1.0, atol=1e-9)


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
            while leakage.evaluate(measure, joint, mechanism).value > 0.3:
                mechanism = 0.8 * mechanism + 0.2 * (p @ mechanism)
            assert information(p[:, None] * mechanism) <= result.upper_bound


def test_vertices_of_an_identity_joint_are_those_of_the_closed_forms():
    p, eps = np.array([0.4, 0.3, 0.2, 0.1]), 0.7
    relative = np.diag(1 / p)
    cases = [
        (posteriors(relative, 0.0, math.exp(eps)), box_vertices(p, 0.0, math.exp(eps))),
        (posteriors(relative, math.exp(-eps), math.exp(eps)), box_vertices(p, math.exp(-eps), math.exp(eps))),
        (posteriors(relative, 0.0, 1.0, math.exp(eps)), staircase(p, eps)),
    ]
    for found, wanted in cases:
        lifts = {tuple(row) for row in np.round(found / p, 9)}
        assert {tuple(row) for row in np.round(wanted, 9)} <= lifts


def test_large_ratios_lose_no_vertex():
    joint = drawn_joint(0, 2, 4)
    for eps in (20.0, 35.0, 100.0, 400.0):
        for measure in (LDP, LIFT):
            result = maximum_utility(joint, (measure, eps))
            p = joint.sum(axis=0)
            assert result.value == pytest.approx(-p @ np.log(p), abs=1e-6)
            assert result.status == "optimal"
