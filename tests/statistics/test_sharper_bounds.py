"""Bounds of single quantities: certified infima, closed forms, coverage, and width beside those of one event."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from jaxpriv import leakage
from jaxpriv.statistics.audit import audit_pairs, binomial, leakage_bounds
from jaxpriv.statistics.audit.ball_information import ball_information
from jaxpriv.statistics.audit.likelihood_ratio import (
    CHI_SQUARED,
    KL,
    _binary,
    _boxes,
    _chernoff,
    _k,
    _tilted,
    _tilted_bends,
    least_ratio,
)
from jaxpriv.statistics.audit.populations import _contracted_ratio, held_out_information
from jaxpriv.statistics.audit.tails import intercept, quantile
from jaxpriv.statistics.confidence import clopper_pearson, divergence_radius, population
from jaxpriv.statistics.confidence.intervals import relative_entropy_limit
from tests.information import information
from tests.statistics.conftest import sampled

BETA = 0.05
QUICK = {"permutations": 1, "bootstrap": 0}


def populations():
    generator = np.random.default_rng(7)
    found = {"independent": np.outer([0.4, 0.6], [0.4, 0.3, 0.2, 0.1])}
    base = generator.dirichlet(np.full(10, 3.0))
    tilt = 0.02 * generator.standard_normal(10)
    rows = np.stack([base * np.exp(tilt), base * np.exp(-tilt)])
    found["weak"] = np.array([0.35, 0.65])[:, None] * rows / rows.sum(axis=1, keepdims=True)
    found["strong"] = np.array([0.3, 0.3, 0.4])[:, None] * (0.88 * np.eye(3) + 0.04)
    rows = generator.dirichlet(np.full(6, 0.6), size=4)
    found["rare"] = np.array([0.01, 0.19, 0.3, 0.5])[:, None] * rows
    return {name: joint / joint.sum() for name, joint in found.items()}


POPULATIONS = populations()


def of_pairs(table):
    """The bound on I(S;Y) of an audit of pairs."""
    (row,) = audit_pairs(table, confidence=1 - BETA, measures=["mutual-information"], **QUICK).rows
    return row.upper


def drawn(name, records, repeats, seed=0):
    return sampled(POPULATIONS[name], records, repeats, seed)


@pytest.mark.parametrize("divergence", [KL, CHI_SQUARED])
@pytest.mark.parametrize(("lam", "eta"), [(0.05, 1.0), (0.4, 1 / 1.4), (0.75, 1.5 / 1.75), (4.0, 0.2), (20.0, 1 / 21)])
@pytest.mark.parametrize("top", [1.0005, 1.7, 9.0, 400.0])
def test_the_infimum_is_certified(divergence, lam, eta, top):
    """Below k/f at every point tried, and close to the least of them."""
    certified = least_ratio(lam, eta, top, divergence)
    r = np.concatenate([np.linspace(0, 1, 20001)[:-20], 1 + (top - 1) * np.linspace(0, 1, 20001)[20:] ** 2])
    r = r[np.abs(r - 1) > 1e-4]
    values = _k(r, lam, eta) / divergence.value(r)
    assert certified <= values.min() * (1 + 1e-6)
    assert certified >= 0.98 * max(values.min(), 0)


def test_the_infimum_of_a_contracted_mechanism_is_certified():
    lam, kept, least, top = 7.0, 0.8, 0.5, 1.8
    eta, power = 1 / (1 + lam * (1 - least) * (1 - kept)), lam * (1 - kept)
    certified = _contracted_ratio(lam, eta, power, 1 - kept, least, top)
    r = np.linspace(least, top, 4001)
    r = r[np.abs(r - 1) > 1e-4]
    worst = np.inf
    for w in np.linspace(0, 1, 21):
        w = least + w * (np.minimum(r, 1) - least)
        u = r - 1
        tail = (1 + u - w) * ((1 + eta * u) ** -power - 1) / (1 - kept) - lam * w * np.log1p(eta * u)
        worst = min(worst, ((-tail - lam * eta * u) / KL.value(r)).min())
    assert 0.98 * worst <= certified <= worst * (1 + 1e-6)


def test_coverage_and_width():
    """Misses at 0.05 each, more than are allowed with a chance below 1e-6; and medians at 3000 pairs.

    Coverage with two private symbols: `test_two_private_symbols`.
    """
    medians = {"independent": 0.0028, "weak": 0.0054, "strong": 0.815, "rare": 0.375}
    for name, joint in POPULATIONS.items():
        truth = information(joint)
        given = joint / joint.sum(axis=1, keepdims=True)
        tables = drawn(name, 3000, 5)
        values = [of_pairs(one) for one in (tables if len(joint) > 2 else tables[:1])]
        assert len(joint) == 2 or (np.array(values) < truth).sum() <= binom.isf(1e-6, 5, BETA)
        assert np.median(values) <= 1.2 * medians[name]
        small = {
            "guess": (joint.max(axis=0).sum(), [binomial.correct_guess(one, BETA) for one in tables]),
            "maximal": (np.log(given.max(axis=0).sum()), [binomial.maximal_leakage(one, BETA) for one in tables]),
            "lift": (np.log((given / joint.sum(axis=0)).max()), [binomial.max_lift(one, BETA) for one in tables]),
            "likeliest": (-joint.sum(axis=1).max(), [-binomial.likeliest(one, BETA) for one in tables]),
        }
        for truth, found in small.values():
            assert (np.array(found) < truth - 1e-12).sum() <= binom.isf(1e-6, 5, BETA)


@pytest.mark.parametrize(("draws", "hit"), [(50, 0.1), (500, 0.02), (400, 0.6)])
def test_the_tail_of_second_moments_is_above_the_exact_one(draws, hit):
    """Sums of independent numbers 1 or -hit/(1 - hit), the extreme law: P at the quantile is below 0.05, by little."""
    variance = draws * hit / (1 - hit)
    x = quantile(np.array([variance]), BETA)[0]
    hits = np.arange(draws + 1)
    exact = binom.pmf(hits, draws, hit)[hits - (draws - hits) * hit / (1 - hit) >= x].sum()
    assert 0.005 < exact <= BETA
    assert 2.1 < x / np.sqrt(variance) < 2.6  # Chernoff's bound has 2.448 for a normal sum
    for slope in (0.01, 0.3, 3.0):
        assert intercept(slope, BETA) >= x - slope * variance
    means = np.geomspace(1e-3, 1e5, 200)
    assert (np.diff(quantile(means, BETA)) > 0).all()


@pytest.mark.parametrize(("eta", "g"), [(0.3, 0.4), (0.9, 0.1), (0.6, 2.0)])
def test_second_derivatives_of_the_tilted_function_are_bounded(eta, g):
    step, r = 1e-3, np.linspace(0.02, 4, 300)
    second = (_tilted(r + step, eta, g) - 2 * _tilted(r, eta, g) + _tilted(r - step, eta, g)) / step**2
    assert (_tilted_bends(r - 0.01, r + 0.01, eta, g) >= second).all()


@pytest.mark.parametrize("divergence", [KL, CHI_SQUARED])
def test_two_private_symbols_are_bounded_by_one_deviation(divergence):
    """The worst of 2,000 random populations within the intervals is below the bound from the same trials."""
    generator = np.random.default_rng(1)
    table = drawn("independent", 400, 1)[0]
    frequencies = table.sum(axis=1) / table.sum()
    low, high = clopper_pearson(table, table.sum(axis=1)[:, None], 1e-3)
    boxes = _boxes(low, high, frequencies, frequencies)
    trial = next(_chernoff(1.0, 400, 3.0))
    bound = _binary([trial], boxes, (frequencies[0] - 0.05, frequencies[0] + 0.05), divergence)
    worst = 0.0
    for _ in range(2000):
        rows = generator.dirichlet(table[0] + 1.0), generator.dirichlet(table[1] + 1.0)
        rows = np.clip(np.stack(rows), low, high)
        rows /= rows.sum(axis=1, keepdims=True)
        if ((rows < low) | (rows > high)).any():
            continue
        mean = frequencies @ rows
        r = rows / mean
        if frequencies @ (mean * trial.value(r)).sum(axis=1) > trial.excess:
            continue
        prior = frequencies[0] + generator.uniform(-0.05, 0.05)
        worst = max(worst, float(np.array([prior, 1 - prior]) @ (mean * divergence.value(r)).sum(axis=1)))
    assert 0 < worst <= bound


def test_pairs_are_bounded_more_closely_than_by_one_event_for_all():
    measures = [leakage.MutualInformation(), leakage.MaximalLeakage(), leakage.MaxLift()]
    for name in ("independent", "weak", "strong"):
        (table,) = drawn(name, 3000, 1, seed=3)
        identity = np.eye(table.shape[1])
        before = [one.upper[0, 0] for one in leakage_bounds(population(table, BETA), identity, measures)]
        names = ["mutual-information", "maximal-leakage", "max-lift"]
        after = [one.upper for one in audit_pairs(table, confidence=1 - BETA, measures=names, **QUICK).rows]
        assert all(new <= 1.02 * old for old, new in zip(before, after, strict=True))
        assert after[0] < 0.97 * before[0]


def test_a_mechanism_that_was_fixed_before_the_records():
    """0.7 of the release does not depend on x: the contracted bound, 20 samples, none below the truth."""
    generator = np.random.default_rng(2)
    rows = generator.dirichlet(np.full(40, 0.8), size=2)
    joint = 0.5 * rows
    mechanism = 0.3 * np.eye(40) + 0.7 / 40
    truth = information(joint @ mechanism)
    tables = generator.multinomial(2000, joint.ravel(), size=20).reshape(-1, 2, 40)
    values = [held_out_information(one, mechanism, BETA) for one in tables]
    assert (np.array(values) < truth).sum() <= binom.isf(1e-8, 20, BETA)
    known = population(tables[0], BETA, held_out=True)
    (old,) = leakage_bounds(known, mechanism, [leakage.MutualInformation()])
    assert values[0] < 0.5 * old.upper[0, 0]


def test_the_ball_of_a_binary_symmetric_joint():
    """Uniform margins and a symmetric table: the worst joint of the ball is symmetric too, one equation."""
    flip, radius = 0.3, 0.02
    fitted = 0.5 * np.array([[1 - flip, flip], [flip, 1 - flip]])
    distance = lambda a: flip * np.log(flip / a) + (1 - flip) * np.log((1 - flip) / (1 - a))  # noqa: E731
    least = brentq(lambda a: distance(a) - radius, 1e-6, flip)
    worst = np.log(2) + least * np.log(least) + (1 - least) * np.log(1 - least)
    found = ball_information(fitted, radius)
    assert worst <= found <= 1.01 * worst
    assert ball_information(fitted, np.inf) == np.log(2)
    generator = np.random.default_rng(0)
    for _ in range(200):  # no joint of the ball has more
        other = generator.dirichlet(300 * fitted.ravel()).reshape(2, 2)
        if np.sum(fitted * np.log(fitted / other)) <= radius:
            assert information(other) <= found


def test_limits_of_relative_entropy():
    share, radius = np.array([0.0, 0.2, 0.999, 1.0]), 0.01
    q = relative_entropy_limit(share, radius)
    assert q[0] == pytest.approx(1 - np.exp(-radius))
    assert q[1] == pytest.approx(
        brentq(lambda a: 0.2 * np.log(0.2 / a) + 0.8 * np.log(0.8 / (1 - a)) - radius, 0.2, 0.9)
    )
    assert q[3] == 1


def test_nothing_is_known_without_records_of_every_kind():
    table = np.array([[5, 5, 0], [0, 0, 0]])
    assert of_pairs(table) == pytest.approx(np.log(2))
    assert held_out_information(table, np.eye(3), BETA) == np.log(2)
    assert binomial.maximal_leakage(np.zeros((2, 3), int), BETA) == np.log(2)
    assert binomial.maximal_leakage(np.array([[9, 0, 0], [0, 0, 9]]), BETA) == np.log(2)
    assert divergence_radius(4, 0, BETA) == np.inf
