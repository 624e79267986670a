"""Channels whose leakage is known in closed form."""

import math

import jax
import numpy as np
import pytest

import jaxpriv.leakage as lk


def h(d):
    return -sum(q * math.log(q) for q in (d, 1 - d) if q > 0)


def bsc(d):
    return np.array([[1 - d, d], [d, 1 - d]])


def uniform(n):
    return np.eye(n) / n


@pytest.mark.parametrize("d", [0.0, 0.1, 0.3, 0.5])
def test_binary_symmetric_channel(d):
    joint, channel = uniform(2), bsc(d)
    assert float(lk.MutualInformation()(joint, channel)) == pytest.approx(math.log(2) - h(d), abs=1e-15)
    assert float(lk.MaxInformation()(joint, channel)) == pytest.approx(math.log(2) - h(d), abs=1e-15)
    assert float(lk.MaximalLeakage()(joint, channel)) == pytest.approx(math.log(2 * max(d, 1 - d)), abs=1e-15)
    assert float(lk.CorrectGuess()(joint, channel)) == pytest.approx(max(d, 1 - d), abs=1e-15)
    assert float(lk.FInformation(lk.TotalVariation())(joint, channel)) == pytest.approx(abs(0.5 - d), abs=1e-15)
    assert float(lk.FInformation(lk.ChiSquared())(joint, channel)) == pytest.approx((1 - 2 * d) ** 2, abs=1e-15)
    ratio = math.log((1 - d) / d) if d > 0 else math.inf
    assert float(lk.LocalDifferentialPrivacy()(joint, channel)) == pytest.approx(ratio, abs=1e-14)
    assert float(lk.Lift()(joint, channel)) == pytest.approx(-math.log(2 * d) if d > 0 else math.inf, abs=1e-14)
    assert float(lk.MaxLift()(joint, channel)) == pytest.approx(math.log(2 * (1 - d)), abs=1e-14)


def test_sibson_on_the_binary_symmetric_channel():
    orders = np.array([0.01, 0.1, 0.5, 0.9, 0.999999, 1.0, 1.000001, 1.1, 2.0, 5.0, 100.0, 1e6, math.inf])
    for d in (0.1, 0.25, 0.49):
        values = jax.jit(jax.vmap(lambda a, c: lk.Sibson(a)(uniform(2), c), in_axes=(0, None)))(orders, bsc(d))
        for order, value in zip(orders.tolist(), values, strict=True):
            # ln 2 - H_a(d), a Rényi entropy; near order 1 its logarithm is that of 1 + (small).
            if order == 1:
                renyi = h(d)
            elif order > 1e5:
                renyi = -math.log(1 - d) * (1 if order == math.inf else order / (order - 1))
            elif abs(order - 1) > 0.05:
                renyi = math.log(d**order + (1 - d) ** order) / (1 - order)
            else:
                excess = sum(q * math.expm1((order - 1) * math.log(q)) for q in (d, 1 - d))
                renyi = math.log1p(excess) / (1 - order)
            expected = math.log(2) - renyi
            assert float(value) == pytest.approx(expected, abs=1e-12), (d, order)


@pytest.mark.parametrize(
    ("order", "bits"),
    [(0.5, 0.321928095), (1.0, 0.531004406), (2.0, 0.713695815), (5.0, 0.810002241), (math.inf, 0.847996907)],
)
def test_sibson_reference_values(order, bits):
    result = lk.evaluate(lk.Sibson(order), uniform(2), bsc(0.1), units="bits")
    assert result.units == "bits"
    assert result.value == pytest.approx(bits, abs=5e-10)


def test_binary_erasure_channel():
    e, p = 0.3, 0.2
    channel = np.array([[1 - e, e, 0.0], [0.0, e, 1 - e]])
    joint = np.diag([p, 1 - p])
    assert float(lk.MutualInformation()(joint, channel)) == pytest.approx((1 - e) * h(p), abs=1e-15)
    assert float(lk.MaxInformation()(joint, channel)) == pytest.approx(h(p), abs=1e-15)
    assert float(lk.RelativeEntropyPrivacy()(joint, channel)) == pytest.approx(-math.log(p), abs=1e-15)
    assert float(lk.MaximalLeakage()(joint, channel)) == pytest.approx(math.log(2 - e), abs=1e-15)
    assert float(lk.CorrectGuess()(joint, channel)) == pytest.approx(1 - e * p, abs=1e-15)
    assert float(lk.MinEntropyLeakage()(joint, channel)) == pytest.approx(math.log((1 - e * p) / (1 - p)), abs=1e-15)
    assert float(lk.Lift()(joint, channel)) == math.inf
    assert float(lk.MaxLift()(joint, channel)) == pytest.approx(-math.log(p), abs=1e-15)
    brier = lk.AverageCostGain(lk.BrierLoss())(joint, channel)
    assert float(brier) == pytest.approx((1 - e) * 2 * p * (1 - p), abs=1e-15)


def test_z_channel():
    p, d = 0.4, 0.25  # P(S=1) = p; a 1 is read as 0 with probability d
    joint, channel = np.diag([1 - p, p]), np.array([[1.0, 0.0], [d, 1 - d]])
    information = h(p * (1 - d)) - p * h(d)
    assert float(lk.MutualInformation()(joint, channel)) == pytest.approx(information, abs=1e-15)
    assert float(lk.MaximalLeakage()(joint, channel)) == pytest.approx(math.log(2 - d), abs=1e-15)
    order = 3.0
    expected = (
        order / (order - 1) * math.log((1 - p + p * d**order) ** (1 / order) + (p * (1 - d) ** order) ** (1 / order))
    )
    assert float(lk.Sibson(order)(joint, channel)) == pytest.approx(expected, abs=1e-15)
    assert float(lk.LocalDifferentialPrivacy()(joint, channel)) == math.inf


