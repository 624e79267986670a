"""The elementary functions: digits near the singular points, values and gradients at zero."""

import math
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv._runtime.numerics import (
    expm1_quotient,
    exponential_mean,
    kl_excess,
    log1p_quotient,
    positive,
    safe_divide,
    safe_log,
    xlogx,
)

NEAR = np.array([s * z for z in (1e-12, 1e-6, 1e-3, 0.0099, 0.0101, 0.3) for s in (1.0, -1.0)])


def exact(function, z):
    with localcontext() as context:
        context.prec = 60
        return float(function(Decimal(z)))


def test_quotients_keep_every_digit():
    expm1, log1p, excess = map(jax.jit, (expm1_quotient, log1p_quotient, kl_excess))
    for z in NEAR.tolist():
        assert float(expm1(z)) == pytest.approx(exact(lambda x: (x.exp() - 1) / x, z), rel=1e-15)
        assert float(log1p(z)) == pytest.approx(exact(lambda x: (1 + x).ln() / x, z), rel=1e-15)
        t = 1.0 + z
        expected = exact(lambda t: t * t.ln() - t + 1, t)
        assert float(excess(t)) == pytest.approx(expected, rel=1e-12, abs=0)
    for function in (expm1, log1p):
        assert float(function(0.0)) == 1.0
    assert float(jax.jit(jax.grad(expm1_quotient))(0.0)) == pytest.approx(1 / 2, rel=1e-15)
    assert float(jax.jit(jax.grad(log1p_quotient))(0.0)) == pytest.approx(-1 / 2, rel=1e-15)


def test_values_and_gradients_at_zero():
    for function, value, slope in ((safe_log, 0.0, 0.0), (xlogx, 0.0, 0.0), (kl_excess, 1.0, -1.0)):
        for x in (0.0, 1e-310):  # XLA would read a subnormal as zero on one path and not on another
            assert float(function(jnp.array(x))) == pytest.approx(value, abs=1e-300)
            assert float(jax.grad(function)(x)) == slope
    assert not positive(jnp.array(1e-310))
    assert positive(jnp.array(1e-300))


def test_division_has_a_gradient_at_tiny_masses():
    by_x, by_y = jax.grad(safe_divide, argnums=(0, 1))(jnp.array(3e-200), jnp.array(2e-200))
    assert float(by_x) == pytest.approx(0.5e200, rel=1e-14)
    assert float(by_y) == pytest.approx(-0.75e200, rel=1e-14)
    assert [float(g) for g in jax.grad(safe_divide, argnums=(0, 1))(jnp.ones(()), jnp.zeros(()))] == [0.0, 0.0]
    assert_array_equal(safe_divide(jnp.array([1.0, 1.0]), jnp.array([0.0, 4.0])), [0.0, 0.25])


def test_exponential_mean_of_every_rate():
    x, m = np.array([0.3, -1.0, 2.0, 50.0]), np.array([0.2, 0.5, 0.3, 0.0])
    mean = jax.jit(jax.vmap(lambda r: exponential_mean(x, m, r)))
    rates = np.array([-np.inf, -1e300, -5.0, -1e-9, 0.0, 1e-9, 5.0, 1e300, np.inf])
    values = np.asarray(mean(rates))
    assert np.all(np.diff(values) >= 0)
    expected = [math.log(sum(w * math.exp(r * v) for v, w in zip(x[:3], m[:3], strict=True))) / r for r in (-5, 5)]
    assert_allclose(values[[2, 6]], expected, rtol=1e-14)
    assert_allclose(values[[0, 1, 7, 8]], [-1.0, -1.0, 2.0, 2.0], rtol=1e-14)
    # Near 0: the mean plus r/2 times the variance.
    average = 0.2 * 0.3 - 0.5 + 0.6
    variance = 0.2 * 0.09 + 0.5 + 1.2 - average**2
    assert_allclose(values[3:6], average + rates[3:6] * variance / 2, rtol=1e-15)
    slope = jax.jit(jax.grad(lambda r: exponential_mean(x, m, r)))
    assert float(slope(0.0)) == pytest.approx(variance / 2, rel=1e-14)
    assert float(jax.jit(exponential_mean)(x, np.zeros(4), 1.0)) == 0.0
