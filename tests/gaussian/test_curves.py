"""Both curves: no linear release is beyond them, the releases are on them, limits, shapes of the curves."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from jaxpriv import InfeasibleError
from jaxpriv.models.gaussian import (
    bottleneck,
    bottleneck_curve,
    from_covariances,
    funnel,
    funnel_curve,
    information,
    time_sharing_curve,
)
from jaxpriv.testing import gaussian_bottleneck, gaussian_funnel
from tests.cases import assert_refused, raised

from .conftest import covariances, with_correlations

SEEDS = st.integers(0, 2**32 - 1)
RATES = np.array([0.0, 1e-6, 0.03, 0.4, 1.0, 2.5, 7.0, 20.0])


@given(SEEDS)
def test_no_linear_release_is_beyond_the_curves(seed):
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(1, 5, 3)
    pair = from_covariances(*covariances(seed, n, m))
    for _ in range(20):
        # Dense rows, rows along few directions, loud and faint ones, correlated noise.
        matrix = rng.normal(size=(k, n)) * 10.0 ** rng.uniform(-3, 3, (k, 1))
        if rng.random() < 0.5:
            matrix = (rng.random((k, n)) < 0.4) * matrix @ pair.directions
        mix = rng.normal(size=(k, k + 1))
        measured = information(pair, matrix, mix @ mix.T)
        rounding = 1e-12 * (1 + measured.disclosure)
        assert measured.leakage >= funnel_curve(pair, measured.disclosure) - rounding
        assert measured.leakage <= bottleneck_curve(pair, measured.disclosure) + rounding


@given(SEEDS)
def test_releases_are_on_the_curves(seed):
    n, m = np.random.default_rng(seed).integers(1, 5, 2)
    pair = from_covariances(*covariances(seed, n, m))
    for rate in RATES:
        for release, curve in ((funnel, funnel_curve), (bottleneck, bottleneck_curve)):
            made = release(pair, rate)
            assert made.disclosure == pytest.approx(rate, rel=1e-12, abs=1e-14)
            assert made.rates.sum() == pytest.approx(rate, rel=1e-12)
            # atol: a direction without correlation has one of the size of rounding.
            assert made.leakage == pytest.approx(float(curve(pair, rate)), rel=1e-9, abs=1e-25)
            spread = made.matrix @ pair.covariance_x @ made.matrix.T + made.noise
            assert_allclose(spread, np.eye(len(spread)), atol=1e-9)


@given(SEEDS)
def test_curves_are_the_shipped_oracles(seed):
    n, m = np.random.default_rng(seed).integers(1, 6, 2)
    pair = from_covariances(*covariances(seed, n, m))
    for rate in RATES[:-1]:
        assert funnel_curve(pair, rate) == pytest.approx(gaussian_funnel(pair.eigenvalues, rate), abs=1e-9)
        assert bottleneck_curve(pair, rate) == pytest.approx(gaussian_bottleneck(pair.eigenvalues, rate), abs=1e-9)


def test_shapes_of_the_curves(source):
    """Concave, non-decreasing, slopes in [0, 1]; first slope 1 - lambda, limits 1/2 ln(1/lambda) and I(S;X)."""
    grid = np.linspace(0, 6, 601)
    for curve, first, limit in (
        (funnel_curve, source.squared_correlations[0], -0.5 * np.log(source.eigenvalues[0])),
        (bottleneck_curve, source.squared_correlations[-1], source.private_information),
    ):
        values = curve(source, grid)
        slopes = np.diff(values) / np.diff(grid)
        assert values[0] == 0
        assert np.all(slopes >= 0)
        assert np.all(slopes <= 1)
        assert np.all(np.diff(slopes) <= 1e-12)
        assert curve(source, 1e-7) / 1e-7 == pytest.approx(first, rel=1e-6)
        assert curve(source, np.inf) == pytest.approx(limit, rel=1e-12)
        assert curve(source, 400.0) == pytest.approx(limit, rel=1e-12)
    assert np.all(funnel_curve(source, grid) <= bottleneck_curve(source, grid))
    # Data processing: neither more than the rate nor more than X itself tells.
    assert np.all(bottleneck_curve(source, grid) <= np.minimum(grid, source.private_information))


@pytest.mark.parametrize("release", [funnel, bottleneck])
def test_multipliers_are_slopes(source, release):
    curve = {funnel: funnel_curve, bottleneck: bottleneck_curve}[release]
    for rate in (0.2, 1.0, 3.0):
        slope = (curve(source, rate + 1e-5) - curve(source, rate - 1e-5)) / 2e-5
        assert release(source, rate).multiplier == pytest.approx(float(slope), abs=1e-8)


def test_extreme_correlations():
    none = with_correlations([0.0, 0.9])
    assert_array_equal(funnel_curve(none, RATES), 0)  # the first variable is free
    assert funnel(none, 3.0).leakage == 0
    full = with_correlations([1.0, 1.0])
    assert_allclose(funnel_curve(full, RATES), RATES, rtol=1e-14)
    assert_allclose(bottleneck_curve(full, RATES), RATES, rtol=1e-14)
    assert bottleneck_curve(full, np.inf) == np.inf
    assert funnel(full, 3.0).leakage == pytest.approx(3.0, rel=1e-14)
    one = with_correlations([1.0, 0.5])
    assert_allclose(bottleneck_curve(one, RATES), RATES, rtol=1e-14)
    assert bottleneck(one, 3.0).multiplier == 1
    idle = with_correlations([0.0, 0.0])
    assert_array_equal(bottleneck_curve(idle, [0.0, 2.0, np.inf]), 0)
    assert bottleneck(idle, 2.0).disclosure == pytest.approx(2.0, rel=1e-14)


def test_tiny_and_huge_rates_keep_their_digits():
    # rho^2 = 1e-18, 1 - rho^2 = 1: leakage rho^2/2 (1 - e^-2R), whatever else would round to 1.
    faint = with_correlations([1e-9])
    for rate in (1e-12, 1e-3, 1.0, 300.0):
        expected = -0.5e-18 * np.expm1(-2 * rate)
        assert funnel_curve(faint, rate) == pytest.approx(expected, rel=1e-13)
        made = funnel(faint, rate)
        assert made.leakage == pytest.approx(expected, rel=1e-10)
        assert made.disclosure == pytest.approx(rate, rel=1e-10)
    assert funnel_curve(faint, 1e308) == funnel_curve(faint, np.inf)
    # S determines X: everything disclosed is leaked, up to the largest rate.
    clear = with_correlations([1.0])
    for rate in (1e-12, 1.0, 350.0):
        assert funnel(clear, rate).leakage == pytest.approx(rate, rel=1e-10)


def test_time_sharing_drives_the_leakage_to_nothing(source):
    shares = 10.0 ** -np.arange(0.0, 9.0)
    for rate in (0.5, 5.0):
        leaks = np.array([time_sharing_curve(source, rate, share) for share in shares])
        assert leaks[0] == funnel_curve(source, rate)
        assert np.all(np.diff(leaks) < 0)
        limits = -0.5 * shares * np.log1p(-source.squared_correlations[0])
        assert np.all(leaks <= limits * (1 + 1e-15))  # equal where e^(-2 rate/share) rounds away
    # S determines X: sharing does not help.
    assert_allclose(time_sharing_curve(with_correlations([1.0]), RATES, 0.01), RATES, rtol=1e-13)


@pytest.mark.parametrize("beta", [1e-3, 0.3, 1.0, 2.0])
def test_the_funnel_lagrangian_is_refused_with_a_witness(source, beta):
    with raised(InfeasibleError, "falls without bound") as caught:
        funnel(source, multiplier=beta)
    proof = caught.value.proof
    values = []
    for rate in proof["rates"]:
        if rate > 350:  # no release of that rate in floating point; the formula holds
            measured = rate, float(funnel_curve(source, rate))
        else:
            gain = -np.expm1(-2 * rate)
            measured = information(source, np.sqrt(gain) * proof["direction"][None], [[np.exp(-2 * rate)]])
            assert measured[0] == pytest.approx(rate, rel=1e-10)
        values.append(measured[1] - beta * measured[0])
    assert_allclose(values, proof["values"], rtol=1e-9)
    assert np.all(np.array(values) <= np.array([-1, -10, -100]) * (1 - 1e-12))


def test_the_funnel_lagrangian_where_it_is_bounded(source):
    assert funnel(source, multiplier=0.0).disclosure == 0
    determined = with_correlations([1.0, 1.0])
    assert funnel(determined, multiplier=1.0).leakage == 0
    with pytest.raises(InfeasibleError) as caught:
        funnel(determined, multiplier=1.5)
    assert_allclose(caught.value.proof["values"], [-1, -10, -100])


@pytest.mark.parametrize("beta", [0.02, 0.2, 0.6, 0.95])
def test_the_stationary_point_of_theorem_2_is_the_bottleneck(source, beta):
    """It maximises I(S;Y) - beta I(X;Y): over a grid of the curve, and over the maps around it."""
    made = bottleneck(source, multiplier=beta)
    best = made.leakage - beta * made.disclosure
    grid = np.linspace(0, 8, 2001)
    assert best >= np.max(bottleneck_curve(source, grid) - beta * grid) - 1e-12
    assert made.leakage == pytest.approx(float(bottleneck_curve(source, made.disclosure)), rel=1e-10, abs=1e-15)
    rng = np.random.default_rng(0)
    for _ in range(50):
        measured = information(source, made.matrix + 1e-3 * rng.normal(size=made.matrix.shape), made.noise)
        assert measured.leakage - beta * measured.disclosure <= best + 1e-12
    # The paper's condition (8) in each direction with rate, g = e^2r - 1.
    used = made.rates > 0
    g, eigenvalues = np.expm1(2 * made.rates[used]), source.eigenvalues[used]
    assert_allclose((1 - beta) * (eigenvalues * g + 1), eigenvalues * (1 + g), rtol=1e-10)


def test_a_bottleneck_of_infinite_rate_is_refused():
    with raised(InfeasibleError, "at a rate of at most 350 nats"):
        bottleneck(with_correlations([1.0, 0.5]), multiplier=0.5)
    assert bottleneck(with_correlations([1.0, 0.5]), multiplier=1.0).disclosure == 0


def test_bad_targets_are_refused(source):
    assert_refused(r"^rates\[1\] must be a number >= 0", funnel_curve, source, [0.1, -1.0])
    assert_refused(r"^rates must be a number >= 0", bottleneck_curve, source, np.nan)
    assert_refused(r"^share must be a finite number > 0 and <= 1", time_sharing_curve, source, 1.0, 0.0)
    assert_refused(r"^share must be", time_sharing_curve, source, 1.0, np.nan)
    assert_refused(r"^exactly one of rate and multiplier", funnel, source)
    assert_refused(r"^exactly one of rate and multiplier", bottleneck, source, 1.0, multiplier=0.5)
    assert_refused(r"^rate must be a finite number >= 0 and <= 350", funnel, source, np.inf)
    assert_refused(r"^rate must be", funnel, source, -0.1)
    for function in (funnel, bottleneck, funnel_curve, bottleneck_curve):
        assert_refused(r"^source must be of type GaussianSource", function, np.eye(2), 1.0)
    assert_refused(r"^multiplier must be", funnel, source, multiplier=np.nan)
    assert_refused(r"^multiplier must be a finite number > 0", bottleneck, source, multiplier=0.0)
