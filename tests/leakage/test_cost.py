"""A user's cost: closed forms, the certificate of its inner minimum, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import jaxpriv.leakage as lk
from tests.cases import assert_values, thorough
from tests.problems.measured_cases import brier_loss, log_loss


def cubic(q):
    """Convex in q and not proper: announcing the posterior is not optimal."""
    return jnp.power(1 - q, 3) + 0.5 * jnp.sum(jnp.square(q)) + 0.1 * jnp.arange(q.size, dtype=q.dtype) * q


COLUMNS = (
    np.array([0.1, 0.2, 0.05, 0.15]),
    np.array([0.3, 0.0, 0.1, 0.0]),
    np.array([0.0, 0.0, 1e-3, 0.0]),
    np.array([0.25, 1e-9, 0.25, 1e-3]),
    np.array([1e-80, 2e-80, 1e-80, 3e-80]),
)


@pytest.mark.parametrize(
    ("loss", "closed", "proper"),
    [
        (log_loss, lk.LogLoss(), False),
        (brier_loss, lk.BrierLoss(), True),
        *thorough((log_loss, lk.LogLoss(), True)),
        *thorough((brier_loss, lk.BrierLoss(), False)),
    ],
)
def test_custom_loss_reproduces_closed_forms(loss, closed, proper):
    cost = lk.CustomLoss(loss, proper=proper)
    least, accuracy = jax.jit(cost.least), jax.jit(cost.accuracy)
    for w in COLUMNS:
        expected = float(closed.least(w))
        error = abs(float(least(w)) - expected)
        assert error <= 1e-12 * w.sum()
        assert error <= float(accuracy(w)) + 1e-14 * w.sum()
        assert float(accuracy(w)) <= 1e-9 * w.sum()


@pytest.mark.thorough
def test_inner_minimum_with_many_symbols_and_tiny_masses():
    w = np.random.default_rng(0).dirichlet(np.full(50, 0.1))
    assert w.min() < 1e-15
    cost = lk.CustomLoss(log_loss)
    assert float(jax.jit(cost.accuracy)(w)) <= 1e-9
    assert float(jax.jit(cost.least)(w)) == pytest.approx(float(lk.LogLoss().least(w)), abs=1e-12)


def test_inner_minimum_of_an_improper_loss():
    cost = lk.CustomLoss(cubic)
    least, accuracy, announcement, loss = (jax.jit(f) for f in (cost.least, cost.accuracy, cost.announcement, cubic))
    for w in COLUMNS[:2]:
        found = minimize(
            lambda q, w=w: float(w @ np.asarray(loss(q))),
            np.full(4, 0.25),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert float(least(w)) == pytest.approx(found.fun, abs=1e-8)
        assert float(accuracy(w)) <= 1e-9
        announced = np.asarray(announcement(w))
        assert announced.sum() == pytest.approx(1)
        assert np.all(announced >= 0)
        assert not np.allclose(announced, w / w.sum(), atol=1e-2)


def test_gradient_is_the_loss_at_the_announcement():
    cost = lk.CustomLoss(cubic)
    w, steps = COLUMNS[0], 1e-5 * np.eye(4)
    around = jax.jit(jax.vmap(jax.value_and_grad(cost.least)))
    (above, _), (below, _) = around(w + steps), around(w - steps)
    gradient = around(np.tile(w, (4, 1)))[1][0]
    assert_allclose(gradient, cubic(jax.jit(cost.announcement)(w)), rtol=1e-12)
    assert_allclose(gradient, (above - below) / 2e-5, atol=1e-5)
    for proper in (True, False):
        gradients = jax.jit(jax.vmap(jax.grad(lk.CustomLoss(log_loss, proper=proper).least)))(np.stack(COLUMNS))
        assert np.all(np.isfinite(gradients))


def test_gain_matrix_without_any_gain():
    gains = {lk.GainLeakage(np.zeros((1, 2))): 0.0, lk.GainLeakage(np.eye(2)): np.log(2)}
    # An action that pays only after output 0.
    assert_values({**gains, lk.GainLeakage([[1.0, 0.0]]): 0.0}, np.eye(2) / 2, np.eye(2), abs=1e-15)


def test_finite_loss_matrix():
    cost = lk.LossMatrix([[0.0, 5.0, 1.0], [2.0, 0.0, 1.0]])
    # prior (1/2, 1/2): actions cost 1, 5/2, 1. Output 0 = (3/4, 1/4): 1/2; output 1 = (1/3, 2/3): 1.
    expected = {lk.AverageCostGain(cost): 1 - (0.4 * 0.5 + 0.6 * 1.0), lk.MaxCostGain(cost): 0.5}
    assert_values(expected, np.array([[0.3, 0.2], [0.1, 0.4]]), np.eye(2), abs=1e-15)
