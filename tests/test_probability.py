"""Marginals, posteriors, entropies: definitions, limits at zero, tables of counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from jaxpriv import DistortionProblem, leakage, probability
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import drawn_joint, refused, value_of

JOINT = np.array([[0.2, 0.0, 0.1], [0.0, 0.0, 0.7]])


def test_marginals_and_posterior():
    assert_allclose(probability.private_marginal(JOINT), [0.3, 0.7], rtol=1e-15)
    assert_allclose(probability.useful_marginal(JOINT), [0.2, 0.0, 0.8], rtol=1e-15)
    expected = [[1.0, 0.0, 0.125], [0.0, 0.0, 0.875]]  # a column without mass has no posterior: zeros
    assert_allclose(probability.posterior(JOINT), expected, rtol=1e-15)


def test_output_joint():
    joint, mechanism = random_joint(0, 3, 4), random_mechanisms(0, 1, 4, 5)[0]
    expected = [[sum(joint[s, x] * mechanism[x, y] for x in range(4)) for y in range(5)] for s in range(3)]
    assert_allclose(probability.output_joint(joint, mechanism), expected, rtol=1e-14)


def test_entropy():
    assert float(probability.entropy(np.full(8, 0.125))) == pytest.approx(np.log(8), rel=1e-15)
    assert float(probability.entropy(np.array([1.0, 0.0]))) == 0
    rows = probability.entropy(np.array([[0.5, 0.5], [1.0, 0.0]]), axis=1)
    assert_allclose(rows, [np.log(2), 0], atol=1e-16)
    assert float(probability.entropy(JOINT)) == pytest.approx(
        -(0.2 * np.log(0.2) + 0.1 * np.log(0.1) + 0.7 * np.log(0.7))
    )


def test_mutual_information():
    for seed in range(5):
        joint = random_joint(seed, 3, 4, zeros=0.5)
        a, b = joint.sum(axis=1), joint.sum(axis=0)
        entropies = probability.entropy(a) + probability.entropy(b) - probability.entropy(joint)
        assert float(probability.mutual_information(joint)) == pytest.approx(float(entropies), abs=1e-14)
    independent = np.outer([0.3, 0.7], [0.1, 0.2, 0.7])
    assert 0 <= float(probability.mutual_information(independent)) <= 1e-30
    # Three entropies would return rounding here; the digits are kept.
    slight = np.array([[0.25 + 1e-9, 0.25 - 1e-9], [0.25 - 1e-9, 0.25 + 1e-9]])
    assert float(probability.mutual_information(slight)) == pytest.approx(8e-18, rel=1e-6)
    gradient = jax.jit(jax.grad(probability.mutual_information))(JOINT)
    assert np.isfinite(gradient).all()


def test_counts_become_a_joint():
    assert_allclose(probability.from_counts([[3, 1], [0, 4]]), [[0.375, 0.125], [0.0, 0.5]], rtol=1e-15)
    for counts, message in [
        ([[3, -1], [0, 4]], r"^counts\[0, 1\] is negative"),
        ([[3, np.nan], [0, 4]], r"^counts\[0, 1\] is NaN"),
        ([[0, 0]], r"^counts has no mass"),
        ([3, 1], r"^counts has 1 dimension"),
        ([[True, False]], r"^counts has dtype bool"),
    ]:
        with refused(message):
            probability.from_counts(counts)


@pytest.mark.parametrize(("dtype", "away"), [(np.float32, 1e-6), (np.float16, 1e-2), (np.float64, 5e-10)])
def test_totals_within_the_rounding_of_their_precision_are_divided_out(dtype, away):
    """float32 joints and rows that sum to 1.00000003 are distributions; what float64 holds must be nearer to 1."""
    joint = drawn_joint(0, 3, 4)
    rows = np.random.default_rng(1).dirichlet(np.ones(5), 4)

    def joint_of(table):
        return DistortionProblem(table, 1 - np.eye(4), budget=0.3).joints[0]

    def leaked(mechanism):
        return value_of(leakage.MutualInformation(), joint, mechanism)

    for factor in (1 + away, 1 - away):
        assert_allclose(joint_of((joint * factor).astype(dtype)).sum(), 1.0, rtol=1e-15)
        near = {np.float64: 1e-14, np.float32: 1e-6, np.float16: 1e-2}[dtype]  # of the entries
        assert_allclose(leaked((rows * factor).astype(dtype)), leaked(rows), rtol=near)
        if dtype != np.float64:
            with refused("sums to"):
                joint_of(joint * factor)
    for factor in (1 + 10 * away, 1 - 10 * away):
        with refused("joint sums to"):
            joint_of((joint * factor).astype(dtype))
        with refused("row 0 sums to"):
            leaked((rows * factor).astype(dtype))


def test_a_float32_joint_is_accepted_by_every_form_of_problem():
    joint = (drawn_joint(0, 3, 4) * (1 + 3e-7)).astype(np.float32)
    assert float(joint.astype(np.float64).sum()) != pytest.approx(1.0, abs=1e-8)
    exact = joint / joint.astype(np.float64).sum()
    for value in (joint, jnp.asarray(joint)):
        problem = DistortionProblem(value, 1 - np.eye(4), budget=0.3)
        assert_allclose(problem.joints[0], exact, rtol=1e-15)
    many = DistortionProblem(np.stack([joint, joint]), 1 - np.eye(4), budget=0.3)
    assert_allclose(many.joints, [exact, exact], rtol=1e-15)