def one(values_of, joint, mechanism):
    """The values of one instance, in the shape that `values_of` is compiled for."""
    joints, mechanisms = np.zeros((28, 4, 5)), np.zeros((28, 5, 6))
    joints[:, : joint.shape[0], : joint.shape[1]] = joint
    mechanisms[:, :, 0] = 1.0  # of symbols x that do not occur
    mechanisms[:, : mechanism.shape[0]] = 0.0
    mechanisms[:, : mechanism.shape[0], : mechanism.shape[1]] = mechanism
    return {name: float(values[0]) for name, values in values_of(joints, mechanisms).items()}


def test_identity_gives_everything_away(values_of):
    p = np.array([0.1, 0.2, 0.3, 0.4])
    joint, entropy = np.diag(p), -float(np.sum(p * np.log(p)))
    values = one(values_of, joint, np.eye(4))
    assert values["mutual-information"] == pytest.approx(entropy, abs=1e-15)
    assert values["max-information"] == pytest.approx(entropy, abs=1e-15)
    assert values["maximal-leakage"] == pytest.approx(math.log(4), abs=1e-15)
    assert values["correct-guess"] == pytest.approx(1, abs=1e-15)
    assert values["min-entropy"] == pytest.approx(-math.log(0.4), abs=1e-15)
    assert values["max-lift"] == pytest.approx(-math.log(0.1), abs=1e-15)
    assert values["f chi-squared"] == pytest.approx(3, abs=1e-14)
    for name in ("lift", "min-lift", "ldp", "ldp of neighbours", "inferential", "f reverse-kl"):
        assert values[name] == math.inf, name
    for order in (0.05, 0.5, 2.0, 5.0):
        # Arimoto: the Rényi entropy of p; Sibson: that of the order 1/a.
        arimoto = math.log(np.sum(p**order)) / (1 - order)
        sibson = order / (order - 1) * math.log(np.sum(p ** (1 / order)))
        assert values[f"arimoto {order}"] == pytest.approx(arimoto, abs=1e-13)
        assert values[f"sibson {order}"] == pytest.approx(sibson, abs=1e-13)


def test_constant_mechanism_leaks_nothing(values_of, instances):
    joints, mechanisms = instances(0)
    constant = np.broadcast_to(mechanisms[:, :1], mechanisms.shape)
    for name, values in values_of(joints, constant).items():
        if name == "correct-guess":
            values = values - joints.sum(axis=2).max(axis=1)
        np.testing.assert_allclose(values, 0.0, atol=2e-14, err_msg=name)


def test_one_symbol_and_one_output(values_of):
    for joint, mechanism in (
        (np.array([[1.0]]), np.array([[1.0]])),
        (np.array([[0.25, 0.75]]), bsc(0.1)),
        (np.array([[0.5], [0.3], [0.2]]), np.array([[0.3, 0.7]])),
        (np.array([[0.2, 0.3], [0.4, 0.1]]), np.ones((2, 1))),
    ):
        for name, value in one(values_of, joint, mechanism).items():
            floor = joint.sum(axis=1).max() if name == "correct-guess" else 0.0
            assert value == pytest.approx(floor, abs=5e-15), name


def test_lift_does_not_bound_definition_4():
    """p = (1/2, 1/(2m), ...): lift ln 2, yet the worst output saves 1.86 nats of log-loss at m = 1000."""
    m = 1000
    p = np.concatenate([[0.5], np.full(m, 0.5 / m)])
    posteriors = np.stack([np.concatenate([[a], np.full(m, (1 - a) / m)]) for a in (0.75, 0.25)], axis=1)
    joint, mechanism = posteriors * 0.5, np.eye(2)
    np.testing.assert_allclose(joint.sum(axis=1), p, rtol=1e-14)
    lift = float(lk.Lift()(joint, mechanism))
    worst = float(lk.MaxInformation()(joint, mechanism))
    entropy = -float(np.sum(p * np.log(p)))
    assert lift == pytest.approx(math.log(2), abs=1e-14)
    assert worst == pytest.approx(1.86, abs=5e-3)
    assert worst <= lift + (1 - math.exp(-lift)) * entropy
    assert float(lk.RelativeEntropyPrivacy()(joint, mechanism)) <= lift


def test_near_perfect_privacy_keeps_its_digits():
    """I = chi^2/2 + O(eps^3) for a channel eps away from constant: 1e-16 is not rounded to 0 or below."""
    eps = 1e-8
    joint = uniform(2)
    mechanism = np.array([[0.5 + eps, 0.5 - eps], [0.5 - eps, 0.5 + eps]])
    expected = 2 * eps**2
    for measure in (lk.MutualInformation(), lk.FInformation(lk.ReverseKullbackLeibler())):
        assert float(measure(joint, mechanism)) == pytest.approx(expected, rel=1e-6)
    assert float(lk.FInformation(lk.SquaredHellinger())(joint, mechanism)) == pytest.approx(eps**2, rel=1e-6)
    assert float(lk.FInformation(lk.JensenShannon())(joint, mechanism)) == pytest.approx(eps**2 / 2, rel=1e-6)
