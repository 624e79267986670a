"""The best mapping of single records: a grid of mappings, the channel of sequences, and the optimum without noise."""

from functools import reduce

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import databases as db
from jaxpriv.data.probability import mutual_information
from tests.cases import assert_refused


def by_sequences(count, p, lost, gained):
    """(I(S;U), E|X - U|) over all 2^n databases, U the count of the results."""
    record = np.array([[1 - gained, gained], [lost, 1 - lost]])
    mapped = reduce(np.kron, [record] * count)
    places = db.counts((2,) * count)
    channel = mapped @ (places[:, None] == np.arange(count + 1))
    prior = db.independent_prior([[1 - p, p]] * count)
    error = prior @ (channel * abs(places[:, None] - np.arange(count + 1))).sum(axis=1)
    return float(mutual_information(prior[:, None] * channel)), float(error)


@pytest.mark.parametrize(("count", "p", "budget"), [(3, 0.3, 0.4), (4, 0.5, 0.6), (4, 0.1, 0.2)])
def test_no_mapping_on_a_grid_is_better(count, p, budget):
    found = db.record_mapping(count, p, budget, tol=5e-3)
    assert found.gap <= 5e-3
    assert found.distortion <= budget
    leaked, error = by_sequences(count, p, found.mapping[1, 0], found.mapping[0, 1])
    assert found.leakage == pytest.approx(leaked, abs=1e-10)
    assert found.distortion == pytest.approx(error, abs=1e-12)
    grid = [by_sequences(count, p, a, b) for a in np.linspace(0, 1, 26) for b in np.linspace(0, 1, 26)]
    inside = [leaked for leaked, error in grid if error <= budget]
    assert len(inside) > 5
    assert min(inside) >= found.lower_bound
    output = jp.solve(
        jp.rate_distortion(
            db.counting_query(count, p).prior, abs(np.subtract.outer(range(count + 1), range(count + 1))), budget=budget
        )
    )
    assert output.lower_bound <= found.leakage  # a mapping of records is one of the count


def test_both_ends_of_the_budget():
    silent = db.record_mapping(3, 0.5, 1.0, tol=1e-3)  # the sum of three fair coins costs 0.9375
    assert silent.leakage <= 1e-3
    exact = db.record_mapping(3, 0.4, 0.0, tol=1e-3, max_steps=2000)
    np.testing.assert_array_equal(exact.mapping, np.eye(2))
    assert_refused("budget", db.record_mapping, 3, 0.4, -1.0)
    assert_refused("probability", db.record_mapping, 3, 1.4, 1.0)
