"""The shipped closed forms of funnels and bottlenecks: reference numbers, mappings that attain them, duality."""

import itertools

import numpy as np
import pytest

from jaxpriv.leakage import MutualInformation
from jaxpriv.testing import (
    binary_bottleneck,
    binary_entropy,
    binary_funnel,
    binary_funnel_at,
    gaussian_bottleneck,
    gaussian_funnel,
)
from tests.cases import refused, value_of

BITS = 1 / np.log(2)
# (p, delta, R, PF), bits.
REFERENCE = [
    (0.14, 0.24, 0.384238812, 0.060346958),
    (0.14, 0.24, 0.156513406, 0.017908396),
    (0.14, 0.24, 0.049026144, 0.004615280),
    (0.3, 0.1, 0.681290899, 0.349622230),
    (0.3, 0.1, 0.381290899, 0.190320908),
    (0.3, 0.1, 0.117743697, 0.054259111),
    (0.5, 0.1, 0.5, 0.265502203),
    (0.5, 0.25, 0.5, 0.094360938),
]
CASES = [(0.14, 0.24), (0.3, 0.1), (0.5, 0.1), (0.02, 0.45), (0.45, 0.6), (0.3, 0.0), (0.3, 0.5)]


@pytest.mark.parametrize(("p", "delta", "rate", "value"), REFERENCE)
def test_binary_funnel_has_the_reference_values(p, delta, rate, value):
    found = binary_funnel_at(p, delta, rate / BITS)
    assert found.disclosure * BITS == pytest.approx(rate, abs=1e-12)
    assert found.leakage * BITS == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("p", "delta"), CASES)
def test_binary_mappings_attain_the_closed_form(p, delta):
    measure = MutualInformation()
    for alpha in (0.0, p, 2 * p, 0.5 + p, 1.0):
        point = binary_funnel(p, delta, min(alpha, 1.0))
        assert value_of(measure, point.joint, point.mechanism) == pytest.approx(point.leakage, abs=1e-14)
        useful = np.diag(point.joint.sum(axis=0))
        assert value_of(measure, useful, point.mechanism) == pytest.approx(point.disclosure, abs=1e-14)
    assert binary_funnel(p, delta, 1.0).disclosure == pytest.approx(0, abs=1e-15)
    assert binary_funnel(p, delta, 0.0).disclosure == binary_entropy(p)


@pytest.mark.parametrize(("p", "delta"), CASES)
def test_inversion_meets_the_disclosure(p, delta):
    most = binary_entropy(p)
    for share in (0.0, 1e-9, 0.01, 0.5, 0.9, 1.0):
        assert binary_funnel_at(p, delta, share * most).disclosure == pytest.approx(share * most, abs=1e-14)


def test_binary_bottleneck_is_attained_and_above_the_funnel():
    measure, delta = MutualInformation(), 0.1
    joint = np.array([[0.45, 0.05], [0.05, 0.45]])
    for crossover in (0.0, 0.02, 0.2, 0.5):
        channel = np.array([[1 - crossover, crossover], [crossover, 1 - crossover]])
        rate = np.log(2) - binary_entropy(crossover)
        value = binary_bottleneck(delta, rate)
        assert value == pytest.approx(value_of(measure, joint, channel), abs=1e-7 if rate == 0 else 1e-13)
        assert value >= binary_funnel_at(0.5, delta, rate).leakage - 1e-15


def test_gaussian_oracles_at_known_points():
    # One variable of correlation 1/2: -1/2 ln(1 - (1 - e^-2R)/4) for both.
    for rate, value in itertools.product((0.0, 0.5, 4.0), (gaussian_funnel, gaussian_bottleneck)):
        assert value([0.75], rate) == pytest.approx(-0.5 * np.log1p(0.25 * np.expm1(-2 * rate)), abs=1e-14)
    # Two equal directions share the rate of the bottleneck; the funnel uses one.
    assert gaussian_bottleneck([0.5, 0.5], 2.0) == pytest.approx(2 * gaussian_funnel([0.5], 1.0), abs=1e-14)
    assert gaussian_funnel([0.5, 0.5], 2.0) == pytest.approx(gaussian_funnel([0.5], 2.0), abs=1e-15)
    assert gaussian_funnel([1.0, 0.2], 3.0) == pytest.approx(0, abs=1e-15)
    assert gaussian_bottleneck([1.0, 0.0], 3.0) == 3.0
    assert gaussian_bottleneck([1.0], 3.0) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: binary_funnel(0.6, 0.1, 0.5), r"^p must be a finite number > 0 and <= 0.5"),
        (lambda: binary_funnel(0.3, 1.1, 0.5), r"^delta must be"),
        (lambda: binary_funnel(0.3, 0.1, np.nan), r"^alpha must be"),
        (lambda: binary_funnel_at(0.3, 0.1, 0.7), r"^disclosure must be"),
        (lambda: binary_bottleneck(0.1, 0.7), r"^disclosure must be"),
        (lambda: gaussian_funnel([0.5, 1.1], 1.0), r"^eigenvalues\[1\] must be in \[0, 1\]"),
        (lambda: gaussian_bottleneck([], 1.0), r"^eigenvalues is empty"),
        (lambda: gaussian_bottleneck([0.5], -1.0), r"^rate must be"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with refused(message):
        call()
