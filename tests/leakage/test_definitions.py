"""Every measure against its definition."""

import math

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv.leakage as lk

from .definitions import definitions

INF = math.inf


def renyi_divergence(q, p, order):
    total = sum(b * (a / b) ** order for a, b in zip(q, p, strict=True) if b > 0 and a > 0)
    return math.log(total) / (order - 1)


def norm(w, order):
    return max(w) if order == INF else max(w) * sum((a / max(w)) ** order for a in w if a > 0) ** (1 / order)


def sibson_objective(p, columns, order, q):
    total = sum(
        b * q[y] * (a / b / q[y]) ** order
        for y, w in enumerate(columns)
        for a, b in zip(w, p, strict=True)
        if b > 0 and a > 0
    )
    return math.log(total) / (order - 1)


@pytest.mark.parametrize("seed", range(3))
def test_every_measure_is_its_definition(seed, instances, values_of, measures, orders):
    joints, mechanisms = instances(seed)
    values = values_of(joints, mechanisms)
    for i in range(len(joints)):
        expected = definitions(joints[i], mechanisms[i], measures, orders)
        assert expected.keys() == values.keys()
        for name, value in expected.items():
            assert values[name][i] == pytest.approx(value, rel=1e-10, abs=1e-12), (name, i)


def test_definition_covers_zeros(instances):
    joints, mechanisms = zip(*(instances(seed) for seed in range(3)), strict=True)
    joints, mechanisms = np.concatenate(joints), np.concatenate(mechanisms)
    outputs = joints @ mechanisms
    assert np.any(joints.sum(axis=2) == 0)
    assert np.any(outputs.sum(axis=1) == 0)
    assert np.any((outputs == 0) & (joints.sum(axis=2)[:, :, None] > 0) & (outputs.sum(axis=1)[:, None, :] > 0))


@pytest.mark.parametrize("order", [0.3, 0.9, 1.5, 4.0])
def test_sibson_is_the_least_divergence_to_a_product(order, interior):
    joint, mechanism = interior(0)
    columns, p = (joint @ mechanism).T.tolist(), joint.sum(axis=1).tolist()
    value = float(lk.Sibson(order)(joint, mechanism))
    rng = np.random.default_rng(1)
    products = [sibson_objective(p, columns, order, rng.dirichlet(np.ones(6)).tolist()) for _ in range(200)]
    assert value <= min(products)
    best = np.sum(np.asarray(p)[:, None] ** (1 - order) * np.transpose(columns) ** order, axis=0) ** (1 / order)
    assert value == pytest.approx(sibson_objective(p, columns, order, (best / best.sum()).tolist()), abs=1e-13)


@pytest.mark.parametrize("order", [0.3, 2.0, 7.0])
def test_renyi_outcome_and_column(order, interior):
    """The column is (||.|| - |w|)/k for the norm of the textbook, and `outer` of its total is the value."""
    joint, mechanism = interior(2)
    outputs, p = joint @ mechanism, joint.sum(axis=1)
    k = 1 - 1 / order
    for measure, textbook in (
        (lk.Sibson(order), lambda w: np.sum(p ** (1 - order) * w**order) ** (1 / order)),
        (lk.Arimoto(order), lambda w: norm(w, order) / norm(p, order)),
    ):
        total = 0.0
        for w in outputs.T:
            column = measure.column(w, p)
            assert_allclose(column, (textbook(w) - w.sum()) / k, rtol=1e-10, atol=1e-13)
            assert_allclose(measure.column(3 * w, p), 3 * column, rtol=1e-12)
            total = total + column
        value = measure(joint, mechanism)
        assert_allclose(measure.outer(total), value, rtol=1e-10)
        assert_allclose(measure.outer_inverse(value), total, rtol=1e-10)
    assert float(lk.Sibson(order).outcome(outputs[:, 0], p)) == pytest.approx(
        renyi_divergence(outputs[:, 0] / outputs[:, 0].sum(), p, order), abs=1e-13
    )


def test_columns_are_convex_and_homogeneous(measures, instances):
    """phi of every average measure, the Rényi ones of orders below 1 included."""
    joints, mechanisms = instances(5)
    outputs, p = joints[0] @ mechanisms[0], joints[0].sum(axis=1)
    u, v = outputs[:, 0], outputs[:, 1]
    named = {name: m for name, m in measures.items() if isinstance(m, lk.AbstractAverageLeakage)}
    assert len(named) >= 18

    @jax.jit
    @jax.vmap
    def columns(w):
        return {
            name: eqx.filter_vmap(lambda m: m.column(w, p))(measure)
            if name in ("sibson", "arimoto")
            else measure.column(w, p)
            for name, measure in named.items()
        }

    for name, values in columns(np.stack([u, v, u + v, 2.5 * u, 0.0 * u])).items():
        of_u, of_v, of_sum, of_more, of_nothing = np.asarray(values)
        assert np.all(of_sum <= of_u + of_v + 1e-14), name
        assert_allclose(of_more, 2.5 * of_u, rtol=1e-10, atol=1e-15, err_msg=name)
        assert_array_equal(of_nothing, 0.0, err_msg=name)


def test_orders_close_to_one_and_far_from_it(interior, measures):
    joint, mechanism = interior(3)
    near = [1 + sign * distance for distance in (1e-2, 1e-3, 1e-6, 1e-9, 1e-12) for sign in (-1, 1)]
    orders = [*near, 1e-3, 1e-2, 0.1, 30.0, 1e3, 1e6]
    expected = definitions(joint, mechanism, measures, orders)
    for family, name, rel in ((lk.Sibson, "sibson", 1e-10), (lk.Arimoto, "arimoto", 1e-9)):
        values = jax.jit(jax.vmap(lambda a, family=family: family(a)(joint, mechanism)))(np.array(orders))
        for order, value in zip(orders, values.tolist(), strict=True):
            if name == "sibson" or order <= 1e3:
                assert value == pytest.approx(expected[f"{name} {order}"], rel=rel, abs=rel * 1e-4), order
