"""Funnels of worst-outcome measures: a release within the limit, and a proof that a smaller limit is too small."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import brentq

import jaxpriv as jp
from jaxpriv import leakage
from jaxpriv._runtime.clock import Clock
from jaxpriv.extremal import maximum_utility
from jaxpriv.funnels import worst
from jaxpriv.funnels.curved import CurvedSet
from jaxpriv.funnels.greedy import greedy
from tests.cases import TIME_LIMIT, assert_refused, drawn_joint, value_of

from .cases import (
    conditional_of,
    entropy,
    entropy_of,
    mixtures_at,
    most_told,
    proved,
    released,
    source_of,
)

SMOOTH = [leakage.MaxInformation(), leakage.RelativeEntropyPrivacy(), leakage.MaxCostGain(leakage.BrierLoss())]
MEASURES = [leakage.MaxLift(), leakage.Lift(), leakage.LocalDifferentialPrivacy(), *SMOOTH]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: type(one).__name__)
def test_the_least_limit_is_certified(measure):
    joint, rng = drawn_joint(8, 3, 6), np.random.default_rng(8)
    target = 0.85 * entropy_of(joint)
    found = proved(jp.FunnelProblem(joint, disclosure=target, leakage=measure))
    assert found.disclosure >= target
    assert value_of(measure, joint, found.mechanism) <= found.upper_bound
    if measure not in SMOOTH:
        assert maximum_utility(joint, (measure, found.lower_bound)).upper_bound < target
    # Posteriors within the bound, at random, disclose less.
    for _ in range(300):
        mechanism = found.mechanism * np.exp(0.2 * rng.normal(size=found.mechanism.shape))
        mechanism /= mechanism.sum(axis=1, keepdims=True)
        if value_of(measure, joint, mechanism) <= found.lower_bound:
            assert released(joint, mechanism)[0] < target
    back = jp.solve(jp.FunnelProblem(joint, leakage_budget=found.value, leakage=measure))
    assert back.status == "optimal"
    assert back.value >= target - 1e-6


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: type(one).__name__)
def test_a_release_within_a_limit_is_certified(measure):
    """It meets the limit with the rounding of the measure counted: posteriors at the limit are moved towards P(S)."""
    joint = drawn_joint(0, 3, 6)
    limit = 0.4 * min(value_of(measure, joint, np.eye(6)), 2.0)
    asked = jp.FunnelProblem(joint, leakage_budget=limit, leakage=measure)
    found = jp.solve(asked)
    again = jp.certify(asked, found)
    assert (found.status, again.valid, again.agrees, again.violation) == ("optimal", True, True, 0.0)


@pytest.mark.parametrize("measure", SMOOTH, ids=lambda one: type(one).__name__)
def test_of_two_private_symbols_the_limit_is_an_interval(measure):
    """The vertices are the symbols inside of it, and pairs of symbols at one of its ends."""
    joint, limit = drawn_joint(4, 2, 6), 0.03
    prior, source, first = joint.sum(axis=1), source_of(joint), conditional_of(joint)[0]

    def excess(r):
        both = np.array([r, 1.0 - r])
        if isinstance(measure, leakage.MaxInformation):
            return entropy(prior) - entropy(both) - limit
        if isinstance(measure, leakage.RelativeEntropyPrivacy):
            return float((both * np.log(both / prior)).sum()) - limit
        return float((both**2).sum() - (prior**2).sum()) - limit

    ends = [brentq(excess, prior[0], end) for end in (1e-9, 1 - 1e-9)]
    inside = np.eye(6)[(ends[0] <= first) & (first <= ends[1])]
    best = most_told(source, np.vstack([inside, *(mixtures_at(end, first) for end in ends)]))
    found = jp.solve(jp.FunnelProblem(joint, leakage_budget=limit, leakage=measure))
    assert found.status == "optimal"
    assert found.value == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("measure", SMOOTH, ids=lambda one: type(one).__name__)
def test_no_allowed_posterior_is_above_the_bound_of_a_search(measure):
    """Three useful symbols: all posteriors on a grid, at prices where few or many of them are above the aim."""
    joint, limit, rng = drawn_joint(5, 3, 3), 0.04, np.random.default_rng(5)
    allowed = CurvedSet(joint, measure)
    source, level = source_of(joint), limit - allowed.least
    steps = np.arange(201) / 200
    grid = np.array([(a, b, 1.0 - a - b) for a in steps for b in steps if a + b <= 1.0 + 1e-12]).clip(0.0)
    grid = grid[allowed.curved.at(grid @ allowed.curved.conditional.T) <= level]
    divergence = (grid * np.log(np.where(grid > 0, grid / source, 1.0))).sum(axis=1)
    for _ in range(20):
        prices = rng.normal(size=3)
        best = float((divergence - grid @ prices).max())
        for aim in (0.1, 0.199, 0.25):
            bound, found, _ = allowed._search(prices + best - 0.2, level, aim, np.arange(1), Clock())  # best: 0.2
            assert max(0.2, aim) <= bound <= 0.25 + 1e-9
            assert len(found) == (aim < 0.2)


@pytest.mark.parametrize("measure", SMOOTH[:2], ids=lambda one: type(one).__name__)
def test_a_posterior_that_is_missing_is_noticed(measure):
    """The proof does not rest on what was found before: without one of the columns the bound is the same."""
    joint, limit = drawn_joint(6, 3, 7), 0.05
    allowed = CurvedSet(joint, measure)
    whole = allowed.utility(limit, 1e-7, Clock())
    assert whole.status == "optimal"
    for missing in range(len(allowed.posteriors)):
        fewer = CurvedSet(joint, measure)
        fewer.posteriors = np.delete(allowed.posteriors, missing, axis=0)
        again = fewer.utility(limit, 1e-7, Clock())
        assert again.status == "optimal"
        assert again.upper_bound == pytest.approx(whole.upper_bound, abs=2e-7)
    # Nothing is claimed where no search was made: the bound is that of the columns, which is none.
    assert allowed.utility(limit, 1e-7, Clock(), proof=False).upper_bound == np.inf


@pytest.mark.parametrize("measure", SMOOTH[:2], ids=lambda one: type(one).__name__)
def test_of_x_itself_no_more_is_disclosed_than_the_limit(measure):
    """I(X;Y) is the mean of the limited quantity: all posteriors at the border are equally good."""
    found = jp.solve(jp.FunnelProblem(np.diag([0.5, 0.3, 0.2]), leakage_budget=0.05, leakage=measure))
    assert found.status == "optimal"
    assert found.value == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(
    ("joint", "measure", "target", "gap"),
    [
        ([[0.921033320320, 5.283e-10], [1.411e-10, 0.078966679]], SMOOTH[0], 0.20449636918904604, 1e-6),
        (
            [[3.486e-4, 1.743e-4, 4.467e-5], [3.467e-6, 1.734e-6, 0.999427247533]],
            SMOOTH[1],
            0.0030812140233932805,
            1e-4,
        ),
    ],
)
def test_the_proof_goes_on_where_the_utility_is_known_less_well_than_the_target(joint, measure, target, gap):
    joint = np.array(joint) / np.sum(joint)
    found = jp.solve(jp.FunnelProblem(joint, disclosure=target, leakage=measure))
    assert found.upper_bound - found.lower_bound <= gap


def test_a_claim_that_is_too_good_is_refused():
    joint = drawn_joint(8, 3, 6)
    for form, target in (("disclosure", 1.2), ("leakage_budget", 0.05)):
        problem = jp.FunnelProblem(joint, leakage=leakage.MaxInformation(), **{form: target})
        found = jp.solve(problem)
        assert jp.certify(problem, found).agrees
        bounds = {"lower_bound": found.upper_bound + 1e-4, "upper_bound": found.upper_bound - 1e-4}
        name = "lower_bound" if form == "disclosure" else "upper_bound"
        assert not jp.certify(problem, dataclasses.replace(found, **{name: bounds[name]})).agrees


def test_without_time_the_target_is_met():
    joint = drawn_joint(8, 3, 6)
    for form, target, measure in (
        ("disclosure", 1.0, leakage.MaxLift()),
        ("leakage_budget", 0.1, leakage.MaxLift()),
        ("disclosure", 1.0, leakage.MaxInformation()),
    ):
        problem = jp.FunnelProblem(joint, leakage=measure, **{form: target})
        found = jp.solve(problem, time_limit=1e-9)
        assert found.status == "best_known"
        assert found.disclosure >= 1.0 if form == "disclosure" else found.leakage <= 0.1
        assert found.lower_bound <= found.value <= found.upper_bound


@pytest.mark.parametrize("measure", MEASURES[:5], ids=lambda one: type(one).__name__)
def test_a_solve_that_is_cut_is_no_worse_than_the_release_of_least_information(monkeypatch, now, measure):
    """Every search for a utility takes one second, and mutual information none: of 1.5 seconds none is left for it."""
    joint, utility = drawn_joint(8, 3, 6), worst._utility

    def slow(*problem):
        at = utility(*problem)

        def later(*limit):
            now.seconds += 1.0
            return at(*limit)

        return later

    monkeypatch.setattr(worst, "_utility", slow)
    target = 0.8 * entropy_of(joint)
    found = jp.solve(jp.FunnelProblem(joint, disclosure=target, leakage=measure), time_limit=3.5)
    least = jp.solve(jp.FunnelProblem(joint, disclosure=target))
    assert found.stopped == TIME_LIMIT
    assert found.disclosure >= target
    assert found.lower_bound <= found.value <= value_of(measure, joint, least.mechanism) + 1e-9
    merged = [greedy(joint, disclosure=target, ratio=ratio).mechanism for ratio in (False, True)]
    cut = jp.solve(jp.FunnelProblem(joint, disclosure=target, leakage=measure), time_limit=1.5)
    assert cut.disclosure >= target
    assert cut.value <= min(value_of(measure, joint, mechanism) for mechanism in merged) + 1e-9


def test_no_leakage_is_found_where_it_is_enough():
    assert proved(jp.FunnelProblem(drawn_joint(9, 3, 8), disclosure=0.05, leakage=leakage.MaxLift())).value <= 1e-6


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: type(one).__name__)
def test_what_is_independent_of_s_is_disclosed_within_the_smallest_budgets(measure):
    joint = drawn_joint(3, 2, 4)
    best = most_told(source_of(joint), mixtures_at(joint[0].sum(), conditional_of(joint)[0]))
    for budget in (0.0, 1e-12):
        found = jp.solve(jp.FunnelProblem(joint, leakage_budget=budget, leakage=measure))
        assert best - 1e-9 <= found.value <= found.upper_bound
    none = proved(jp.FunnelProblem(joint, leakage_budget=0.0, leakage=measure))
    assert none.value == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("measure", [leakage.Lift(), leakage.RelativeEntropyPrivacy()], ids=lambda one: one.label)
def test_all_of_x_is_disclosed_by_x_itself_alone(measure):
    joint = drawn_joint(8, 3, 4)
    found = jp.solve(jp.FunnelProblem(joint, disclosure=entropy_of(joint), leakage=measure))
    assert found.status == "optimal"
    assert found.value == pytest.approx(value_of(measure, joint, np.eye(4)), abs=1e-6)


def test_a_search_ends_where_rounding_alone_lets_posteriors_in():
    """S has a value of mass 1e-9: a limit of 1e-9 is met by a wide set of posteriors, but for rounding."""
    joint = np.array([[8.0e-11, 7.1e-10, 9.6e-10], [0.28, 0.50, 0.22]])
    found = jp.solve(jp.FunnelProblem(joint / joint.sum(), leakage_budget=8.6e-10, leakage=SMOOTH[1]))
    assert found.gap <= 1e-3


def test_what_is_no_funnel_of_a_worst_outcome_is_named():
    joint = drawn_joint(9, 3, 5)
    neighbours = np.ones((3, 3), dtype=bool)
    for wanted, word in (
        ({"multiplier": 0.3, "leakage": leakage.MaxLift()}, "multiplier"),
        ({"multiplier": 0.3, "leakage": leakage.MaxInformation()}, "multiplier"),
        ({"disclosure": 0.3, "leakage": leakage.MaxCostGain(leakage.ZeroOneLoss())}, "MaxCostGain"),
        ({"disclosure": 0.3, "leakage": leakage.LocalDifferentialPrivacy(neighbours)}, "neighbours"),
    ):
        assert_refused(word, jp.FunnelProblem, joint, **wanted)
    problem = jp.FunnelProblem(joint, disclosure=0.3, leakage=leakage.MaxLift())
    assert_refused("average measures", jp.solve, problem, "difference-of-convex")
    assert_refused("limit on every posterior", jp.solve, jp.FunnelProblem(joint, disclosure=0.3), "posterior-limit")
