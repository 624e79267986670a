"""Counting queries: both perturbations, their eps, and agreement of sequences and counts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jaxpriv import databases as db
from jaxpriv.errors import ResourceError
from tests.cases import assert_refused, raised


def sequence_level(eps, n):
    """Randomised response on every record, outputs merged by count."""
    merged = np.zeros((2**n, n + 1))
    np.add.at(merged.T, db.counts((2,) * n), db.perturbed_records((2,) * n, eps).T)
    return merged


@pytest.mark.parametrize("eps", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_input_perturbation(n, eps):
    sizes = (2,) * n
    records = db.perturbed_records(sizes, eps)
    assert db.dependent_records_privacy(records, sizes).value == pytest.approx(eps, rel=1e-12)
    channel = db.perturbed_count(n, eps)
    assert_allclose(channel[db.counts(sizes)], sequence_level(eps, n), rtol=1e-11)
    # The sum of the answers is post-processing; the count n of n ones is told apart from n - 1 by one record.
    counted = db.differential_privacy(channel, db.count_neighbours(n)).value
    assert counted == pytest.approx(eps, rel=1e-11)


@pytest.mark.parametrize("eps", [0.05, 1.0, 5.0])
def test_output_perturbation(eps):
    n = 6
    channel = db.geometric_count(n, eps)
    assert_allclose(channel.sum(axis=1), 1.0)
    for k in (1, 3, 6):
        assert db.differential_privacy(channel, db.count_neighbours(n, k)).value == pytest.approx(k * eps)
    sequences = channel[db.counts((2,) * n)]
    assert db.dependent_records_privacy(sequences, (2,) * n, 3).value == pytest.approx(3 * eps)


def test_large_eps_and_records_do_not_overflow():
    assert np.array_equal(db.perturbed_records((3, 2), 800.0), np.eye(6))
    assert_allclose(db.perturbed_count(30, 800.0), np.eye(31), atol=1e-300)
    assert np.array_equal(db.geometric_count(4, 800.0), np.eye(5))
    assert_allclose(db.perturbed_count(40, 45.0).sum(axis=1), 1.0)
    # A flip of 3e-20 is not forgotten.
    assert db.differential_privacy(db.perturbed_count(2, 45.0), db.count_neighbours(2)).value == pytest.approx(45.0)


@pytest.mark.parametrize("eps", [0.0, -1.0, np.inf, np.nan, 1e-20, True])
@pytest.mark.parametrize(
    "build",
    [
        lambda eps: db.perturbed_records((2, 2), eps),
        lambda eps: db.perturbed_count(3, eps),
        lambda eps: db.geometric_count(3, eps),
        lambda eps: db.sparse_count_leakage(4, 2, eps),
        lambda eps: db.sparse_count_bound(4, 2, eps),
    ],
)
def test_bad_eps(build, eps):
    assert_refused("eps", build, eps)


def test_single_symbol_and_bad_sizes():
    assert np.array_equal(db.perturbed_records((1, 1), 0.5), [[1.0]])
    assert_refused("records", db.geometric_count, 0, 1.0)
    assert_refused("records", db.perturbed_count, 2.5, 1.0)


@pytest.mark.parametrize(
    "build",
    [
        lambda records: db.counting_query(records, 0.5),
        lambda records: db.record_mapping(records, 0.5, 0.1),
        lambda records: db.sparse_count_leakage(records, 1, 1.0),
        lambda records: db.sparse_count_leakage(records, records // 2, 1.0, "geometric"),
    ],
)
def test_too_many_records(build):
    assert_refused("records must be a whole number >= 1 and below 2", build, 10**30)
    with raised(ResourceError, "use fewer records"):
        build(2**50)
    assert_refused("records must be", db.sparse_count_bound, 10**30, 1, 1.0)
