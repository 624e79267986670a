"""Baselines: additive noise, clamped; Laplace and exponential mechanisms."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import laplace

import jaxpriv.leakage as lk
from jaxpriv import baselines
from tests.cases import value_of

from .cases import UNEVEN, apart, ldp, uniform

# Additive noise, clamped


def clamped_by_sum(size, noise):
    """x + Z clamped, by adding up P(Z = z) over a long range: an oracle that knows no tail formula."""
    table = np.zeros((size, size))
    for x in range(size):
        for z in range(-3000, 3001):
            table[x, min(max(x + z, 0), size - 1)] += noise(abs(z))
    return table


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 5.0])
@pytest.mark.parametrize("sensitivity", [1, 2.5])
def test_geometric_is_its_definition(epsilon, sensitivity):
    a = math.exp(-epsilon / sensitivity)
    expected = clamped_by_sum(5, lambda m: (1 - a) / (1 + a) * a**m)
    assert_allclose(baselines.geometric(5, epsilon, sensitivity), expected, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 1.0, 8.0])
def test_geometric_is_exactly_private_at_every_distance(epsilon):
    table = baselines.geometric(7, epsilon)
    for k in range(1, 7):
        assert ldp(table, apart(np.arange(7), k)) == pytest.approx(k * epsilon, rel=1e-12, abs=1e-15)
    # Every output is likeliest at its own input: 1/(1+a) at the two ends, (1-a)/(1+a) between.
    a = math.exp(-epsilon)
    total = (2 + 5 * -math.expm1(-epsilon)) / (1 + a)
    assert value_of(lk.MaximalLeakage(), uniform(7), table) == pytest.approx(math.log(total), abs=1e-14)


def steps(epsilon, sensitivity, width):
    """P(Z = z) up to a factor, step by step from the definition in words."""
    heights = [1.0] * width
    for level in range(1, 3100 // sensitivity + 2):
        heights += [math.exp(-level * epsilon)] * sensitivity
    total = heights[0] + 2 * math.fsum(heights[1:])
    return [height / total for height in heights]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize(("sensitivity", "width"), [(1, 1), (2, 1), (2, 2), (5, 1), (5, 3), (5, 5)])
def test_staircase_is_its_definition(epsilon, sensitivity, width):
    noise = steps(epsilon, sensitivity, width)
    # Private before clamping: any shift by at most the sensitivity costs at most epsilon, one costs all of it.
    both = np.log(np.array(noise[60:0:-1] + noise[:61]))
    worst = [np.max(np.abs(both[shift:] - both[:-shift])) for shift in range(1, sensitivity + 1)]
    assert max(worst) == pytest.approx(epsilon, rel=1e-12)
    assert_allclose(
        baselines.staircase(8, epsilon, sensitivity, width), clamped_by_sum(8, noise.__getitem__), rtol=1e-12
    )


@pytest.mark.parametrize("epsilon", [1e-9, 0.4, 3.0])
@pytest.mark.parametrize("width", [1, 2, 3, None])
def test_staircase_is_exactly_private_after_clamping(epsilon, width):
    table = baselines.staircase(10, epsilon, 3, width)
    near = {"rel": 1e-12, "abs": 1e-15}
    assert ldp(table, apart(np.arange(10), 3)) == pytest.approx(epsilon, **near)
    assert ldp(table, apart(np.arange(10), 6)) == pytest.approx(2 * epsilon, **near)
    assert ldp(table, apart(np.arange(10), 9)) == pytest.approx(3 * epsilon, **near)
    # Symbols closer than the sensitivity are as far apart as it, if a step begins between them.
    assert ldp(table, apart(np.arange(10), 1)) == pytest.approx(epsilon, **near)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 5.0, 9.0])
@pytest.mark.parametrize("sensitivity", [2, 5, 12])
def test_default_width_has_the_least_mean_noise(epsilon, sensitivity):
    widths = range(1, sensitivity + 1)
    means = [2 * math.fsum(m * p for m, p in enumerate(steps(epsilon, sensitivity, width))) for width in widths]
    best = 1 + int(np.argmin(means))
    assert_array_equal(baselines.staircase(8, epsilon, sensitivity), baselines.staircase(8, epsilon, sensitivity, best))
    # Geng and Viswanath: gamma = 1/(1 + e^(eps/2)) for real-valued noise; widths are gamma D rounded up or down.
    assert abs(best - sensitivity / (1 + math.exp(epsilon / 2))) <= 1


# Laplace


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 2.0, 20.0])
def test_laplace_is_its_definition(epsilon):
    edges = np.concatenate([[-np.inf], (UNEVEN[1:] + UNEVEN[:-1]) / 2, [np.inf]])
    scale = 1.5 / epsilon
    lower, upper = laplace.cdf(edges, loc=UNEVEN[:, None], scale=scale), laplace.sf(edges, UNEVEN[:, None], scale)
    # The difference of whichever tail is the smaller keeps the digits.
    expected = np.where(lower[:, 1:] < 0.5, np.diff(lower), -np.diff(upper))
    table = baselines.truncated_laplace(UNEVEN, epsilon, 1.5)
    assert_allclose(table, expected, rtol=1e-9 if epsilon < 1e-3 else 1e-13)


def test_laplace_far_tails_keep_their_digits():
    table = baselines.truncated_laplace(np.arange(7.0), 100.0)
    # (e^(-100 (m - 1/2)) - e^(-100 (m + 1/2)))/2 at distance m: about 1e-196, lost in 1 - (1 - small).
    assert math.log(table[0, 5]) == pytest.approx(-math.log(2) - 450.0, abs=1e-12)
    assert math.log(table[6, 1]) == pytest.approx(-math.log(2) - 450.0, abs=1e-12)
    assert math.log(table[0, 6]) == pytest.approx(-math.log(2) - 550.0, abs=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 3.0])
def test_laplace_is_exactly_private_at_every_distance(epsilon):
    table = baselines.truncated_laplace(2.0 * np.arange(8), epsilon, 2.0)
    for k in range(1, 7):  # an output outside of both inputs exists
        asked = apart(np.arange(8), k)
        assert ldp(table, asked) == pytest.approx(k * epsilon, rel=1e-12, abs=2e-15)
    # The two ends have none: P(n-1|n-1) = 1 - e^(-eps/2)/2 and P(n-1|0) = e^(-(n - 3/2) eps)/2.
    ends = math.log((1 - math.exp(-epsilon / 2) / 2) / (math.exp(-6.5 * epsilon) / 2))
    only = np.zeros((8, 8), dtype=bool)
    only[7, 0] = True
    assert ldp(table, only) == pytest.approx(max(ends, 6 * epsilon), rel=1e-10)
    assert ends < 7 * epsilon


def test_laplace_at_the_edge_of_the_number_range():
    close = np.array([1.0, np.nextafter(1.0, 2.0), 2.0])
    assert_array_equal(baselines.truncated_laplace(close, math.inf), np.eye(3))
    tiny = np.array([0.0, 5e-324, 1e-323])
    assert_array_equal(baselines.truncated_laplace(tiny, math.inf), np.eye(3))
    assert_array_equal(baselines.truncated_laplace([-4e307, 0.0, 4e307], 1e300, 1e-300), np.eye(3))


# Exponential


@given(seed=st.integers(0, 10**6), epsilon=st.floats(0, 100), x=st.integers(1, 5), y=st.integers(1, 5))
def test_exponential_is_its_definition_and_private(seed, epsilon, x, y):
    rng = np.random.default_rng(seed)
    costs = rng.normal(size=(x, y))
    table = baselines.exponential(costs, epsilon)
    spread = np.max(costs.max(axis=0) - costs.min(axis=0))
    if x > 1:
        weights = np.exp(-epsilon * (costs - costs.min(axis=1, keepdims=True)) / (2 * spread))
        assert_allclose(table, weights / weights.sum(axis=1, keepdims=True), rtol=1e-12, atol=1e-300)
    assert not np.all(table > 0) or ldp(table) <= epsilon + 1e-12
    # Neither a cost of the input alone nor the names of the symbols change anything.
    rows, columns = rng.permutation(x), rng.permutation(y)
    moved = costs[rows][:, columns] + 2.0 ** rng.integers(0, 3)
    if x > 1:
        assert_allclose(baselines.exponential(moved, epsilon), table[rows][:, columns], rtol=1e-10)


def test_exponential_without_sensitivity():
    costs = [[2.0, 1.0, 1.0], [2.0, 1.0, 1.0]]
    assert_array_equal(baselines.exponential(costs, 1e-3), [[0.0, 0.5, 0.5]] * 2)
    assert_array_equal(baselines.exponential(costs, 0.0), np.full((2, 3), 1 / 3))
    # Ties share at infinite epsilon.
    assert_array_equal(baselines.exponential([[0.0, 0.0, 1.0], [5.0, 3.0, 4.0]], math.inf)[0], [0.5, 0.5, 0])
