"""The local steps as functions of arrays: monotone, stationary where they stop, indifferent to order and batching."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jaxpriv import leakage
from jaxpriv.funnels.local import disclosing, random_starts
from jaxpriv.funnels.local_steps import alternate, channel, descend
from jaxpriv.testing import random_joint

from .cases import entropy_of, information

BATCH, SYMBOLS, OUTPUTS = 12, 5, 6
SHANNON = leakage.MutualInformation()
JOINTS = [random_joint(seed, 3, SYMBOLS, zeros=0.3) for seed in range(3)]
STEPS = (0, 1, 2, 3, 5, 8, 13, 30, 100, 400)
TOL = np.asarray(1e-9)


@pytest.fixture(scope="module")
def starts():
    return random_starts(jax.random.key(5), BATCH, SYMBOLS, OUTPUTS)


@pytest.fixture(scope="module")
def prices():
    return np.linspace(0.02, 0.95, BATCH)


def conditions(joint, log_mechanism, lam):
    """The KKT conditions of I(S;Y) - lam I(X;Y): how much the gradient of a row varies over its outputs with mass,
    and by how much an output without promises more; both weighted by P(x) W[x, y] or P(x)."""
    mechanism, source = np.exp(log_mechanism), joint.sum(axis=0)
    masses = source @ mechanism
    used = masses > 1e-9
    with np.errstate(divide="ignore"):
        posterior = np.log((joint @ mechanism)[:, used] / masses[used] / joint.sum(axis=1)[:, None])
    shared = np.where(joint > 0, joint / source, 0.0)
    slopes = np.einsum("sx,sy->xy", shared, np.maximum(posterior, -1e3)) - lam * (
        log_mechanism[:, used] - np.log(masses[used])
    )
    rows = (mechanism[:, used] * slopes).sum(axis=1, keepdims=True)
    spread = (source[:, None] * mechanism[:, used] * abs(slopes - rows)).sum()
    better = (source * (rows[:, 0] - slopes.min(axis=1))).sum()
    return spread, better


def sequence(run):
    """The landings of a batch after each number of steps in STEPS."""
    return [run(np.asarray(most)) for most in STEPS]


def hidden(joint):
    """H(X|S)."""
    return entropy_of(joint) - information(joint)


# The monotone descents


@pytest.mark.parametrize(
    ("measure", "precision"),
    [
        (SHANNON, np.float64),
        (leakage.FInformation(leakage.ChiSquared()), np.float64),
        (leakage.CorrectGuess(), np.float64),
        (SHANNON, np.float32),
    ],
    ids=str,
)
def test_the_lagrangian_never_rises_for_any_measure(measure, precision, starts, prices):
    rounding, tol = (1e-14, TOL) if precision is np.float64 else (100 * np.finfo(precision).eps, np.float32(1e-6))
    prices, begun = prices.astype(precision), np.asarray(starts, dtype=precision)
    for joint in JOINTS:
        given = channel(joint.astype(precision))
        landings = sequence(lambda most: descend(given, measure, prices, begun, tol, most))  # noqa: B023
        values = np.array([landing.value for landing in landings])
        assert np.diff(values, axis=0).max() <= rounding
        assert (values[0] - values[-1]).max() > 1e-3  # it went somewhere
        assert (np.array([landing.steps for landing in landings]) <= np.array(STEPS)[:, None]).all()


def test_leakage_never_rises_at_a_fixed_disclosure(starts):
    for joint, share in zip(JOINTS, (0.3, 0.6, 0.9), strict=True):
        source = joint.sum(axis=0)
        target = share * entropy_of(joint)
        begun = disclosing(source, starts, target)
        landings = sequence(lambda most: alternate(channel(joint), np.full(BATCH, target), begun, TOL, most))  # noqa: B023
        leaks = np.array([landing.leak for landing in landings])
        assert np.diff(leaks, axis=0).max() <= 1e-12
        assert abs(np.array([landing.disclosure for landing in landings]) - target).max() <= 1e-8
        assert leaks.min() >= max(0.0, target - hidden(joint)) - 1e-9


def test_the_bottleneck_iteration_never_loses_and_is_the_textbook_one(starts, prices):
    for joint in JOINTS:
        landings = sequence(lambda most: squeezed(channel(joint), prices, starts, most))  # noqa: B023
        assert np.diff(np.array([landing.value for landing in landings]), axis=0).min() >= -1e-14
        for i in (0, 6, 11):
            wanted = textbook(joint, np.exp(starts[i]), prices[i], 3)
            assert_allclose(np.exp(landings[3].log_mechanism[i]), wanted, rtol=1e-9, atol=1e-12)


def squeezed(given, prices, starts, most):
    return descend(given, SHANNON, prices, starts, TOL, most, bottleneck=True)


def textbook(joint, mechanism, lam, count):
    """Tishby, Pereira and Bialek: p(y|x) proportional to p(y) exp( -D( p(s|x) || p(s|y) )/lam )."""
    source = joint.sum(axis=0)
    for _ in range(count):
        masses = source @ mechanism
        given_y, given_x = joint @ mechanism / masses, joint / source
        ratio = given_x[:, :, None] / given_y[:, None, :]
        distance = (given_x[:, :, None] * np.log(np.where(ratio > 0, ratio, 1.0))).sum(axis=0)
        mechanism = masses * np.exp(-distance / lam)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
    return mechanism


# Where they stop


def test_where_the_residual_is_small_the_first_order_conditions_hold(starts, prices):
    counted = 0
    for joint in JOINTS:
        given, most = channel(joint), np.asarray(3000)
        source = joint.sum(axis=0)
        target = 0.5 * entropy_of(joint)
        for landing, sign in (
            (descend(given, SHANNON, prices, starts, TOL, most), 1.0),
            (alternate(given, np.full(BATCH, target), disclosing(source, starts, target), TOL, most), 1.0),
            (squeezed(given, prices, starts, most), -1.0),
        ):
            for i in np.flatnonzero(np.asarray(landing.residual) <= 1e-8):
                spread, better = conditions(joint, np.asarray(landing.log_mechanism[i]), float(landing.multiplier[i]))
                assert spread <= 1e-4  # of second order in the residual
                if sign > 0:
                    assert better <= 1e-6
                counted += 1
    assert counted > 60


def test_nothing_is_gained_where_disclosure_is_free_of_charge(starts):
    """At price zero the least leakage is none, at price one the whole of X: -H(X|S)."""
    joint = JOINTS[0]
    zero = descend(channel(joint), SHANNON, np.zeros(BATCH), starts, TOL, np.asarray(3000))
    assert np.abs(zero.value).max() <= 1e-8
    one = descend(channel(joint), SHANNON, np.ones(BATCH), starts, TOL, np.asarray(3000))
    assert float(np.min(one.value)) == pytest.approx(-hidden(joint), abs=1e-7)
    assert (np.asarray(one.value) >= -hidden(joint) - 1e-12).all()
