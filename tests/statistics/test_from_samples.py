"""Pointwise measures of the population behind counts: the worst population, designs, coverage, and what is refused."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import HalfspaceIntersection

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.leakage import from_samples
from tests.cases import distances, refused, value_of

COUNTS = np.array([500, 250, 150, 100])
TABLE = np.array([[300, 100, 60, 40], [50, 150, 200, 100]])
COST = distances(4)
ROWS = np.random.default_rng(0).dirichlet(np.ones(5), 4)


def frequencies(counts):
    return counts.reshape(-1, counts.shape[-1]).sum(axis=0) / counts.sum()


def farthest(centre, radius, weights):
    """max weights . p over distributions within 2 `radius` of the centre in L1, by a linear program."""
    size = len(centre)
    apart = np.block([[np.eye(size), -np.eye(size)], [-np.eye(size), -np.eye(size)]])
    above = np.vstack([apart, np.append(np.zeros(size), np.ones(size))])
    right = np.concatenate([centre, -centre, [2 * radius]])
    whole = np.append(np.ones(size), np.zeros(size))[None]
    return -linprog(np.append(-weights, np.zeros(size)), above, right, whole, [1.0]).fun


@pytest.mark.parametrize("base", [lk.MaxLift(), lk.MinLift(), lk.Lift(), lk.LocalDifferentialPrivacy()])
@pytest.mark.parametrize("counts", [COUNTS, TABLE], ids=["X", "S, X"])
def test_its_value_is_that_of_the_worst_population_and_a_limit_holds(base, counts):
    measure, source = from_samples(base, counts), frequencies(counts)
    rows = np.eye(4) if counts.ndim == 1 else counts / counts.sum(axis=1, keepdims=True)
    radii = np.zeros(4) if counts.ndim == 1 else measure.given_radius
    worst = -np.inf
    for w in ROWS.T:
        high, low = farthest(source, measure.source_radius, w), -farthest(source, measure.source_radius, -w)
        above = [farthest(row, radius, w) for row, radius in zip(rows, radii, strict=False)]
        below = [-farthest(row, radius, -w) for row, radius in zip(rows, radii, strict=False)]
        spread = max(a / b for (i, a), (j, b) in itertools.product(enumerate(above), enumerate(below)) if i != j)
        ends = {"raised": max(above) / low, "lowered": high / min(below), "spread": spread}
        worst = max(worst, *(np.log(ends[end]) for end in measure.ends))
    found = value_of(measure, source, ROWS)
    assert found == pytest.approx(worst, rel=1e-9)
    problem = jp.DistortionProblem(source, COST, leakage=measure, leakage_budget=0.9)
    solution = jp.solve(problem)
    assert solution.gap <= 1e-6
    assert value_of(measure, source, solution.mechanism) <= 0.9 + 1e-7
    design = jp.maximum_utility(counts, (base, 0.9), confidence=0.95)
    assert design.gap <= 1e-6
    assert value_of(measure, source, design.mechanism) <= 0.9 + 1e-12


@pytest.mark.parametrize(
    ("prior", "values"),
    [
        (np.full(4, 0.25), {0.1: 0.01801806, 0.3: 0.28783633, 1.0: 0.75910155}),
        (np.array([0.5, 0.25, 0.15, 0.1]), {0.3: 0.17925306, 0.5: 0.32996578, 1.5: 1.04155186}),
    ],
)
def test_of_many_samples_the_optimum_is_that_of_the_known_prior(prior, values):
    counts = (prior * 1e15).astype(int)
    for eps, value in values.items():
        found = jp.maximum_utility(prior, (from_samples(lk.MaxLift(), counts), eps))
        assert found.value == pytest.approx(value, abs=3e-6)
        fewer = jp.maximum_utility(prior, (from_samples(lk.MaxLift(), (prior * 1000).astype(int)), eps))
        assert fewer.upper_bound < value


@pytest.mark.parametrize("base", [lk.MaxLift(), lk.MinLift(), lk.Lift()])
def test_no_posterior_is_missing(base):
    """All vertices by another code, from one inequality for each pair of symbols in the places of M and m."""
    source = np.array([0.5, 0.3, 0.2])
    measure = from_samples(base, (source * 2000).astype(int))
    told = measure.inequalities(0.4)
    pairs = itertools.permutations(range(3), 2)
    rows = np.vstack([told[:, :3] + told[:, 3:4] * np.eye(3)[i] - told[:, 4:] * np.eye(3)[j] for i, j in pairs])
    rows = np.vstack([rows, -np.eye(3)])
    # In the first two lifts: the last one is (1 - source . lifts)/source.
    left = rows[:, :2] - rows[:, 2:] * source[:2] / source[2]
    hull = HalfspaceIntersection(np.column_stack([left, rows[:, 2] / source[2]]), np.ones(2))
    lifts = np.column_stack([hull.intersections, (1 - hull.intersections @ source[:2]) / source[2]])
    gains = (source * lifts * np.log(np.maximum(lifts, 1e-300))).sum(axis=1)
    best = -linprog(-gains, A_eq=lifts.T, b_eq=np.ones(3)).fun
    assert jp.maximum_utility(source, (measure, 0.4)).value == pytest.approx(best, abs=1e-9)


def test_coverage():
    """Of 100 samples at a confidence of .8 more than 80 % give a design that keeps the limit in the population."""
    prior, eps = np.array([0.4, 0.3, 0.2, 0.1]), 0.5
    kept = []
    for counts in np.random.default_rng(5).multinomial(400, prior, 100):
        found = jp.maximum_utility(frequencies(counts), (from_samples(lk.MaxLift(), counts, 0.8), eps))
        kept.append(value_of(lk.MaxLift(), np.diag(prior), found.mechanism) <= eps + 1e-9)
    assert np.mean(kept) >= 0.8
    plain = jp.maximum_utility(frequencies(counts), (lk.MaxLift(), eps))
    assert value_of(lk.MaxLift(), np.diag(prior), plain.mechanism) > eps


@pytest.mark.parametrize("base", [lk.MaxLift(), lk.MinLift(), lk.Lift(), lk.LocalDifferentialPrivacy()])
def test_a_mechanism_is_bounded_at_a_symbol_that_was_not_seen(base):
    """Of five draws of a fair bit one in sixteen shows one symbol alone, and the bit may still be read off."""
    counts = np.array([5, 0])
    measure = from_samples(base, counts)
    fair = np.full((1, 2), 0.5) * np.eye(2)
    for rows in ([[0.5, 0.5], [0.9, 0.1]], [[0.9, 0.1], [0.2, 0.8]], np.eye(2)):
        assert value_of(measure, frequencies(counts), rows) >= value_of(base, fair, rows)
    assert value_of(measure, [[0.5, 0.5], [0.0, 0.0]], np.eye(2)) == np.inf  # its P(x|s) is not known
    with refused("a single symbol"):
        jp.solve(jp.DistortionProblem(frequencies(counts), 1 - np.eye(2), leakage=measure, leakage_budget=1.0))
    best = jp.maximum_utility(counts, (base, 1.0), confidence=0.95)
    assert best.value == 0
    assert best.mechanism[0] == pytest.approx(best.mechanism[1])
    several = np.array([400, 300, 0])
    measure = from_samples(base, several)
    joint = frequencies(several)[:, None] * [[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]]
    with refused("is not known"):
        jp.solve(jp.DistortionProblem(joint, 1 - np.eye(2), leakage=measure, leakage_budget=0.5))
    free = jp.solve(jp.DistortionProblem(frequencies(several), 1 - np.eye(3), leakage=measure, leakage_budget=8.0))
    assert value_of(measure, frequencies(several), free.mechanism) <= 8.0 + 1e-7


def test_symbols_that_were_not_seen_and_what_is_refused():
    counts = np.array([60, 0, 40, 0])
    measure = from_samples(lk.MaxLift(), counts)
    found = jp.solve(jp.DistortionProblem(frequencies(counts), COST, leakage=measure, leakage_budget=0.5)).mechanism
    for prior in np.random.default_rng(0).dirichlet(np.ones(4), 20):
        moved = (1 - measure.source_radius) * frequencies(counts) + measure.source_radius * prior
        assert value_of(lk.MaxLift(), np.diag(moved), found) <= 0.5 + 1e-7
    with refused("frequencies of the samples"):
        jp.maximum_utility(np.full(4, 0.25), (from_samples(lk.MaxLift(), COUNTS), 0.5))
    limits = [(from_samples(lk.MaxLift(), COUNTS), 0.5), (lk.MinLift(), 0.5)]
    with refused("do not combine"):
        jp.maximum_utility(frequencies(COUNTS), limits)
    with refused("MinLift"):
        from_samples(lk.InferentialPrivacy, COUNTS)
    with refused("confidence"):
        from_samples(lk.MaxLift(), COUNTS, 1.0)
    with refused("not all be 0"):
        from_samples(lk.MaxLift(), np.zeros(3, int))
