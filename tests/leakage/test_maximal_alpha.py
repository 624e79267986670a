"""Maximal alpha-leakage: the largest over priors, its ends, its gradient, what bounds it, and what is refused."""

import itertools
import math

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.errors import InputError
from jaxpriv.estimation.audit.populations import leakage_bounds
from jaxpriv.estimation.confidence import population
from jaxpriv.testing import random_joint

JOINT = random_joint(0, 4, 5)
MECHANISM = np.random.default_rng(1).dirichlet(np.full(6, 0.4), 5)
ORDERS = (1.001, 1.5, 2.0, 10.0, 1e4)


def value(order, joint=JOINT, mechanism=MECHANISM):
    return lk.evaluate(lk.MaximalAlphaLeakage(order), joint, mechanism).value


def channel_of(joint, mechanism):
    return joint / joint.sum(axis=1, keepdims=True) @ mechanism


@eqx.filter_jit
def largest(measure, rows):
    """The largest prior, and by how much its value may be too small."""
    return measure.largest_prior(rows, np.ones(4, bool)), measure.shortfall(rows)


def under(prior, order):
    """Sibson's information of the same channel for another prior."""
    joint = np.diag(prior)
    return lk.evaluate(lk.Sibson(order), joint, channel_of(JOINT, MECHANISM)).value


def test_it_is_mutual_information_at_order_one_and_maximal_leakage_at_infinity():
    assert value(1.0) == pytest.approx(lk.evaluate(lk.MutualInformation(), JOINT, MECHANISM).value, rel=1e-12)
    assert value(math.inf) == pytest.approx(lk.evaluate(lk.MaximalLeakage(), JOINT, MECHANISM).value, rel=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_no_prior_has_more_and_one_has_as_much(order):
    """Weak duality on both sides: any law Q of Y gives max_s D_a(P(.|s) || Q), which no prior exceeds."""
    found = value(order)
    for prior in np.random.default_rng(2).dirichlet(np.full(4, 0.5), 20):
        assert under(prior, order) <= found + 1e-9
    rows = channel_of(JOINT, MECHANISM)
    measure = lk.MaximalAlphaLeakage(order)
    with jax.enable_x64(True):
        prior, shortfall = map(np.asarray, largest(measure, rows))
    assert shortfall <= 1e-9
    mean = ((prior[:, None] * (rows / rows.max(axis=0)) ** order).sum(axis=0)) ** (1 / order) * rows.max(axis=0)
    law = mean / mean.sum()
    divergences = np.log(((rows / law) ** (order - 1) * rows).sum(axis=1)) / (order - 1) if order < 100 else None
    if divergences is not None:
        assert divergences.max() == pytest.approx(found, abs=1e-6)
    assert lk.evaluate(lk.Arimoto(order), JOINT, MECHANISM).value <= found + 1e-9
    assert found <= lk.evaluate(lk.MaximalLeakage(), JOINT, MECHANISM).value + 1e-12


def test_it_rises_with_the_order_and_falls_under_post_processing():
    values = [value(order) for order in (*ORDERS, math.inf)]
    assert all(low <= high + 1e-10 for low, high in itertools.pairwise(values))
    merged = np.column_stack([MECHANISM[:, :2].sum(axis=1), MECHANISM[:, 2:]])
    assert value(2.0, mechanism=merged) <= value(2.0) + 1e-10


def test_the_binary_symmetric_channel_is_worst_for_a_uniform_prior():
    flips = np.array([[0.9, 0.1], [0.1, 0.9]])
    order = 3.0
    closed = math.log(2) + math.log(0.9**order + 0.1**order) / (order - 1)
    assert value(order, np.diag([0.3, 0.7]), flips) == pytest.approx(closed, abs=1e-10)
    # Symbols without mass are no priors: only one is left.
    assert value(order, np.diag([1.0, 0.0]), flips) == pytest.approx(0.0, abs=1e-10)


def test_the_gradient_is_that_of_the_envelope():
    direction = np.random.default_rng(3).normal(size=MECHANISM.shape)
    direction -= direction.mean(axis=1, keepdims=True)
    step = 1e-3 * MECHANISM.min()
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda w: lk.MaximalAlphaLeakage(2.0)(JOINT, w)))(MECHANISM)
    difference = (
        value(2.0, mechanism=MECHANISM + step * direction) - value(2.0, mechanism=MECHANISM - step * direction)
    ) / (2 * step)
    assert float((np.asarray(slope) * direction).sum()) == pytest.approx(difference, rel=1e-4)


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_an_audit_bounds_it(order):
    counts = np.random.default_rng(4).multinomial(20_000, JOINT.ravel()).reshape(JOINT.shape)
    (bound,) = leakage_bounds(population(counts, 0.05), MECHANISM, [lk.MaximalAlphaLeakage(order)])
    assert bound is not None
    assert value(order) <= bound.upper[0, 0] <= bound.cap[0]


