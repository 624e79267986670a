"""Channels whose leakage is known in closed form (randomised response and erasure: `tests/baselines`)."""

import math

import numpy as np
import pytest

import jaxpriv.leakage as lk
from tests.cases import assert_values


def one(values_of, joint, mechanism):
    """The values of one instance, in the shape that `values_of` is compiled for."""
    joints, mechanisms = np.zeros((28, 4, 5)), np.zeros((28, 5, 6))
    joints[:, : joint.shape[0], : joint.shape[1]] = joint
    mechanisms[:, :, 0] = 1.0  # of symbols x that do not occur
    mechanisms[:, : mechanism.shape[0]] = 0.0
    mechanisms[:, : mechanism.shape[0], : mechanism.shape[1]] = mechanism
    return {name: float(values[0]) for name, values in values_of(joints, mechanisms).items()}


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
        (np.array([[0.25, 0.75]]), np.array([[0.9, 0.1], [0.1, 0.9]])),
        (np.array([[0.5], [0.3], [0.2]]), np.array([[0.3, 0.7]])),
        (np.array([[0.2, 0.3], [0.4, 0.1]]), np.ones((2, 1))),
    ):
        for name, value in one(values_of, joint, mechanism).items():
            floor = joint.sum(axis=1).max() if name == "correct-guess" else 0.0
            assert value == pytest.approx(floor, abs=5e-15), name


def test_near_perfect_privacy_keeps_its_digits():
    """I = chi^2/2 + O(eps^3) for a channel eps away from constant: 1e-16 is not rounded to 0 or below."""
    eps = 1e-8
    expected = {
        lk.MutualInformation(): 2 * eps**2,
        lk.FInformation(lk.ReverseKullbackLeibler()): 2 * eps**2,
        lk.FInformation(lk.SquaredHellinger()): eps**2,
        lk.FInformation(lk.JensenShannon()): eps**2 / 2,
    }
    assert_values(
        expected, np.eye(2) / 2, np.array([[0.5 + eps, 0.5 - eps], [0.5 - eps, 0.5 + eps]]), rel=1e-6, abs=0.0
    )


def test_identity_gives_everything_away(values_of):
    p = np.array([0.1, 0.2, 0.3, 0.4])
    entropy = -float(np.sum(p * np.log(p)))
    values = one(values_of, np.diag(p), np.eye(4))
    exact = {"mutual-information": entropy, "max-information": entropy, "maximal-leakage": math.log(4)}
    exact |= {"correct-guess": 1.0, "min-entropy": -math.log(0.4), "max-lift": -math.log(0.1)}
    infinite = ("lift", "min-lift", "ldp", "ldp-chain", "inferential", "reverse-kl")
    exact |= dict.fromkeys(infinite, math.inf)
    assert {name: values[name] for name in exact} == pytest.approx(exact, rel=0, abs=1e-15)
    assert values["chi-squared"] == pytest.approx(3, abs=1e-14)
    for order in (0.05, 0.5, 2.0, 5.0):
        # Arimoto: the Rényi entropy of p; Sibson: that of the order 1/a.
        arimoto = math.log(np.sum(p**order)) / (1 - order)
        sibson = order / (order - 1) * math.log(np.sum(p ** (1 / order)))
        assert values[f"arimoto {order}"] == pytest.approx(arimoto, abs=1e-13)
        assert values[f"sibson {order}"] == pytest.approx(sibson, abs=1e-13)
