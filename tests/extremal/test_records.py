"""Limits on every record: closed forms, one record, a grid of posteriors, and the definition of the limits."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv import databases as db
from jaxpriv.extremal import record_utility
from tests.cases import assert_refused
from tests.funnels.cases import h, information


@pytest.mark.parametrize(("count", "eps"), [(1, 0.2), (2, [0.3, 0.1]), (3, 0.4), (4, 0.05)])
def test_fair_bits_in_closed_form(count, eps):
    found = record_utility(np.full(2**count, 0.5**count), (2,) * count, eps)
    least = np.min(eps)
    assert found.value == pytest.approx(count * math.log(2) - h(1 - math.exp(least) / 2), abs=1e-6)
    assert found.status == "optimal"
    assert max(found.leakage) <= least + 1e-12


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (2, 3)])
def test_the_result_is_within_the_limits_and_what_it_says(sizes):
    rng = np.random.default_rng(len(sizes))
    prior = rng.dirichlet(np.ones(math.prod(sizes)))
    limits = rng.uniform(0.05, 0.4, len(sizes))
    found = record_utility(prior, sizes, limits)
    assert (np.array(found.leakage) <= limits).all()
    np.testing.assert_allclose(found.leakage, db.information_privacy(found.mechanism, prior, sizes).per_record)
    assert found.value == pytest.approx(information(prior[:, None] * found.mechanism), abs=1e-12)
    assert found.gap <= 1e-6
    if len(sizes) == 1:
        other = jp.maximum_utility(prior, (jp.leakage.MaxLift(), float(limits[0])))
        assert found.value == pytest.approx(other.value, abs=2e-6)


def test_no_release_of_posteriors_on_a_grid_is_better():
    """A linear program over all posteriors in steps of 1/20 that meet the limits."""
    prior, limits, steps = np.array([0.4, 0.1, 0.2, 0.3]), np.array([0.2, 0.3]), 20
    grid = np.array([q for q in np.ndindex((steps + 1,) * 3) if sum(q) <= steps]) / steps
    grid = np.column_stack([grid, 1 - grid.sum(axis=1)])
    caps = np.exp(limits) * np.array([[0.5, 0.6], [0.5, 0.4]])
    table = db.sequences((2, 2))
    for record in range(2):
        for symbol in range(2):
            grid = grid[grid[:, table[:, record] == symbol].sum(axis=1) <= caps[symbol, record] + 1e-12]
    gain = (grid * np.log(np.where(grid > 0, grid / prior, 1.0))).sum(axis=1)
    best = -linprog(-gain, A_eq=grid.T, b_eq=prior).fun
    found = record_utility(prior, (2, 2), limits)
    assert best <= found.upper_bound + 1e-9
    assert best >= found.value - 0.05


def test_records_without_a_binding_limit_and_symbols_without_mass():
    everything = record_utility([0.5, 0.0, 0.25, 0.25], (2, 2), 5.0)
    assert everything.value == pytest.approx(1.5 * math.log(2), abs=1e-9)
    np.testing.assert_allclose(everything.mechanism.sum(axis=1), 1.0)
    assert record_utility(np.full(4, 0.25), (2, 2), 1e308).value == pytest.approx(2 * math.log(2), abs=1e-9)
    least = record_utility(np.full(4, 0.25), (2, 2), 1e-300)  # below all rounding: one bit is the most that is allowed
    assert least.value == 0
    assert least.leakage == (0, 0)
    assert least.upper_bound >= math.log(2)
    assert_refused(r"leakage\[1\]", record_utility, np.full(4, 0.25), (2, 2), [0.1, 0.0])
    assert_refused("prior has 3 entries", record_utility, np.full(3, 1 / 3), (2, 2), 0.1)
