"""The bound on I(S;Y) of two private symbols: its lemma, its exact moments, its certificate, coverage and width."""

import numpy as np
import pytest
from scipy.special import expit, gammaln, xlogy
from scipy.stats import binom

from jaxpriv.data.probability import mutual_information
from jaxpriv.statistics.audit import binary_information
from jaxpriv.statistics.audit.binary_information import LARGEST, MULTIPLIERS, SLACK, _certified, information
from jaxpriv.statistics.audit.likelihood_ratio import from_pairs
from jaxpriv.statistics.confidence.intervals import coins
from tests.statistics.conftest import sampled
from tests.statistics.test_sharper_bounds import POPULATIONS

BETA = 0.05


def log_moment(count, logit, lam):
    """ln E exp(-lambda c d(A/c || x)) with A binomial, x = 1/(1 + e^-logit); outcomes out of reach count as 1."""
    x = expit(logit)
    spread = 9 * np.sqrt(count * x[-1] * (1 - x[-1])) + 12
    a = np.arange(max(0, int(count * x[0] - spread)), min(count, int(count * x[-1] + spread)) + 1.0)
    fixed = gammaln(count + 1) - gammaln(a + 1) - gammaln(count - a + 1)
    fixed -= lam * (xlogy(a, a / count) + xlogy(count - a, 1 - a / count))
    powers = fixed[:, None] + (1 + lam) * (a[:, None] * logit - count * np.logaddexp(0, logit))
    return np.log(np.exp(powers).sum(axis=0) + 1e-9)  # e^-36, twice, is beyond `spread` (Bernstein's inequality)


def excess_of_the_lemma(count, lam):
    """The largest certified ln alpha less the lemma's bound over all x; symmetric in x and 1 - x.

    ln alpha is convex in the logit but for -(1 + lambda) c ln(1 + e^logit), which bends by (1 + lambda) c x(1-x).
    """
    half = 0.5 * np.log1p(lam)
    least = 0.9 * SLACK / (3 * half) / count  # below, where alpha <= 1 is enough
    points, steps = [np.log(least)], []
    while points[-1] < 0:
        x = expit(points[-1])
        mean = count * x * (1 - x)
        steps.append(min(0.25, 1.5 * np.sqrt(SLACK / ((1 + lam) * mean)) if mean > 0.5 else 0.05))
        points.append(min(points[-1] + steps[-1], 0.0))
    logit = np.array(points)
    worst = -np.inf
    for start in range(0, len(logit) - 1, 32):
        part = logit[start : start + 33]
        found, mean = log_moment(count, part, lam), count * expit(part) * expit(-part)
        bend = (1 + lam) * mean[1:] * np.diff(part) ** 2 / 8
        allowed = SLACK - half + half * np.maximum(1 - 3 * mean[1:], 0)  # mean increases, the bound decreases
        worst = max(worst, float((np.maximum(found[:-1], found[1:]) + bend - allowed).max()))
    return worst


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([3, 4, 5, 6, 7, 9, 12, 20, 47, 150], id="some"),
        pytest.param(range(3, LARGEST + 1), marks=pytest.mark.thorough, id="all"),
    ],
)
def test_the_moments_of_binomial_laws(counts):
    for count in counts:
        for lam in MULTIPLIERS:
            assert excess_of_the_lemma(count, lam) <= 0, (count, lam)


def test_the_moment_of_a_column_is_exact():
    """E exp(s(a - c p') - lambda c d(a/c || p')) = G(q)^c alpha(c, x*)."""
    q, centre, tilt, lam, count = 0.27, 0.4, 0.6, 1.4, 17
    a = np.arange(count + 1)
    mean = (binom.pmf(a, count, q) * np.exp(tilt * (a - count * centre) - lam * count * coins(a / count, centre))).sum()
    nu = 1 / (1 + lam)
    one = (q * np.exp(tilt * (1 - centre)) * centre**lam) ** nu
    zero = ((1 - q) * np.exp(-tilt * centre) * (1 - centre) ** lam) ** nu
    moment = log_moment(count, np.array([np.log(one / zero)]), lam)[0]
    assert np.log(mean) == pytest.approx(count * np.log(one + zero) / nu + moment, abs=1e-6)


