"""The reduction to canonical correlations: definitions, invariance, degenerate pairs, bad input."""

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import sqrtm

from jaxpriv.models.gaussian import from_covariances, from_samples, funnel_curve, information
from tests.cases import assert_refused

from .conftest import covariances, with_correlations

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([(1, 1), (2, 3), (3, 2), (4, 4)])


@given(SEEDS, SIZES)
def test_eigenvalues_and_directions_are_those_of_the_definition(seed, sizes):
    sx, ss, sxs = covariances(seed, *sizes)
    pair = from_covariances(sx, ss, sxs)
    conditional = sx - sxs @ np.linalg.solve(ss, sxs.T)
    root = np.real(sqrtm(sx))
    whitened = np.linalg.solve(root, np.linalg.solve(root, conditional).T)
    assert_allclose(pair.eigenvalues, np.linalg.eigvalsh(whitened)[::-1], atol=1e-9)
    assert np.all(np.diff(pair.eigenvalues) <= 0)
    assert_allclose(pair.eigenvalues + pair.squared_correlations, 1, atol=1e-15)
    v = pair.directions
    assert_allclose(v @ sx @ v.T, np.eye(len(v)), atol=1e-9)
    assert_allclose(v @ conditional @ v.T, np.diag(pair.eigenvalues), atol=1e-9)
    # Left eigenvectors of Sx|s Sx^-1, as in Theorem 2 of the paper.
    assert_allclose(v @ conditional @ np.linalg.inv(sx), pair.eigenvalues[:, None] * v, atol=1e-7)
    joint = np.block([[sx, sxs], [sxs.T, ss]])
    expected = 0.5 * (np.linalg.slogdet(sx)[1] + np.linalg.slogdet(ss)[1] - np.linalg.slogdet(joint)[1])
    assert pair.private_information == pytest.approx(expected, abs=1e-8)


@given(SEEDS, SIZES)
def test_units_and_mixtures_of_the_variables_do_not_matter(seed, sizes):
    """X -> M X and S -> N S, as wild in scale as kilometres beside nanometres."""
    sx, ss, sxs = covariances(seed, *sizes)
    rng = np.random.default_rng(seed)
    before = from_covariances(sx, ss, sxs)
    # Well-conditioned mixtures (orthogonal), then any scales.
    m, n = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in sizes)
    du, dv = (10.0 ** rng.uniform(-12, 12, k) for k in sizes)
    m, n = du[:, None] * m, dv[:, None] * n
    after = from_covariances(m @ sx @ m.T, n @ ss @ n.T, m @ sxs @ n.T)
    assert_allclose(after.eigenvalues, before.eigenvalues, atol=1e-8)
    rates = np.array([0.01, 1.0, 5.0])
    assert_allclose(funnel_curve(after, rates), funnel_curve(before, rates), atol=1e-8)
    # The same mapping in the new units is A M^-1.
    matrix, noise = rng.normal(size=(2, sizes[0])), np.diag([0.5, 2.0])
    assert_allclose(
        information(after, matrix @ (m.T @ np.diag(du**-2.0)), noise), information(before, matrix, noise), atol=1e-8
    )


def test_more_variables_than_secrets_leave_directions_that_tell_nothing():
    pair = from_covariances(*covariances(0, 5, 2))
    assert_array_equal(pair.squared_correlations[:3], 0)
    assert_array_equal(pair.eigenvalues[:3], 1)
    assert pair.squared_correlations[3] > 0


def test_perfect_correlation_and_independence_are_cases():
    pair = with_correlations([0.0, 1.0, 0.5])
    assert_array_equal(pair.eigenvalues, [1, 0.75, 0])
    assert pair.private_information == np.inf
    assert with_correlations([0.0, 0.0]).private_information == 0
    # S = X up to rounding: nothing of the difference is in the matrices, so S determines X.
    mix = np.random.default_rng(1).normal(size=(4, 4))
    cov = mix @ mix.T
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0]
    same = from_covariances(cov, turn @ cov @ turn.T, cov @ turn.T)
    assert_array_equal(same.eigenvalues, 0)


def test_small_correlations_keep_their_digits():
    pair = with_correlations([1e-9, 1e-3])
    assert_allclose(pair.squared_correlations, [1e-18, 1e-6], rtol=1e-14)


def _with(matrix, index, value):
    changed = np.array(matrix, dtype=float)
    changed[index] = value
    return changed


