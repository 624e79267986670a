"""Baselines: what holds for every one of them."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv.leakage as lk
from jaxpriv import baselines, distortion
from tests.cases import value_of

from .cases import EPSILONS, FAMILIES, UNEVEN, apart, ldp, uniform

# All of them


@pytest.mark.parametrize("epsilon", [*EPSILONS, 5e-324, 700.0, 745.0, 1e3, 1e300, math.inf])
@pytest.mark.parametrize("name", FAMILIES)
def test_rows_are_distributions_at_every_epsilon(name, epsilon):
    table = FAMILIES[name](epsilon)
    assert type(table) is np.ndarray
    assert table.dtype == np.float64
    assert np.all(table >= 0)
    assert_allclose(table.sum(axis=1), 1.0, rtol=0, atol=2e-15)


@pytest.mark.parametrize("name", FAMILIES)
def test_zero_epsilon_releases_nothing(name):
    table = FAMILIES[name](0.0)
    assert_allclose(table, table[[0]].repeat(len(table), axis=0), rtol=0, atol=1e-16)
    assert value_of(lk.MutualInformation(), uniform(len(table)), table) == pytest.approx(0, abs=1e-15)
    assert ldp(table) == pytest.approx(0, abs=1e-15)


def test_infinite_epsilon_adds_no_noise():
    for table in (
        baselines.randomized_response(4, math.inf),
        baselines.geometric(4, math.inf),
        baselines.staircase(4, math.inf, 3),
        baselines.truncated_laplace([0.0, 1.0, 5.0, 5.5], math.inf),
        baselines.exponential(distortion.squared([0.0, 1.0, 5.0, 5.5]), math.inf),
        baselines.subset_selection(4, math.inf, 1),
        # e^-1000 is below the smallest number
        baselines.geometric(4, 1e3),
    ):
        assert_array_equal(table, np.eye(4))
    assert_array_equal(
        baselines.subset_selection(3, math.inf, 2), np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    )
    assert_allclose(baselines.staircase(9, math.inf, 3, 2)[4], [0, 0, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0, 0])


@pytest.mark.parametrize("epsilon", [0.0, 1.0, math.inf])
def test_one_symbol(epsilon):
    for table in (
        baselines.randomized_response(1, epsilon),
        baselines.subset_selection(1, epsilon, 1),
        baselines.geometric(1, epsilon),
        baselines.staircase(1, epsilon, 4),
        baselines.truncated_laplace([3.0], epsilon),
        baselines.exponential([[2.0]], epsilon),
        baselines.merging(1),
        baselines.merge([0]),
    ):
        assert_array_equal(table, [[1.0]])
    assert_array_equal(baselines.erasure(1, 0.25), [[0.75, 0.25]])


# Which symbols are to be as private as epsilon says: all of them in the other families.
ASKED = {
    "geometric": apart(np.arange(6), 1),
    "geometric, sensitivity 2.5": apart(np.arange(6), 2.5),
    "laplace": apart(UNEVEN, 1.5),
    **dict.fromkeys(("staircase", "staircase, width 2"), apart(np.arange(9), 3)),
}


@given(name=st.sampled_from(sorted(FAMILIES)), low=st.floats(0, 20), more=st.floats(0, 20))
def test_privacy_is_at_most_asked_and_leakage_grows_with_epsilon(name, low, more):
    asked = ASKED.get(name)
    table = FAMILIES[name](low)
    assert ldp(table, asked) <= low + 1e-12
    assert ldp(FAMILIES[name](low + more), asked) >= ldp(table, asked) - 1e-12
    # The prior-free cap of the whole table follows from LDP over all pairs.
    assert float(lk.prior_free_cap(table)) <= ldp(table) + 1e-12
