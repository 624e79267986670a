"""Column generation: which columns a pool holds."""

import numpy as np

from jaxpriv.column_generation import Pool


def test_a_pool_that_is_too_large_keeps_what_is_needed_and_what_costs_least():
    posteriors = np.random.default_rng(0).dirichlet(np.ones(3), 10)
    pool = Pool(np.array([0.5, 0.3, 0.2]), posteriors, np.arange(10.0), np.zeros(10))
    cost, needed = np.arange(10.0), np.arange(10) == 9
    assert pool.trimmed(cost, needed, 10) is pool
    np.testing.assert_array_equal(pool.trimmed(cost, needed, 6).a, [0.0, 1.0, 2.0, 9.0])