SX, SS, SXS = covariances(5, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((_with(SX, (1, 2), np.nan), SS, SXS), r"^covariance_x\[1, 2\] is NaN"),
        ((_with(SX, (0, 2), SX[0, 2] + 1e-3), SS, SXS), r"^covariance_x\[0, 2\] differs from covariance_x\[2, 0\]"),
        ((SX[:2], SS, SXS), r"^covariance_x has shape \(2, 3\); a covariance matrix is square"),
        ((_with(SX, (1, 1), 0.0), SS, SXS), r"^covariance_x\[1, 1\] is a variance and must be positive"),
        ((SX, np.ones((2, 2)), SXS), r"^covariance_s is singular; see variable [01].*leave out variables"),
        ((SX, [[1, 2], [2, 1]], SXS), r"^covariance_s is not positive semidefinite; see variable [01]"),
        ((SX, SS, SXS.T), r"^cross_covariance has shape \(2, 3\); \(3, 2\) is needed .*transposed"),
        ((SX, SS, _with(SXS, (2, 1), np.nan)), r"^cross_covariance\[2, 1\] is NaN"),
        (
            (SX, SS, _with(SXS, (2, 1), 1e3)),
            r"^cross_covariance\[2, 1\] exceeds the product of the standard deviations",
        ),
        ((SX, "many", SXS), r"^covariance_s has dtype"),
        ((np.eye(3)[0], SS, SXS), r"^covariance_x has 1 dimension"),
    ],
)
def test_bad_covariances_are_refused_by_name_and_position(arguments, message):
    assert_refused(message, from_covariances, *arguments)


def test_impossible_joint_covariances_are_refused():
    """Every pair of variables could be, but not all of them together."""
    assert_refused(
        r"joint covariance is not positive semidefinite.*cross_covariance\[[01], :\]",
        from_covariances,
        np.eye(2),
        [[1.0]],
        [[0.8], [0.8]],
    )


def test_a_table_printed_with_few_digits_is_accepted():
    half = round(1 / np.sqrt(2), 10)
    pair = from_covariances(np.eye(2), [[1.0]], [[half], [half]])
    assert_allclose(pair.eigenvalues, [1, 0], atol=1e-9)


def test_tracers_are_refused():
    assert_refused("covariance_x is traced", jax.jit(lambda a: from_covariances(a, SS, SXS).eigenvalues), SX)


def _drawn(seed, count):
    sx, ss, sxs = covariances(7, 3, 2)
    joint = np.block([[sx, sxs], [sxs.T, ss]])
    rows = np.random.default_rng(seed).multivariate_normal(np.zeros(5), joint, size=count, method="cholesky")
    return rows[:, :3], rows[:, 3:], from_covariances(sx, ss, sxs)


def test_samples_estimate_the_covariances_whatever_the_means_and_units():
    x, s, truth = _drawn(0, 40_000)
    assert truth.samples is None
    pair = from_samples(x * np.array([1e-9, 1, 1e9]) + np.array([0, 1e6, 3e9]), s - 7)
    assert pair.samples == 40_000
    assert_allclose(pair.eigenvalues, truth.eigenvalues, atol=0.02)
    moments = from_covariances(np.cov(x.T), np.cov(s.T), np.cov(x.T, s.T)[:3, 3:])
    assert_allclose(pair.eigenvalues, moments.eigenvalues, atol=1e-9)
    one = from_samples(x[:, 0], s[:, 1])
    assert one.squared_correlations[0] == pytest.approx(np.corrcoef(x[:, 0], s[:, 1])[0, 1] ** 2, rel=1e-10)


@pytest.mark.parametrize(
    ("x", "s", "message"),
    [
        (np.eye(4), np.ones((3, 1)), r"^s has 3 rows, but x has 4"),
        (np.eye(4)[:, :2], np.eye(4)[:, :2], r"^x has 4 rows; at least 5 are needed"),
        (_with(np.eye(9)[:, :2], (3, 1), np.nan), np.eye(9)[:, 2], r"^x\[3, 1\] is NaN"),
        (np.eye(9)[:, :2], _with(np.eye(9)[:, :2], (4, 0), -np.inf), r"^s\[4, 0\] is infinite"),
        (np.eye(9)[:, :2] * [1, 0] + [0, 0.1], np.eye(9)[:, 2], r"^x\[:, 1\] is constant"),
        (np.eye(9)[:, :1] @ np.ones((1, 2)), np.eye(9)[:, 2], r"^covariance of x is singular; see variable"),
    ],
)
def test_bad_samples_are_refused_by_name_and_position(x, s, message):
    assert_refused(message, from_samples, x, s)
