"""jit, vmap, float32, and no compilation when a parameter changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv.leakage as lk


@pytest.fixture
def pair(interior):
    return interior(11)


def test_vmap_over_the_joint_alone(instances):
    joints, mechanisms = instances(3)
    values = np.asarray(jax.jit(jax.vmap(lk.MaxInformation(), in_axes=(0, None)))(joints, mechanisms[0]))
    for joint, value in zip(joints, values, strict=True):
        assert_allclose(value, lk.MaxInformation()(joint, mechanisms[0]), rtol=1e-13)


def test_vmap_over_the_parameter(pair):
    gammas = np.array([1.0, 1.2, 1.7])
    values = np.asarray(jax.jit(jax.vmap(lambda g: lk.FInformation(lk.EGamma(g))(*pair)))(gammas))
    for gamma, value in zip(gammas, values, strict=True):
        assert_allclose(value, lk.FInformation(lk.EGamma(gamma))(*pair), rtol=1e-13)
    assert float(values[0]) == pytest.approx(float(lk.FInformation(lk.TotalVariation())(*pair)), abs=1e-15)


def test_another_order_is_the_same_program(pair):
    traces = []

    @eqx.filter_jit
    def value(measure, joint, mechanism):
        traces.append(measure)
        return measure(joint, mechanism)

    values = [float(value(lk.Sibson(order), *pair)) for order in (0.3, 1, 1.0, 2, 7.5, np.inf)]
    assert len(traces) == 1
    assert values == sorted(values)
    gammas = [float(value(lk.FInformation(lk.EGamma(gamma)), *pair)) for gamma in (1.0, 1.1, 2)]
    assert len(traces) == 2
    assert gammas == sorted(gammas, reverse=True)


def test_float32(stack_of, values_of, instances):
    joints, mechanisms = instances(4)
    # Instances whose masses are ordinary in float32; near-constant ones need more digits than it has.
    keep = np.array([i for i in range(28) if i % 8 != 7 and i % 7 not in (4, 5)])
    single = [a.astype(np.float32) for a in (joints, mechanisms)]
    got = jax.jit(jax.vmap(stack_of(lambda measure: measure)))(*single)
    want = values_of(*(a.astype(np.float64) for a in single))
    for name, values in got.items():
        assert values.dtype == jnp.float32, name
        assert not np.any(np.isnan(values)), name
        assert_allclose(values[keep], want[name][keep], rtol=2e-4, atol=2e-5, err_msg=name)


def test_large_orders_do_not_overflow_in_float32(pair):
    joint, mechanism = (a.astype(np.float32) for a in pair)
    values = jax.jit(jax.vmap(lambda a: lk.Sibson(a)(joint, mechanism)))(np.array([1e2, 1e4, 1e8, 1e30], np.float32))
    assert np.all(np.isfinite(values))
    assert_allclose(values[-1], lk.MaximalLeakage()(joint, mechanism), rtol=1e-6)
