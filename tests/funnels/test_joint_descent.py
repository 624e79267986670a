"""Descent of a whole plan: it never raises the value, and stationary plans have one price vector."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv._runtime.clock import Clock
from jaxpriv.funnels.atoms.stationary import moved
from jaxpriv.funnels.pricing import blocks_of, exact_pricer
from jaxpriv.funnels.pricing.local import LocalPricer
from tests.cases import drawn_joint

from .cases import conditional_of, entropy_of, psi, source_of, turned

LAM = 0.3


def lagrangian(joint, posteriors, prices):
    """a - lambda b - nu.q of every posterior."""
    return psi(posteriors, conditional_of(joint), LAM, turned(joint, prices, LAM))


@pytest.fixture(scope="module")
def start():
    """A joint, and the posteriors and masses of a random mechanism with zeros in it."""
    joint = drawn_joint(4, 3, 7)
    random = np.random.default_rng(0)
    mechanism = random.dirichlet(np.full(9, 0.3), 7) * (random.random((7, 9)) < 0.7) + 1e-3 * np.eye(7, 9)
    both = mechanism / mechanism.sum(axis=1, keepdims=True) * source_of(joint)[:, None]
    return joint, (both / both.sum(axis=0)).T, both.sum(axis=0)


def test_steps_lower_the_value_and_the_prices_have_it(start):
    """nu.P_X is F at the plan reached: above the least F, and lower after more steps."""
    joint, posteriors, masses = start
    block, source = blocks_of(joint)[0], source_of(joint)
    before = float(masses @ lagrangian(joint, posteriors, np.zeros(7)))
    values = []
    for steps in (0, 5, 20, 2000):
        prices, atoms = moved(block, posteriors, masses, LAM, steps)
        values.append(float(prices @ source))
        assert_allclose(atoms.sum(axis=1), 1.0)
    assert values[0] == pytest.approx(before, abs=1e-12)
    assert np.all(np.diff(values[:3]) < 0)
    assert values[3] <= values[2]
    # The atoms of a stationary plan have the value of one price vector, whatever their masses.
    assert_allclose(lagrangian(joint, atoms, prices), 0.0, atol=1e-6)


def test_zeros_stay(start):
    joint, posteriors, masses = start
    _, atoms = moved(blocks_of(joint)[0], posteriors, masses, LAM, 3)
    assert len(atoms) == len(posteriors)
    assert np.all(atoms[posteriors == 0] == 0)


def test_an_optimal_plan_stays_and_its_prices_prove_it():
    joint = drawn_joint(2, 3, 6)
    target = 0.8 * entropy_of(joint)
    solution = jp.solve(jp.FunnelProblem(joint, disclosure=target), tol=1e-8)
    lam = solution.multiplier
    prices, _ = moved(blocks_of(joint)[0], solution.posteriors, solution.masses, lam, 400)
    least = exact_pricer(joint, funnel=True).price(turned(joint, prices, lam), lam, 1).bound
    proved = float(prices @ source_of(joint)) + least + lam * target
    assert solution.value - 2e-6 < proved <= solution.value + 1e-12


def test_a_clock_that_has_expired_ends_the_steps(start):
    joint, posteriors, masses = start
    block = blocks_of(joint)[0]
    ended, _ = moved(block, posteriors, masses, LAM, 2000, Clock(0.0))
    few, _ = moved(block, posteriors, masses, LAM, 25)
    assert_array_equal(ended, few)


def test_neighbours_of_good_atoms_find_what_branch_and_bound_finds():
    """Small lambda: many vertices of one fibre. Random starts missed violators of such prices."""
    joint = drawn_joint(1, 5, 60, 0.3)
    conditional = conditional_of(joint)
    local, exact = LocalPricer(conditional, funnel=True), exact_pricer(joint, funnel=True)
    prices = psi(np.eye(60), conditional, 0.0) + np.log(joint.sum(axis=1)) @ conditional
    least = exact.price(prices, 0.05, 1).bound
    for _ in range(3):
        found = local.price(prices, 0.05, 1).posteriors
    assert psi(found, conditional, 0.05, prices)[0] <= least + 1e-6