def test_orders_between_the_ends_are_evaluated_and_not_designed_for():
    table = abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    with pytest.raises(InputError, match=r"leakage: maximal alpha-leakage of order 2 .* MaximalLeakage\(\)"):
        jp.solve(jp.DistortionProblem(JOINT, table, budget=0.3, leakage=lk.MaximalAlphaLeakage(2.0)))
    with pytest.raises(InputError, match=r"limits\[0\]: maximal alpha-leakage"):
        jp.solve(jp.DistortionProblem(JOINT, table, budget=0.3, limits=[(lk.MaximalAlphaLeakage(2.0), 0.1)]))
    for order in (0.5, math.nan):
        with pytest.raises(InputError, match="order"):
            lk.MaximalAlphaLeakage(order)


# Maximal (alpha, beta)-leakage.

SYMMETRIC = np.array([[0.9, 0.1], [0.1, 0.9]])
ROWS = np.array([[0.95, 0.04, 0.01], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]])


def against(order, beta, rows):
    return lk.evaluate(lk.MaximalAlphaLeakage(order, beta), np.eye(len(rows)) / len(rows), rows).value


def on_a_grid(order, beta, rows, grid):
    """The definition, at the best of some priors."""
    norms = (grid @ rows**order) ** (beta / order)
    totals = norms @ (rows ** (1 - beta)).T
    return order / ((order - 1) * beta) * math.log(totals.max())


def test_beta_ends_at_what_exists():
    prior = np.eye(3) / 3
    renyi = max(math.log((r**2 / q).sum()) for r in ROWS for q in ROWS)
    assert against(2.0, 2.0, ROWS) == pytest.approx(renyi, rel=1e-12)
    assert against(math.inf, 1.0, ROWS) == pytest.approx(lk.evaluate(lk.MaximalLeakage(), prior, ROWS).value, rel=1e-12)
    local = lk.evaluate(lk.LocalDifferentialPrivacy(), prior, ROWS).value
    assert against(math.inf, math.inf, ROWS) == pytest.approx(local, rel=1e-12)
    assert against(2.0, 1.0, ROWS) == pytest.approx(lk.capacity(ROWS, 2.0).value, rel=1e-10)


@pytest.mark.parametrize(("order", "beta"), [(2.0, 1.5), (5.0, 2.0), (2.0, 3.0)])
def test_no_prior_and_no_symbol_has_more_at_beta(order, beta):
    measure, found = lk.MaximalAlphaLeakage(order, beta), against(order, beta, SYMMETRIC)
    share = np.linspace(0, 1, 20_001)
    best = on_a_grid(order, beta, SYMMETRIC, np.column_stack([share, 1 - share]))
    assert best <= found + 1e-12
    assert found == pytest.approx(best, abs=1e-7)
    with jax.enable_x64(True):
        assert float(eqx.filter_jit(type(measure).shortfall)(measure, SYMMETRIC)) <= 1e-9
    priors = np.random.default_rng(7).dirichlet(np.ones(3), 500)
    assert on_a_grid(order, beta, ROWS, priors) <= against(order, beta, ROWS) + 1e-12


def test_beta_where_an_output_excludes_a_symbol_and_what_is_refused():
    assert against(2.0, 1.5, np.array([[0.5, 0.5], [1.0, 0.0]])) == math.inf
    assert against(2.0, 1.5, np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])) == pytest.approx(0.0, abs=1e-12)
    for order, beta in ((2.0, 0.5), (2.0, math.nan), (1.0, 2.0)):
        with pytest.raises(InputError, match="beta"):
            lk.MaximalAlphaLeakage(order, beta)
    table = abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    with pytest.raises(InputError, match=r"maximal \(alpha, beta\)-leakage .* LocalDifferentialPrivacy"):
        jp.solve(jp.DistortionProblem(JOINT, table, budget=0.3, leakage=lk.MaximalAlphaLeakage(math.inf, 2.0)))
