"""Support functions against linear and convex programs; radii against exact probabilities."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import rel_entr
from scipy.stats import binom, multinomial

from jaxpriv.statistics.confidence import (
    Box,
    DivergenceBall,
    L1Ball,
    bernstein_interval,
    chernoff_interval,
    clopper_pearson,
    distribution_set,
    divergence_radius,
    divergence_tail,
    empirical_radius,
    l1_radius,
    mcdiarmid_radius,
    mean_interval,
    weissman_radius,
)
from jaxpriv.statistics.confidence.sets import chord_sum

GENERATOR = np.random.default_rng(5)
CELLS, FUNCTIONALS = 5, 4
CENTRE = np.array([[0.4, 0.3, 0.2, 0.1, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]])
WEIGHTS = GENERATOR.normal(size=(FUNCTIONALS, CELLS))
ALL = np.ones(CENTRE.shape, bool)
SOME = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1]], bool)


@pytest.mark.parametrize("possible", [ALL, SOME], ids=["all", "some impossible"])
@pytest.mark.parametrize("radius", [0.0, 0.1, 0.7, 2.0])
def test_l1_ball_is_the_linear_program(radius, possible):
    ball = L1Ball(CENTRE, np.full(3, radius), possible)
    upper, lower = ball.upper(WEIGHTS), ball.lower(WEIGHTS)
    k = CELLS
    for b, centre in enumerate(CENTRE):
        # P - t <= centre, -P - t <= -centre, sum t <= radius.
        limits = np.block([[np.eye(k), -np.eye(k)], [-np.eye(k), -np.eye(k)], [np.zeros((1, k)), np.ones((1, k))]])
        ends = np.concatenate([centre, -centre, [radius + 1e-12]])
        sides = [(0, 1.0 if allowed else 0.0) for allowed in possible[b]] + [(0, None)] * k
        for m, weights in enumerate(WEIGHTS):
            for sign, value in ((-1, upper[b, m]), (1, lower[b, m])):
                best = linprog(
                    np.r_[sign * weights, np.zeros(k)], limits, ends, np.r_[np.ones(k), np.zeros(k)][None], [1.0], sides
                )
                assert sign * best.fun == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("radius", [1e-6, 0.05, 0.8])
def test_divergence_ball_is_the_convex_program(radius):
    ball = DivergenceBall(CENTRE, np.full(3, radius), ALL)
    upper = ball.upper(WEIGHTS)
    for b, centre in enumerate(CENTRE):
        for m, weights in enumerate(WEIGHTS):
            best = -np.inf
            for mix in (0.05, 0.3):
                found = minimize(
                    lambda p, w=weights: -w @ p,
                    (1 - mix) * centre + mix / CELLS,
                    jac=lambda p, w=weights: -w,
                    bounds=[(1e-12, 1)] * CELLS,
                    constraints=[
                        {"type": "eq", "fun": lambda p: p.sum() - 1},
                        {"type": "ineq", "fun": lambda p, c=centre: radius - rel_entr(c, p).sum()},
                    ],
                    method="SLSQP",
                    options={"maxiter": 400, "ftol": 1e-13},
                )
                p = np.clip(found.x, 0, None)
                p /= p.sum()
                if rel_entr(centre, p).sum() <= radius * (1 + 1e-6):
                    best = max(best, weights @ p)
            assert best <= upper[b, m] + 1e-5 * (1 + radius)
            if radius > 1e-3:  # the reference itself is a local search
                assert upper[b, m] == pytest.approx(best, abs=2e-4)


def test_box_is_the_linear_program():
    least, most = 0.5 * CENTRE, np.minimum(1.0, CENTRE + 0.2)
    upper = Box(least, most, ALL).upper(WEIGHTS)
    for b, m in itertools.product(range(3), range(FUNCTIONALS)):
        sides = list(zip(least[b], most[b], strict=True))
        best = linprog(-WEIGHTS[m], A_eq=np.ones((1, CELLS)), b_eq=[1.0], bounds=sides)
        assert -best.fun == pytest.approx(upper[b, m], abs=1e-9)


def test_functionals_of_their_own():
    own = GENERATOR.normal(size=(3, FUNCTIONALS, CELLS))
    for one in (
        L1Ball(CENTRE, np.array([0.1, 0.2, 0.3]), SOME),
        DivergenceBall(CENTRE, np.array([0.1, 0.2, 0.3]), SOME),
        Box(0.5 * CENTRE, np.minimum(1.0, CENTRE + 0.2) * SOME, SOME),
    ):
        together = one.upper(own)
        for b in range(3):
            assert together[b] == pytest.approx(one.upper(own[b])[b], abs=1e-9)


def test_without_draws_every_possible_distribution_is_in_the_set():
    nothing = distribution_set(np.zeros((3, CELLS), int), SOME, 0.05)
    masked = np.where(SOME[:, None], WEIGHTS, -np.inf)
    assert nothing.upper(WEIGHTS) == pytest.approx(masked.max(axis=2), abs=1e-9)
    assert nothing.lower(WEIGHTS) == pytest.approx(-np.where(SOME[:, None], -WEIGHTS, -np.inf).max(axis=2), abs=1e-9)


def test_chords_bound_a_convex_sum():
    least, most = np.array([0.1, 0.2, 0.0]), np.array([0.5, 0.4, 0.6])
    bound = chord_sum(least, most, np.square)
    points = GENERATOR.dirichlet(np.ones(3), 50000)
    inside = points[((points >= least) & (points <= most)).all(axis=1)]
    assert len(inside) > 100
    assert (inside**2).sum(axis=1).max() <= bound
    # A vertex of the box and the simplex has one entry inside its limits at most, where chord and function differ.
    assert bound <= (inside**2).sum(axis=1).max() + 0.25 * 0.6**2 + 0.05


DRAWS = 12


def exact_tails(cells):
    """Every table of 12 draws on `cells` symbols, and its probability under a few laws."""
    tables = np.array([t for t in itertools.product(range(DRAWS + 1), repeat=cells) if sum(t) == DRAWS])
    laws = [np.full(cells, 1 / cells), np.arange(1, cells + 1) / np.arange(1, cells + 1).sum()]
    laws += [np.r_[1 - 0.01 * (cells - 1), np.full(cells - 1, 0.01)]]
    return tables, [(law, multinomial.pmf(tables, DRAWS, law)) for law in laws]


@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-4])
@pytest.mark.parametrize("cells", [2, 3, 4])
def test_radii_hold_exactly(cells, beta):
    """The probability of leaving the radius, summed over all tables: no simulation."""
    tables, laws = exact_tails(cells)
    empirical = empirical_radius(tables, beta)
    for law, mass in laws:
        distance = np.abs(tables / DRAWS - law).sum(axis=1)
        divergence = rel_entr(tables / DRAWS, law).sum(axis=1)
        for radius in (weissman_radius(cells, DRAWS, beta), mcdiarmid_radius(cells, DRAWS, beta), empirical):
            assert mass[distance > radius].sum() <= beta
        assert mass[divergence > divergence_radius(cells, DRAWS, beta)].sum() <= beta
        for z in (1.0 * cells, 1.5 * cells, 3.0 * cells):
            assert mass[DRAWS * divergence >= z].sum() <= divergence_tail(cells - 1, z)


def test_radii_are_monotone_and_meet_their_limits():
    for radius in (weissman_radius, mcdiarmid_radius, l1_radius, divergence_radius):
        values = [radius(6, n, 0.05) for n in (0, 1, 10, 100, 10**4, 10**12)]
        assert values == sorted(values, reverse=True)
        levels = [radius(6, 50, beta) for beta in (0.5, 0.05, 1e-3, 1e-12)]
        assert levels == sorted(levels)
        sizes = [radius(k, 1000, 0.05) for k in (1, 2, 3, 10, 64, 65, 500, 1100, 10**6)]
        assert sizes == sorted(sizes)
        assert sizes[0] == 0
    assert weissman_radius(6, 0, 0.05) == mcdiarmid_radius(6, 0, 0.05) == 2
    assert divergence_radius(6, 0, 0.05) == np.inf
    assert weissman_radius(200, 3000, 0.01) == pytest.approx(0.309, abs=1e-3)
    assert mcdiarmid_radius(200, 3000, 0.01) == pytest.approx(0.313, abs=1e-3)
    assert weissman_radius(3, 100, 0.05) == pytest.approx(np.sqrt(0.02 * np.log(6 / 0.05)))


@pytest.mark.parametrize("beta", [0.05, 1e-3])
def test_clopper_pearson_is_exact(beta):
    n = 23
    hits = np.arange(n + 1)
    lower, upper = clopper_pearson(hits, np.full(n + 1, n), beta)
    assert lower[0] == 0
    assert upper[-1] == 1
    assert binom.sf(hits[1:] - 1, n, lower[1:]) == pytest.approx(np.full(n, beta), rel=1e-8)
    assert binom.cdf(hits[:-1], n, upper[:-1]) == pytest.approx(np.full(n, beta), rel=1e-8)
    assert clopper_pearson(np.array([0]), np.array([0]), beta) == (0, 1)
    for p in np.linspace(0.01, 0.99, 25):  # coverage, summed over all outcomes
        mass = binom.pmf(hits, n, p)
        assert mass[lower > p].sum() <= beta
        assert mass[upper < p].sum() <= beta


def test_bounded_means_hold_exactly():
    """A function with the values 0, 0.3, 1: all tables of 12 draws."""
    tables, laws = exact_tails(3)
    values = np.array([0.0, 0.3, 1.0])
    mean = tables @ values / DRAWS
    variance = (tables @ values**2 / DRAWS - mean**2) * DRAWS / (DRAWS - 1)
    n = np.full(len(tables), DRAWS)
    for beta in (0.2, 0.02):
        for lower, upper in (chernoff_interval(mean, n, beta), bernstein_interval(mean, variance, n, beta)):
            assert np.all(lower <= mean)
            assert np.all(mean <= upper)
            for law, mass in laws:
                assert mass[lower > law @ values].sum() <= beta
                assert mass[upper < law @ values].sum() <= beta
        # Chernoff's interval lies inside Hoeffding's.
        assert np.all(chernoff_interval(mean, n, beta)[1] - mean <= np.sqrt(-np.log(beta) / 2 / DRAWS) + 1e-9)


def test_means_of_several_functions():
    functions = np.array([[1.0, 2.0, 4.0], [0.5, 0.5, 0.5]])
    counts = np.array([[10, 20, 30], [0, 0, 0]])
    lower, upper = mean_interval(counts, functions, 0.05)
    mean = counts[0] @ functions[0] / 60
    assert lower[0, 0] < mean < upper[0, 0]
    assert (lower[:, 1], upper[:, 1]) == (pytest.approx([0.5, 0.5]), pytest.approx([0.5, 0.5]))
    assert (lower[1, 0], upper[1, 0]) == (1, 4)
    more = mean_interval(100 * counts, functions, 0.05)
    assert lower[0, 0] < more[0][0, 0] < mean < more[1][0, 0] < upper[0, 0]
