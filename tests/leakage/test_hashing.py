"""Measures, divergences and costs are keys: of dictionaries, and of compiled functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import jaxpriv.leakage as lk
from tests.cases import NEEDED, value_of
from tests.problems.measured_cases import log_loss


class Weighted(lk.AbstractMeanLeakage):
    """A user's measure with an array, and a function."""

    weights: Array
    shape: object = eqx.field(static=True, default=jnp.abs)

    traits = lk.Traits("dimensionless")

    def outcome(self, w, prior):
        return jnp.sum(self.weights * self.shape(lk.lift_of(w, prior) - 1.0))


def square(t):
    return (t - 1.0) ** 2


def every():
    """New objects at each call."""
    return [
        *(lk.by_name(name, form=form, **NEEDED.get(name, {})) for name in lk.NAMES for form in lk.forms_of(name)),
        *(lk.by_name("f-information", divergence=name) for name in lk.DIVERGENCES if name != "e-gamma"),
        lk.FInformation(lk.EGamma(1.5)),
        lk.FInformation(lk.UserDivergence(square, 1.0)),
        lk.GainLeakage([[1.0, 0.0], [0.0, 2.0]]),
        lk.MaxInformation([0.0, 0.5]),
        lk.LocalDifferentialPrivacy([[0, 1], [1, 0]]),
        lk.AverageCostGain(lk.LossMatrix([[0.0, 1.0], [1.0, 0.0]])),
        lk.MaxCostGain(lk.CustomLoss(log_loss, proper=True)),
        Weighted(jnp.array([1.0, 2.0])),
        Weighted(np.array([1.0, 2.0])),
    ]


RELEASE = np.array([[0.4, 0.1], [0.2, 0.3]]), np.array([[0.9, 0.1], [0.3, 0.7]])


def test_equal_measures_have_one_hash_and_one_compiled_function():
    ones, others = every(), every()
    for one, other in zip(ones, others, strict=True):
        assert one == other, one
        assert hash(one) == hash(other), one
        assert {one: 1}[other] == 1
    for one, other in zip(ones[-7:], others[-7:], strict=True):  # those with arrays and functions
        expected = float(one(*RELEASE))
        assert float(jax.jit(one)(*RELEASE)) == pytest.approx(expected, rel=1e-12)
        assert float(jax.jit(other)(*RELEASE)) == pytest.approx(expected, rel=1e-12)


def test_other_parameters_are_other_keys():
    assert lk.Sibson(2.0) != lk.Sibson(3.0)
    assert lk.Sibson(2.0) != lk.Arimoto(2.0)
    values = {order: float(jax.jit(lk.Sibson(order))(*RELEASE)) for order in (0.5, 2.0, 7.0)}
    for order, value in values.items():
        assert value == pytest.approx(value_of(lk.Sibson(order), *RELEASE), rel=1e-12)
    assert Weighted(np.array([1.0, 2.0])) != Weighted(np.array([1.0, 3.0]))


def test_zeros_of_both_signs_are_one_key():
    one, other = lk.LossMatrix([[0.0, 1.0]]), lk.LossMatrix([[-0.0, 1.0]])
    assert one == other
    assert hash(one) == hash(other)
