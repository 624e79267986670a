"""Gradients: against central differences inside the simplex, finite at every kind of zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv.leakage as lk
from tests.cases import NEEDED, assert_refused

STEP = 1e-6


@pytest.fixture(scope="module")
def gradients_of(stack_of):
    """(joints, mechanisms), batched -> {name: (gradient in joint, gradient in mechanism)}, in reverse mode."""
    # Compiled without optimisation: it is run a few times only, and compiling is what takes time.
    gradients = stack_of(lambda measure: jax.grad(measure, argnums=(0, 1)))
    return jax.jit(jax.vmap(gradients), compiler_options={"xla_backend_optimization_level": 0})


def test_gradients_are_central_differences(gradients_of, values_of, interior):
    pairs = [interior(seed) for seed in range(28)]
    joints, mechanisms = np.stack([j for j, _ in pairs]), np.stack([w for _, w in pairs])
    rng = np.random.default_rng(0)
    # Directions inside the simplex: gradients are defined up to a constant there.
    in_joint = rng.normal(size=joints.shape)
    in_joint -= in_joint.mean(axis=(1, 2), keepdims=True)
    in_mechanism = rng.normal(size=mechanisms.shape)
    in_mechanism -= in_mechanism.mean(axis=2, keepdims=True)
    in_joint[:14] = 0.0  # the first half of the batch moves the mechanism, the second half the joint
    in_mechanism[14:] = 0.0
    above = values_of(joints + STEP * in_joint, mechanisms + STEP * in_mechanism)
    below = values_of(joints - STEP * in_joint, mechanisms - STEP * in_mechanism)
    gradients = gradients_of(joints, mechanisms)
    assert gradients.keys() == above.keys()
    for name, (by_joint, by_mechanism) in gradients.items():
        slope = np.sum(by_joint * in_joint, axis=(1, 2)) + np.sum(by_mechanism * in_mechanism, axis=(1, 2))
        difference = (above[name] - below[name]) / (2 * STEP)
        assert_allclose(slope, difference, rtol=2e-5, atol=2e-7, err_msg=name)
        assert np.any(np.abs(slope) > 1e-4), name


@pytest.mark.parametrize("seed", range(2))
def test_gradients_are_finite_at_zeros(gradients_of, instances, seed):
    joints, mechanisms = instances(seed)
    for name, gradients in gradients_of(joints, mechanisms).items():
        for gradient in gradients:
            assert np.all(np.isfinite(gradient)), name


def test_gradient_of_mutual_information_is_the_log_lift(interior):
    """d I / d W[x, y] = sum_s joint[s, x] ln( w/(p |w|) ), exactly, so it is the adversary's natural rule."""
    joint, mechanism = interior(1)
    outputs, p = joint @ mechanism, joint.sum(axis=1)
    log_lift = np.log(outputs / p[:, None] / outputs.sum(axis=0))
    gradient = jax.jit(jax.grad(lambda w: lk.MutualInformation()(joint, w)))(mechanism)
    assert_allclose(gradient, joint.T @ log_lift, atol=1e-15)


def test_gradient_conventions_at_zero():
    p = jnp.array([0.5, 0.5])
    gradient = jax.jit(jax.grad(lk.MutualInformation().column))(jnp.array([0.3, 0.0]), p)
    assert_allclose(gradient, [np.log(2), -1.0], atol=1e-15)
    # An infinite value has gradient zero.
    lift = jax.jit(jax.grad(lambda w: lk.Lift()(jnp.eye(2) / 2, w)))(jnp.eye(2))
    assert_array_equal(lift, 0.0)
    # One-sided derivatives that exist are kept: sum of |w - p|w||/2 at a zero.
    slope = jax.jit(jax.grad(lk.FInformation(lk.TotalVariation()).column))
    at_zero, inside = slope(jnp.array([0.3, 0.0]), p), slope(jnp.array([0.3, 1e-9]), p)
    assert_allclose(at_zero, inside, atol=1e-8)


