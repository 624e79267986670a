"""I(X;Y) and I(S;Y) of any mapping: determinants, invariance, nearly singular noise, bad input."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from jaxpriv.models.gaussian import from_covariances, information
from tests.cases import assert_refused

from .conftest import covariances, with_correlations

SEEDS = st.integers(0, 2**32 - 1)


def _logdet(matrix):
    return np.linalg.slogdet(matrix)[1]


@given(SEEDS)
def test_determinants_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(1, 5, 3)
    sx, ss, sxs = covariances(seed, n, m)
    pair = from_covariances(sx, ss, sxs)
    matrix, mix = rng.normal(size=(k, n)), rng.normal(size=(k, k + 2))
    noise = mix @ mix.T
    sy = matrix @ sx @ matrix.T + noise
    hidden = sy - matrix @ sxs @ np.linalg.solve(ss, sxs.T @ matrix.T)
    numbers = information(pair, matrix, noise)
    assert numbers.disclosure == pytest.approx(0.5 * (_logdet(sy) - _logdet(noise)), abs=1e-8)
    assert numbers.leakage == pytest.approx(0.5 * (_logdet(sy) - _logdet(hidden)), abs=1e-8)
    # Data processing.
    assert 0 <= numbers.leakage <= numbers.disclosure * (1 + 1e-12)
    assert numbers.leakage <= pair.private_information * (1 + 1e-9)
    # Y -> G Y changes nothing, units of Y least of all; dropping an output tells less.
    turn = np.linalg.qr(rng.normal(size=(k, k)))[0] * 10.0 ** rng.uniform(-9, 9, (k, 1))
    again = information(pair, turn @ matrix, turn @ noise @ turn.T)
    assert_allclose(again, numbers, rtol=1e-7, atol=1e-12)
    if k > 1:
        fewer = information(pair, matrix[1:], noise[1:, 1:])
        assert fewer.disclosure <= numbers.disclosure * (1 + 1e-10)
        assert fewer.leakage <= numbers.leakage * (1 + 1e-10)


def test_outputs_of_noise_tell_nothing(source):
    assert information(source, np.zeros((2, 3)), np.eye(2)) == (0.0, 0.0)


def test_nearly_singular_sources_lose_only_what_the_matrix_lost():
    """X = (U, U + 1e-4 V): the direction of V is in the 8th digit of the covariance, so half of the digits are left."""
    pair = from_covariances([[1.0, 1.0], [1.0, 1.0 + 1e-8]], [[1.0]], [[0.0], [0.5e-4]])  # corr(S, V) = 1/2
    assert_allclose(pair.squared_correlations, [0, 0.25], atol=2e-8)
    numbers = information(pair, [[-1.0, 1.0]], [[1e-8]])  # Y = 1e-4 V + Z, both of the same variance
    assert_allclose(numbers, (0.5 * np.log(2), -0.5 * np.log1p(-0.125)), atol=2e-8)


@pytest.mark.parametrize("spread", ["1", "1e-6", "1e-20", "1e-100", "1e-300"])
def test_nearly_singular_releases_against_400_digits(spread):
    """Two nearly equal outputs of two variables: the plain determinants have lost every digit below 1e-16."""
    numbers = information(
        with_correlations([0.5, 0.25]), [[1.0, 2.0], [1.0, 2.125]], np.eye(2) * float(spread)
    )  # sums and products below are exact in decimals
    with localcontext() as context:
        context.prec = 400
        z = Decimal(spread)
        p, q = Decimal("2"), Decimal("2.125")

        def log_det(first, second):
            product = (first + p * p * second + z) * (first + q * q * second + z)
            return (product - (first + p * q * second) ** 2).ln()

        y = log_det(Decimal(1), Decimal(1))
        hidden = log_det(Decimal("0.75"), Decimal("0.9375"))
        disclosure, leakage = float((y - 2 * z.ln()) / 2), float((y - hidden) / 2)
    assert numbers.disclosure == pytest.approx(disclosure, rel=1e-13)
    assert numbers.leakage == pytest.approx(leakage, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1e-8, 1e-100, 1e-160])
def test_nearly_no_leakage_keeps_its_digits(scale):
    """At small gain leakage is 1/2 tr(A Sxs Ss^-1 Ssx A') and disclosure 1/2 tr(A Sx A'), to relative accuracy."""
    pair, matrix = with_correlations([0.5, 0.25]), np.array([[1.0, 2.0]]) * scale
    numbers = information(pair, matrix, [[1.0]])
    rho = np.array([0.25, 0.0625])
    assert numbers.disclosure == pytest.approx(0.5 * (matrix**2).sum(), rel=10 * scale**2 + 1e-13, abs=1e-320)
    assert numbers.leakage == pytest.approx(0.5 * (matrix**2 @ rho)[0], rel=10 * scale**2 + 1e-13, abs=1e-320)


@pytest.mark.parametrize(
    ("matrix", "noise", "message"),
    [
        (np.ones((1, 2)), [[1.0]], r"^matrix has 2 columns, but X has 3 variables"),
        (np.ones((3, 1)), np.eye(3), r"^matrix has 1 columns, but X has 3 variables; it looks transposed"),
        (np.full((1, 3), np.nan), [[1.0]], r"^matrix\[0, 0\] is NaN"),
        (np.ones((2, 3)), [[1.0]], r"^noise is for 1 outputs, but matrix has 2 rows"),
        (np.ones((1, 3)), [[0.0]], r"^noise\[0, 0\] is a variance and must be positive"),
        (np.ones((2, 3)), np.ones((2, 2)), r"^noise is singular; see variable [01]"),
        (np.ones((2, 3)), [[1.0, 0.5], [0.4, 1.0]], r"^noise\[0, 1\] differs from noise\[1, 0\]"),
        (np.full((1, 3), 1e300), [[1e-300]], r"^matrix and noise differ by more than the range"),
    ],
)
def test_bad_mappings_are_refused(source, matrix, noise, message):
    assert_refused(message, information, source, matrix, noise)
