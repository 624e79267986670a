"""Every measure against its definition, written as loops in NumPy without any of the library's formulas."""

import math
from decimal import Decimal, localcontext

import equinox as eqx
import jax
import numpy as np
import pytest

import jaxpriv.leakage as lk

INF = math.inf


def kl(q, p):
    return sum(a * math.log(a / b) for a, b in zip(q, p, strict=True) if a > 0)


def entropy(q):
    return -sum(a * math.log(a) for a in q if a > 0)


def renyi_divergence(q, p, order):
    total = sum(b * (a / b) ** order for a, b in zip(q, p, strict=True) if b > 0 and a > 0)
    return math.log(total) / (order - 1)


def norm(w, order):
    return max(w) if order == INF else max(w) * sum((a / max(w)) ** order for a in w if a > 0) ** (1 / order)


def arimoto(p, columns, order):
    if order == 1:
        return sum(sum(w) * kl([a / sum(w) for a in w], p) for w in columns)
    factor = 1 if order == INF else order / (order - 1)
    return factor * math.log(sum(norm(w, order) for w in columns) / norm(p, order))


def sibson(p, columns, order):
    if order == 1:
        return arimoto(p, columns, 1)
    if order == INF:
        return math.log(sum(max(a / b for a, b in zip(w, p, strict=True) if b > 0) for w in columns))
    # D_order(P_SY || P_S x Q) at the Q that attains the minimum; that it does is a test of its own.
    likelihoods = [[(a / b, b) for a, b in zip(w, p, strict=True) if b > 0 and a > 0] for w in columns]
    tops = [max(c for c, _ in column) for column in likelihoods]
    unnormalised = [
        top * sum(b * (c / top) ** order for c, b in column) ** (1 / order)
        for top, column in zip(tops, likelihoods, strict=True)
    ]
    q = [u / sum(unnormalised) for u in unnormalised]
    return sibson_objective(p, columns, order, q)


def sibson_objective(p, columns, order, q):
    total = sum(
        b * q[y] * (a / b / q[y]) ** order
        for y, w in enumerate(columns)
        for a, b in zip(w, p, strict=True)
        if b > 0 and a > 0
    )
    return math.log(total) / (order - 1)


def f_information(p, columns, f, f_at_zero):
    total = 0.0
    for w in columns:
        for a, b in zip(w, p, strict=True):
            if b > 0:
                total += sum(w) * b * (f(a / sum(w) / b) if a > 0 else f_at_zero)
    return total


def least_cost(q, losses):
    return min(sum(a * row[action] for a, row in zip(q, losses, strict=True)) for action in range(len(losses[0])))


def costs(losses):
    return {
        "log-loss": entropy,
        "zero-one": lambda q: 1 - max(q),
        "brier": lambda q: sum(a * (1 - 2 * a + sum(b * b for b in q)) for a in q),
        "matrix": lambda q: least_cost(q, losses),
    }


def log_ratio(a, b):
    return -INF if a == 0 else INF if b == 0 else math.log(a) - math.log(b)


def defined(joint, mechanism, measures, orders):
    p = [math.fsum(row) for row in joint.tolist()]
    columns = [w for w in (joint @ mechanism).T.tolist() if sum(w) > 0]
    posteriors = [[a / sum(w) for a in w] for w in columns]
    masses = [sum(w) for w in columns]
    support = [s for s, b in enumerate(p) if b > 0]
    lifts = [[log_ratio(q[s], p[s]) for s in support] for q in posteriors]
    likelihoods = [{s: q[s] / p[s] for s in support} for q in posteriors]
    relation = measures["ldp of neighbours"].neighbours
    gains = measures["g-leakage"].gains.tolist()

    def vulnerability(w):
        return max(sum(g * a for g, a in zip(row, w, strict=True)) for row in gains)

    def pairs(allowed):
        ratios = (
            log_ratio(c[s], c[r]) for c in likelihoods for s in support for r in support if allowed(s, r) and c[s] > 0
        )
        return max(ratios, default=0.0)

    average = sum(m * kl(q, p) for m, q in zip(masses, posteriors, strict=True))
    expected = {
        "mutual-information": average,
        "max-information": max(entropy(p) - entropy(q) for q in posteriors),
        "relative-entropy": max(kl(q, p) for q in posteriors),
        "correct-guess": sum(max(w) for w in columns),
        "min-entropy": math.log(sum(max(w) for w in columns) / max(p)),
        "maximal-leakage": sibson(p, columns, INF),
        "g-leakage": math.log(sum(vulnerability(w) for w in columns) / vulnerability(p)),
        "f kl": average,
        "f user": average,
        "f reverse-kl": f_information(p, columns, lambda t: -math.log(t), INF),
        "f chi-squared": f_information(p, columns, lambda t: t * t - 1, -1.0),
        "f total-variation": f_information(p, columns, lambda t: max(t - 1, 0), 0.0),
        "f squared-hellinger": f_information(p, columns, lambda t: 2 * (1 - math.sqrt(t)), 2.0),
        "f jensen-shannon": f_information(
            p, columns, lambda t: (t * math.log(2 * t / (1 + t)) + math.log(2 / (1 + t))) / 2, math.log(2) / 2
        ),
        "f e-gamma": f_information(p, columns, lambda t: max(t - 1.2, 0), 0.0),
        "lift": max(abs(v) for lift in lifts for v in lift),
        "max-lift": max(v for lift in lifts for v in lift),
        "min-lift": max(-v for lift in lifts for v in lift),
        "ldp": pairs(lambda s, r: True),
        "ldp of neighbours": pairs(lambda s, r: relation[s, r]),
        "inferential": pairs(lambda s, r: True),
    }
    for name, cost in costs(measures["average gain matrix"].cost.losses.tolist()).items():
        expected[f"average gain {name}"] = cost(p) - sum(m * cost(q) for m, q in zip(masses, posteriors, strict=True))
        expected[f"maximum gain {name}"] = cost(p) - min(cost(q) for q in posteriors)
    for order in orders:
        expected[f"sibson {order}"] = sibson(p, columns, order)
        expected[f"arimoto {order}"] = arimoto(p, columns, order)
    return expected