def test_gradient_in_the_order_and_gamma(interior):
    joint, mechanism = interior(6)
    for make, at in (
        (lk.Sibson, np.array([0.4, 1.0, 3.0, np.inf])),
        (lk.Arimoto, np.array([0.7, 1.0, 4.0, np.inf])),
        (lambda g: lk.FInformation(lk.EGamma(g)), np.array([1.1, 1.2, 1.3, 100.0])),
    ):
        value = jax.jit(jax.vmap(lambda a, make=make: make(a)(joint, mechanism)))
        slopes = jax.jit(jax.vmap(jax.grad(lambda a, make=make: make(a)(joint, mechanism))))(at)
        differences = (value(at + 1e-5) - value(at - 1e-5)) / 2e-5
        assert_allclose(slopes, differences, rtol=1e-5, atol=1e-9)
        assert float(slopes[0]) != 0.0
        assert float(slopes[-1]) == 0.0


def _spoilt(joints, mechanisms):
    """One entry that is not finite in each pair: NaN in the joint (also where a mass is 0) or in the mechanism."""
    joints, mechanisms = joints.copy(), mechanisms.copy()
    for i in range(28):
        array = (joints if i % 2 else mechanisms)[i]
        places = np.argwhere(array == 0) if i % 4 < 2 and np.any(array == 0) else np.argwhere(array > 0)
        array[tuple(places[i % len(places)])] = np.inf if i % 7 == 6 else np.nan
    joints[0], mechanisms[1] = np.nan, np.nan
    return joints, mechanisms


@pytest.mark.parametrize("seed", range(2))
def test_an_entry_that_is_not_finite_makes_value_and_gradient_nan(gradients_of, values_of, instances, seed):
    joints, mechanisms = _spoilt(*instances(seed))
    for name, values in values_of(joints, mechanisms).items():
        assert np.all(np.isnan(values)), name
    for name, gradients in gradients_of(joints, mechanisms).items():
        for gradient in gradients:
            assert np.all(np.isnan(gradient)), name
    # One spoilt pair of a batch leaves the others as they were.
    good = instances(seed)
    joints[::3], mechanisms[::3] = good[0][::3], good[1][::3]
    for name, values in values_of(joints, mechanisms).items():
        assert not np.any(np.isnan(values[::3])), name
        assert np.all(np.isnan(np.delete(values, np.s_[::3]))), name


# Maximal alpha-leakage has no NumPy of its own: each operation is compiled.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.thorough) if name == "maximal-alpha-leakage" else name for name in lk.NAMES],
)
def test_nan_in_nan_out_without_jit(name):
    joint = np.array([[0.3, 0.1, 0.0], [0.2, 0.1, 0.3]])
    mechanism = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    for form in lk.forms_of(name):
        measure = lk.by_name(name, form=form, **NEEDED.get(name, {}))
        for spoilt in ((0, 2), (0, 0)):  # a zero and a mass of both
            bad = joint.copy()
            bad[spoilt] = np.nan
            assert np.isnan(measure(bad, mechanism))
            bad = mechanism.copy()
            bad[spoilt[::-1]] = np.nan
            assert np.isnan(measure(joint, bad))
        assert_refused(r"mechanism\[0, 0\] is NaN", lk.evaluate, measure, joint, bad)


@pytest.mark.parametrize("proper", [False, True])
def test_nan_in_nan_out_for_a_users_loss(proper):
    joint, mechanism = np.full((3, 3), 1 / 9), np.eye(3)
    loss = lk.CustomLoss(lambda q: jnp.sum(jnp.square(q)) - 2 * q + 1.0, proper=proper, steps=3)
    value = jax.jit(jax.value_and_grad(lk.AverageCostGain(loss), argnums=(0, 1)))
    finite, slopes = value(joint, mechanism)
    assert all(np.all(np.isfinite(part)) for part in (finite, *slopes))
    for position in range(2):
        pair = [joint.copy(), mechanism.copy()]
        pair[position][1, 1] = np.nan
        nothing, slopes = value(*pair)
        assert all(np.all(np.isnan(part)) for part in (nothing, *slopes))
