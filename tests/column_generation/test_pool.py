"""Column generation: which columns a pool holds."""

import numpy as np
import pytest

from jaxpriv.column_generation import MOST, Pool, best_plan
from tests.information import divergence

SOURCE = np.array([0.5, 0.3, 0.2])


def pool_of(posteriors, origins=None):
    """What a posterior discloses is to be as much as possible."""
    posteriors = np.atleast_2d(posteriors)
    return Pool(SOURCE, posteriors, divergence(posteriors / SOURCE, SOURCE), np.zeros(len(posteriors)), origins=origins)


def test_a_column_that_is_known_is_not_added_but_another_value_of_the_same_posterior_is():
    pool = pool_of(np.eye(3))
    assert len((pool + pool_of(np.eye(3)[:2] + 1e-12)).a) == 3
    made = pool_of(SOURCE, np.array(["one"], dtype=object))
    other = Pool(SOURCE, made.posteriors, made.a + 0.1, made.b, origins=np.array(["other"], dtype=object))
    both = made + other
    assert list(both.origins) == ["one", "other"]
    assert best_plan((both,), MOST).value == pytest.approx(-0.1)


def test_a_pool_that_is_too_large_keeps_what_is_needed_and_what_costs_least():
    pool = pool_of(np.random.default_rng(0).dirichlet(np.ones(3), 10))
    cost, needed = np.arange(10.0), np.arange(10) == 9
    assert pool.trimmed(cost, needed, 10) is pool
    np.testing.assert_array_equal(pool.trimmed(cost, needed, 6).a, pool.a[[0, 1, 2, 9]])
