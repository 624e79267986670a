"""Hyper-distributions, guesswork, maximal correlation and contraction: closed forms and brute force."""

import itertools

import numpy as np
import pytest

from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_refused

SYMMETRIC = np.array([[0.9, 0.1], [0.1, 0.9]])


def test_the_hyper_distribution_merges_outputs_with_one_posterior():
    mechanism = np.array([[0.2, 0.1, 0.7, 0.0], [0.6, 0.3, 0.1, 0.0]])
    found = lk.hyper_distribution(np.diag([0.5, 0.5]), mechanism)
    assert found.outputs.tolist() == [0, 0, 1, -1]
    assert found.masses == pytest.approx([0.6, 0.4])
    assert found.posteriors == pytest.approx(np.array([[0.25, 0.75], [0.875, 0.125]]))
    merged = np.column_stack([mechanism[:, :2].sum(axis=1), mechanism[:, 2]])
    assert lk.hyper_distribution(np.diag([0.5, 0.5]), merged).posteriors == pytest.approx(found.posteriors)


def test_guesswork_is_that_of_the_best_order_of_guesses():
    assert lk.guesswork(np.eye(5) / 5, np.eye(5)) == pytest.approx(1.0)
    assert lk.guesswork(np.eye(5) / 5, np.ones((5, 1))) == pytest.approx(3.0)
    joint, mechanism = random_joint(1, 4, 3), np.random.default_rng(0).dirichlet(np.ones(5), 3)
    each = [
        min(sum(k * w[s] for k, s in enumerate(order, 1)) for order in itertools.permutations(range(4)))
        for w in (joint @ mechanism).T
    ]
    assert lk.guesswork(joint, mechanism) == pytest.approx(sum(each), rel=1e-12)


def test_maximal_correlation_and_contraction_in_closed_form():
    assert lk.maximal_correlation([0.5, 0.5], SYMMETRIC) == pytest.approx(0.8, rel=1e-12)
    assert lk.maximal_correlation([0.3, 0.7], np.full((2, 2), 0.5)) == pytest.approx(0.0, abs=1e-12)
    assert lk.maximal_correlation([0.3, 0.7, 0.0], np.eye(3)) == pytest.approx(1.0, rel=1e-12)
    assert lk.contraction_coefficient(SYMMETRIC) == pytest.approx(0.64, rel=1e-12)
    erasure = np.array([[0.6, 0.0, 0.4], [0.0, 0.6, 0.4]])
    assert lk.contraction_coefficient(erasure) == pytest.approx(0.6, rel=1e-12)
    assert lk.contraction_coefficient([[0.3, 0.7]]) == 0.0
    assert_refused("channel", lk.contraction_coefficient, [[0.3, 0.6]])


def test_contraction_is_the_largest_squared_correlation_over_priors():
    rows = np.random.default_rng(2).dirichlet(np.ones(4), 3)
    share = np.linspace(0.001, 0.999, 200)
    pairs = [np.insert(np.column_stack([share, 1 - share]), s, 0.0, axis=1) for s in range(3)]
    priors = np.vstack([*pairs, np.random.default_rng(3).dirichlet(np.ones(3), 200)])
    largest = max(lk.maximal_correlation(prior, rows) ** 2 for prior in priors)
    assert largest <= lk.contraction_coefficient(rows) + 1e-12
    assert largest == pytest.approx(lk.contraction_coefficient(rows), abs=1e-4)