@pytest.mark.parametrize(("centre", "lam", "least"), [(0.4, 1.4, 9), (0.03, 0.5, 20), (0.9, 3.2, 6)])
def test_the_constants_are_certified(centre, lam, least):
    """1 - G e^eta is above a d + b (q - p') + c_0 at every q tried, and close to it at one."""
    tilts, slopes = np.array([-0.3, 0.0, 0.2]), np.array([0.9, 1.0]) * lam / (1 + lam)
    tangents, constants = _certified(centre, lam, least, tilts, slopes, 900)
    q, nu = np.linspace(0, 1, 40001), 1 / (1 + lam)
    one = (q * np.exp(tilts * (1 - centre))[:, None] * centre**lam) ** nu
    zero = ((1 - q) * np.exp(-tilts * centre)[:, None] * (1 - centre) ** lam) ** nu
    share = one / (one + zero)
    eta = 0.5 * np.log1p(lam) * np.maximum(1 / least - 3 * share * (1 - share), 0)
    rest = 1 - (one + zero) ** (1 / nu) * np.exp(eta) - tangents[:, None] * (q - centre)
    over = (rest - slopes[:, None, None] * coins(q, centre)).min(axis=-1) - constants
    assert over.min() >= 0
    assert over.max() < 2e-3


def bounds(tables, beta):
    n = tables[0].sum()
    return np.array([information(table, n * float(mutual_information(table / n)), beta) for table in tables])


HEAVY = np.outer([0.35, 0.65], [0.7, 0.2, 0.06, 0.04]) + 0.004 * np.outer([1, -1], [1, -1, 0.5, -0.5])
OWN = np.array([[0.26, 0.1, 0.04], [0.2, 0.2, 0.2]])  # whose information is close to the bounds of its samples


@pytest.mark.parametrize(
    ("joint", "records", "samples", "beta", "most", "finite"),
    [
        (POPULATIONS["independent"], 120, 15, 0.2, 12, 4),
        (POPULATIONS["weak"], 300, 15, 0.2, 12, 4),
        (OWN, 150, 24, 0.3, 18, 1),
        (HEAVY, 2 * LARGEST, 9, 0.1, 7, 1),
    ],
    ids=["independent", "weak", "at its own bound", "more pairs than the lemma was computed for"],
)
def test_coverage(joint, records, samples, beta, most, finite):
    """At failure probabilities where a bound that is too small shows; more misses have a chance below 1e-6."""
    truth = float(mutual_information(joint))
    tables = sampled(joint, records, samples, 3)
    values = bounds(tables, beta)
    assert (values < truth - 1e-12).sum() <= most
    assert np.isfinite(values).sum() >= finite
    assert (tables.sum(axis=1).max() > LARGEST) == (records > LARGEST)


def test_close_to_what_normal_deviations_allow():
    """2 x 4, 300 and 3000 pairs, T at its median: n I is at most 6.9, of normal deviations 5.6, Chernoff alone 8."""
    for records, most in ((300, 6.9), (3000, 6.5)):
        counts = np.outer([0.4, 0.6], np.full(4, records / 4)).astype(int)
        assert 5.0 < records * information(counts, 1.183, BETA) < most


def test_more_pairs_than_the_lemma_was_computed_for():
    """As close with twice as many; a symbol with too many pairs has no factor, and the bound is a little larger."""
    even = [np.outer([0.4, 0.6], np.full(4, records / 4)).astype(int) for records in (LARGEST, 2 * LARGEST)]
    few, many = (counts.sum() * information(counts, 1.183, BETA) for counts in even)
    assert abs(few - many) < 0.5
    heavy = np.outer([0.4, 0.6], [2 * LARGEST - 3000, 1000, 1000, 1000]).astype(int)
    assert heavy.sum(axis=0).max() > LARGEST
    assert many + 0.1 < heavy.sum() * information(heavy, 1.183, BETA) < many + 2


def test_many_pairs_and_extreme_margins_fall_back():
    assert binary_information.reach(2 * LARGEST, 4, BETA) > 0
    assert binary_information.reach(2 * LARGEST + 1, 4, BETA) == 0
    rare = np.array([[1, 0], [150, 149]])
    assert 0 < from_pairs(rare, BETA) <= np.log(2)
    assert from_pairs(np.array([[0, 0], [150, 150]]), BETA) == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    "counts", [[[2, 0], [1, 1]], [[1, 0], [0, 0]], [[7], [3]], [[10**6, 0], [0, 1]], [[10**12, 1], [1, 10**12]]]
)
def test_few_pairs_huge_counts_and_one_symbol_are_bounded_without_a_warning(counts):
    """An overflow in a moment of few pairs is no warning, and rejects nothing."""
    table = np.array(counts)
    for beta in (0.05, 1e-4):
        assert 0.0 <= from_pairs(table, beta) <= np.log(min(table.shape)) + 1e-12