@pytest.mark.parametrize("seed", range(3))
def test_every_measure_is_its_definition(seed, instances, values_of, measures, orders):
    joints, mechanisms = instances(seed)
    values = values_of(joints, mechanisms)
    for i in range(len(joints)):
        expected = defined(joints[i], mechanisms[i], measures, orders)
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
    assert value == pytest.approx(sibson(p, columns, order), abs=1e-13)


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
            np.testing.assert_allclose(column, (textbook(w) - w.sum()) / k, rtol=1e-10, atol=1e-13)
            np.testing.assert_allclose(measure.column(3 * w, p), 3 * column, rtol=1e-12)
            total = total + column
        value = measure(joint, mechanism)
        np.testing.assert_allclose(measure.outer(total), value, rtol=1e-10)
        np.testing.assert_allclose(measure.outer_inverse(value), total, rtol=1e-10)
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
        np.testing.assert_allclose(of_more, 2.5 * of_u, rtol=1e-10, atol=1e-15, err_msg=name)
        np.testing.assert_array_equal(of_nothing, 0.0, err_msg=name)


def decimal_sibson(joint, mechanism, order, tilt=False):
    """The textbook formula in 50 digits: no cancellation however close the order is to 1."""
    with localcontext() as context:
        context.prec = 50
        joint = [[Decimal(a) for a in row] for row in joint.tolist()]
        mechanism = [[Decimal(a) for a in row] for row in mechanism.tolist()]
        order = Decimal(order)
        p = [sum(row) for row in joint]
        channel = [
            [sum(joint[s][x] * mechanism[x][y] for x in range(len(mechanism))) / p[s] for y in range(len(mechanism[0]))]
            for s in range(len(p))
        ]
        # Arimoto's is Sibson's for the prior proportional to p^a.
        weights = [b**order if tilt else b for b in p]
        weights = [b / sum(weights) for b in weights]
        total = sum(
            sum(b * row[y] ** order for b, row in zip(weights, channel, strict=True)) ** (1 / order)
            for y in range(len(mechanism[0]))
        )
        # The rows of a float mechanism sum to 1 + 1e-16, which 1/(a-1) would blow up.
        total /= sum(sum(b * row[y] for b, row in zip(weights, channel, strict=True)) for y in range(len(channel[0])))
        return float(order / (order - 1) * total.ln())


def test_orders_close_to_one_and_far_from_it(interior):
    joint, mechanism = interior(3)
    near = [1 + sign * distance for distance in (1e-2, 1e-3, 1e-6, 1e-9, 1e-12) for sign in (-1, 1)]
    orders = np.array([*near, 1e-3, 1e-2, 0.1, 30.0, 1e3, 1e6])
    sibson_values = jax.jit(jax.vmap(lambda a: lk.Sibson(a)(joint, mechanism)))(orders)
    arimoto_values = jax.jit(jax.vmap(lambda a: lk.Arimoto(a)(joint, mechanism)))(orders)
    for order, value, tilted in zip(orders.tolist(), sibson_values, arimoto_values, strict=True):
        assert float(value) == pytest.approx(decimal_sibson(joint, mechanism, order), rel=1e-10, abs=1e-14), order
        if order <= 1e3:
            expected = decimal_sibson(joint, mechanism, order, tilt=True)
            assert float(tilted) == pytest.approx(expected, rel=1e-9, abs=1e-13), order


def test_limits_of_the_order(interior):
    joint, mechanism = interior(4)
    step = 1e-4
    at = np.array([1.0, 1 - step, 1 + step, 1e9, np.inf])
    one, before, after, large, endless = jax.jit(jax.vmap(lambda a: lk.Sibson(a)(joint, mechanism)))(at)
    one_, *_, endless_ = jax.jit(jax.vmap(lambda a: lk.Arimoto(a)(joint, mechanism)))(at)
    information = lk.evaluate(lk.MutualInformation(), joint, mechanism).value
    assert float(one) == pytest.approx(information, abs=1e-15)
    assert float(one_) == pytest.approx(information, abs=1e-15)
    # The slope at 1: the difference quotient of the two sides agrees with the derivative in the order.
    slope = float(jax.jit(jax.grad(lambda a: lk.Sibson(a)(joint, mechanism)))(1.0))
    assert slope == pytest.approx(float(after - before) / (2 * step), rel=1e-6)
    maximal = lk.evaluate(lk.MaximalLeakage(), joint, mechanism).value
    assert float(large) == pytest.approx(maximal, abs=1e-8)
    assert float(endless) == pytest.approx(maximal, abs=1e-15)
    assert float(endless_) == pytest.approx(lk.evaluate(lk.MinEntropyLeakage(), joint, mechanism).value, abs=1e-15)
    # Order -> 0: -ln max_y P_S(the symbols that y leaves possible).
    z = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.3, 0.0, 0.7]])
    p = np.array([0.5, 0.3, 0.2])
    near_zero = lk.evaluate(lk.Sibson(1e-6), np.diag(p), z).value
    assert near_zero == pytest.approx(-math.log(0.8), abs=1e-4)
