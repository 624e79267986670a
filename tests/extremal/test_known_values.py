"""Values from the literature and closed forms."""

import math

import numpy as np
import pytest

from jaxpriv import leakage, maximum_utility
from jaxpriv.testing import heart_disease
from tests.information import divergence

LDP = leakage.LocalDifferentialPrivacy()
SKEWED = (0.5, 0.25, 0.15, 0.1)
LEVELS = (0.1, 1.0, 2.0, 4.0, 8.0)

# I(X;Y) in bits of the linear program over all 2^k staircase columns (Kairouz, Oh and Viswanath 2016).
STAIRCASE = [
    ((0.25,) * 4, (0.001801117, 0.170227724, 0.675196565, 1.622258473, 1.986945211)),
    (SKEWED, (0.001801117, 0.168124201, 0.584836765, 1.399820961, 1.730382042)),
    ((1 / 6,) * 6, (0.001801117, 0.177861878, 0.674866721, 1.974406140, 2.563218282)),
]


@pytest.mark.parametrize(("source", "bits"), STAIRCASE)
def test_staircase_values(source, bits):
    for eps, wanted in zip(LEVELS, bits, strict=True):
        result = maximum_utility(source, (LDP, eps))
        assert result.status == "optimal"
        assert result.value / math.log(2) == pytest.approx(wanted, abs=1e-9)
        assert result.gap < 1e-12
        assert result.leakage[0] <= eps
        assert result.mechanism.shape[1] <= len(source)


def test_binary_response_at_high_privacy_and_randomised_response_at_low():
    source, ratio = np.full(4, 0.25), math.exp(0.1)
    half = math.log(2) - (math.log(1 + ratio) - ratio * 0.1 / (1 + ratio))
    assert maximum_utility(source, (LDP, 0.1)).value == pytest.approx(half, abs=1e-15)
    ratio = math.exp(8.0)
    response = np.full((4, 4), 1.0 / (ratio + 3))
    np.fill_diagonal(response, ratio / (ratio + 3))
    posteriors = response * source[:, None] / 0.25
    wanted = divergence(posteriors.T / source, source).mean()
    assert maximum_utility(source, (LDP, 8.0)).value == pytest.approx(wanted, abs=1e-13)


@pytest.mark.parametrize("symbols", [3, 10, 200])
@pytest.mark.parametrize("eps", [0.3, 1.0, 5.0])
def test_ldp_uniform_subset_selection(symbols, eps):
    """Uniform p: all columns raise the same number d of symbols, d the best."""
    d, ratio = np.arange(1, symbols), math.exp(eps)
    z = 1 + (ratio - 1) * d / symbols
    wanted = np.max(ratio * eps * d / symbols / z - np.log(z))
    result = maximum_utility(np.full(symbols, 1 / symbols), (LDP, eps))
    assert result.value == pytest.approx(wanted, abs=1e-11)
    assert result.status == "optimal"


@pytest.mark.parametrize("source", [(0.3, 0.7), SKEWED, (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_max_lift_high_privacy(source, share):
    """eps <= -ln(1 - min p): the polytope is a simplex, and output j leaves symbol j below, with P(j) = p_j."""
    p = np.array(source)
    eps = -share * math.log(1 - p.min())
    lifts = np.full((len(p), len(p)), math.exp(eps))
    np.fill_diagonal(lifts, (1 - math.exp(eps) * (1 - p)) / p)
    result = maximum_utility(p, (leakage.MaxLift(), eps))
    assert result.value == pytest.approx(p @ divergence(np.maximum(lifts, 0), p), abs=1e-12)
    assert result.gap < 1e-11


@pytest.mark.parametrize("eps", [0.01, 0.2, 0.9, 1.1])
def test_lift_bounds_of_a_bit(eps):
    """Two symbols: the posterior is an interval, its ends are the outputs."""
    p = np.array([0.3, 0.7])
    for measure, low, high in [
        (leakage.MaxLift(), 0.0, math.exp(eps)),
        (leakage.Lift(), math.exp(-eps), math.exp(eps)),
        (leakage.MinLift(), math.exp(-eps), math.inf),
    ]:
        bottom = max(0.0, low * p[0], 1 - high * p[1])
        top = min(1.0, high * p[0], 1 - low * p[1])
        ends = np.array([[bottom, 1 - bottom], [top, 1 - top]])
        weight = (top - p[0]) / (top - bottom)
        wanted = np.array([weight, 1 - weight]) @ divergence(ends / p, p)
        assert maximum_utility(p, (measure, eps)).value == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("symbols", [5, 200])
def test_max_lift_uniform(symbols):
    """Uniform p: as many symbols at the bound as fit, one takes the rest."""
    eps = 1.0
    whole = math.floor(symbols * math.exp(-eps))
    rest = 1 - whole * math.exp(eps) / symbols
    wanted = whole * math.exp(eps) / symbols * eps + rest * math.log(symbols * rest)
    result = maximum_utility(np.full(symbols, 1 / symbols), (leakage.MaxLift(), eps))
    assert result.value == pytest.approx(wanted, abs=1e-12)
    assert result.status == "optimal"


def test_perfect_privacy_of_the_heart_data():
    """eps = 0 on S: max I(X;Y) with Y independent of S, 15 vertices, 0.701802363 bits."""
    for measure in (LDP, leakage.Lift(), leakage.MaxLift()):
        result = maximum_utility(heart_disease(), (measure, 0.0))
        assert result.value / math.log(2) == pytest.approx(0.701802363, abs=1e-9)
        assert result.method == "all 15 vertices"
        assert result.leakage[0] < 1e-14
