"""The capacity of a channel: closed forms, the proof, and zeros."""

import math

import jax
import numpy as np
import pytest

from jaxpriv import leakage as lk
from tests.cases import assert_refused, value_of

SYMMETRIC = np.array([[0.9, 0.1], [0.1, 0.9]])
BITS = {0.5: 0.321928095, 1.0: 0.531004406, 2.0: 0.713695815, 5.0: 0.810002241, math.inf: 0.847996907}


@pytest.mark.parametrize("order", BITS)
def test_the_capacity_of_the_binary_symmetric_channel(order):
    found = lk.capacity(SYMMETRIC, order, units="bits")
    assert found.value == pytest.approx(BITS[order], abs=1e-9)
    assert found.prior == pytest.approx(np.array([0.5, 0.5]), abs=1e-6)


@pytest.mark.parametrize("order", [0.3, 1.0, 1.0 + 1e-9, 3.0, 1e7])
def test_its_prior_attains_the_value_and_no_other_has_more(order):
    rows = np.random.default_rng(0).dirichlet(np.full(4, 0.4), 6)
    found = lk.capacity(rows, order)
    assert 0 <= found.gap <= 1e-7
    assert value_of(lk.Sibson(order), np.diag(found.prior), rows) == pytest.approx(found.value, abs=1e-12)
    for prior in np.random.default_rng(1).dirichlet(np.full(6, 0.5), 20):
        assert value_of(lk.Sibson(order), np.diag(prior), rows) <= found.upper_bound + 1e-12


def test_the_z_channel_an_unused_output_and_what_is_refused():
    """ln(1 + (1-q) q^{q/(1-q)}) of the channel that keeps 0, and takes 1 for 0 with probability q."""
    q = 0.3
    found = lk.capacity([[1.0, 0.0, 0.0], [q, 1 - q, 0.0]])
    assert found.value == pytest.approx(math.log(1 + (1 - q) * q ** (q / (1 - q))), abs=1e-10)
    assert lk.capacity(SYMMETRIC, 1e308, units="bits").value == pytest.approx(BITS[math.inf], abs=1e-9)
    assert_refused(r"channel", lk.capacity, [[0.9, 0.2]])
    assert_refused("order", lk.capacity, SYMMETRIC, 0.0)
    for traced in (lk.capacity, lk.contraction_coefficient):
        assert_refused("runs on the host", jax.jit(traced), np.eye(2))
