"""Theorem 4 of Calmon and Fawaz: exact leakage against channels and quadrature, and the paper's bound."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from jaxpriv import databases as db
from jaxpriv.data.probability import mutual_information
from tests.cases import assert_refused


@pytest.mark.parametrize(
    ("n", "k", "eps"), [(12, 3, 0.5), (12, 1, 0.1), (10, 10, 2.0), (60, 5, 1.0), (6, 2, 400.0), (6, 3, 1e-6)]
)
def test_geometric_against_the_channel(n, k, eps):
    prior = np.zeros(n + 1)
    prior[::k] = 1 / (1 + n // k)
    exact = float(mutual_information(prior[:, None] * db.geometric_count(n, eps)))
    assert db.sparse_count_leakage(n, k, eps, "geometric") == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize(("n", "k", "eps"), [(12, 3, 0.5), (8, 1, 0.1), (10, 10, 0.7), (15, 5, 1.0)])
def test_laplace_against_quadrature(n, k, eps):
    places = np.arange(0, n + 1, k)

    def surprise(y):
        density = np.mean(eps / 2 * np.exp(-eps * abs(y - places)))
        return -density * np.log(density)

    ends = [-40 / eps, *places, n + 40 / eps]
    output = sum(quad(surprise, a, b, epsabs=1e-13, limit=200)[0] for a, b in itertools.pairwise(ends))
    assert db.sparse_count_leakage(n, k, eps) == pytest.approx(output - 1 - np.log(2 / eps), abs=1e-10)


@pytest.mark.parametrize("noise", ["geometric", "laplace"])
def test_the_papers_bound_holds_and_leakage_grows(noise):
    for eps in (0.01, 0.1, 1.0, 30.0):
        for k in (1, 2, 7, 100):
            values = []
            for groups in (1, 2, 10, 1000):
                exact = db.sparse_count_leakage(groups * k, k, eps, noise)
                assert db.sparse_count_bound(groups * k, k, eps) <= exact + 1e-12
                assert 0 <= exact <= np.log1p(groups)
                values.append(exact)
            assert values == sorted(values)
    # However small eps, some n leaks more than any delta: here more than 8 bits at eps = 0.01.
    assert db.sparse_count_leakage(10**6, 1000, 0.01, noise) / np.log(2) > 8


def test_many_records():
    # A million records, spacing 1000: the limit ln 1001 to what e^-(k eps/2) leaves.
    assert db.sparse_count_leakage(10**6, 1000, 0.05) == pytest.approx(np.log(1001), abs=1e-8)
    # Laplace noise depends on n/k and k eps only.
    assert db.sparse_count_leakage(10**4, 10, 0.1) == pytest.approx(db.sparse_count_leakage(10**3, 1, 1.0), rel=1e-13)
    # Geometric noise on a fine grid is Laplace noise.
    fine = db.sparse_count_leakage(10**4, 1000, 1e-3, "geometric")
    assert fine == pytest.approx(db.sparse_count_leakage(10, 1, 1.0), abs=1e-5)


@pytest.mark.parametrize("noise", ["geometric", "laplace"])
def test_extreme_noise(noise):
    for eps in (1e5, 1e200, 1e308):  # of eps times the spacing, too, that is no float64
        assert db.sparse_count_leakage(6, 2, eps, noise) == pytest.approx(np.log(4), abs=1e-13)
    assert db.sparse_count_leakage(6, 6, 1e-12, noise) == pytest.approx(0.0, abs=1e-13)
    assert db.sparse_count_leakage(1, 1, 1.0, noise) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 3, 1.0), "divide"),
        ((10, 0, 1.0), "spacing"),
        ((10, 20, 1.0), "spacing"),
        ((0, 1, 1.0), "records"),
        ((10, 2, 1.0, "gaussian"), "noise"),
    ],
)
def test_bad_input(arguments, message):
    assert_refused(message, db.sparse_count_leakage, *arguments)


@pytest.mark.parametrize(("n", "k", "eps"), [(6, 2, 0.5), (6, 3, 0.3), (8, 1, 0.4), (6, 6, 2.0)])
def test_ordered_records_are_recovered_in_full(n, k, eps):
    """The adversary's best guess of all n records, over the 2^n databases of which n/k + 1 have mass."""
    table = db.sequences((2,) * n)
    ordered = (np.diff(table, axis=1) <= 0).all(axis=1) & (table.sum(axis=1) % k == 0)
    prior = ordered / ordered.sum()
    mechanism = db.geometric_count(n, eps)[db.counts((2,) * n)]
    right = (prior[:, None] * mechanism).max(axis=0).sum()
    assert db.sparse_count_recovery(n, k, eps, "geometric") == pytest.approx(right, abs=1e-12)
    places = np.arange(0, n + 1, k)
    density = quad(lambda y: np.exp(-eps * abs(y - places).min()), -200, 200 + n, points=[*places, *(places + k / 2)])
    assert db.sparse_count_recovery(n, k, eps) == pytest.approx(density[0] * eps / 2 / len(places), abs=1e-6)


def test_recovery_tends_to_certainty_at_any_eps():
    assert db.sparse_count_recovery(10**6, 1000, 0.05) > 1 - 1e-10
    for noise in ("gauss", np.eye(2)):
        assert_refused("noise must be", db.sparse_count_recovery, 6, 2, 0.1, noise)
