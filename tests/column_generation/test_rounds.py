"""Column generation: which columns a pool holds, and when rounds end."""

import numpy as np
import pytest

from jaxpriv._runtime.clock import Clock
from jaxpriv.column_generation import MOST, Pool, best_plan
from jaxpriv.column_generation.rounds import generate_columns
from tests.information import divergence

SOURCE = np.array([0.5, 0.3, 0.2])


def pool_of(posteriors, origins=None):
    """What a posterior discloses is to be as much as possible."""
    posteriors = np.atleast_2d(posteriors)
    return Pool(SOURCE, posteriors, divergence(posteriors / SOURCE, SOURCE), np.zeros(len(posteriors)), origins=origins)


def rounds(start, ways, **changed):
    settings = {
        "closed": lambda *_: False, "worth": lambda _: 1e-12, "rounds": 50, "clock": Clock(), "report": lambda *_: None
    }  # fmt: skip
    return generate_columns(start, MOST, ways, **{**settings, **changed})


def symbols(plan, pool):
    """Every symbol alone, and the bound that these prices prove: D is convex, so nothing else is better."""
    alone = pool_of(np.eye(3))
    (prices,) = plan.prices
    return -float(SOURCE @ prices + alone.reduced(prices, 0.0).max()), alone


def nothing(plan, pool):
    return -np.inf, pool.take(np.arange(0))


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


def test_rounds_try_their_ways_in_order_and_end_with_the_optimum():
    found = rounds(pool_of(SOURCE), (nothing, symbols))
    entropy = -float(SOURCE @ np.log(SOURCE))
    assert found.ended
    assert found.plan.value == pytest.approx(-entropy)
    assert found.bound == pytest.approx(-entropy)
    pool, weights = found.used
    np.testing.assert_allclose(weights @ pool.posteriors, SOURCE)


def test_rounds_end_early():
    assert not rounds(pool_of(SOURCE), (symbols,), rounds=0).ended
    assert not rounds(pool_of(SOURCE), (symbols,), clock=Clock(0.0)).ended
    closed = rounds(pool_of(SOURCE), (symbols,), closed=lambda plan, _: plan.value < -0.5)
    assert (closed.ended, closed.rounds) == (True, 1)
