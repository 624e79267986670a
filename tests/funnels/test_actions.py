"""Funnels of measures of finitely many actions against programs over all vertices that these tests list themselves."""

import functools
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv import leakage
from jaxpriv.errors import InfeasibleError
from jaxpriv.funnels.actions import VertexGeneration
from tests.cases import assert_refused, drawn_joint, thorough

from .cases import entropy, entropy_of, proved, source_of, xlogx

GUESS = leakage.CorrectGuess()
LOSSES = np.random.default_rng(5).normal(size=(3, 4))
TOTAL_VARIATION = leakage.FInformation(leakage.TotalVariation())
MEASURES = {
    "guess": GUESS,
    "min-entropy": leakage.MinEntropyLeakage(),
    "gains": leakage.GainLeakage(np.abs(LOSSES.T)),
    "losses": leakage.AverageCostGain(leakage.LossMatrix(LOSSES)),
    "maximal": leakage.MaximalLeakage(),
    "total variation": TOTAL_VARIATION,
    "hockey stick": leakage.FInformation(leakage.EGamma(1.3)),
}


def actions_of(name, joint):
    """(rows (A, X), whether one action is chosen, the value of a sum) of a measure, written out."""
    prior, mass = joint.sum(axis=1), source_of(joint)
    return {
        "guess": lambda: (joint, True, lambda total: total),
        "min-entropy": lambda: (joint / prior.max(), True, np.log),
        "gains": lambda: (np.abs(LOSSES.T) @ joint / (np.abs(LOSSES.T) @ prior).max(), True, np.log),
        "losses": lambda: (-LOSSES.T @ joint, True, lambda total: total + (LOSSES.T @ prior).min()),
        "maximal": lambda: (joint / prior[:, None], True, np.log),
        "total variation": lambda: (joint - prior[:, None] * mass, False, lambda total: total),
        "hockey stick": lambda: (joint - 1.3 * prior[:, None] * mass, False, lambda total: total),
    }[name]()


def vertices(table, single):
    """Every posterior of k symbols at which k - 1 differences of gains (single gains) are zero."""
    actions, size = table.shape
    found = [np.eye(size)]
    most = actions if single else actions + 1
    for k in range(2, min(most, size) + 1):
        for symbols in combinations(range(size), k):
            for tied in combinations(range(actions), k if single else k - 1):
                part = table[np.ix_(tied, symbols)]
                matrix = np.vstack([part[1:] - part[0] if single else part, np.ones(k)])
                if np.linalg.svd(matrix, compute_uv=False)[-1] < 1e-12:
                    continue
                q = np.linalg.solve(matrix, np.append(np.zeros(k - 1), 1.0))
                if q.min() >= 0:
                    whole = np.zeros(size)
                    whole[list(symbols)] = q
                    found.append(whole[None])
    return np.vstack(found)


def phi(table, single, posteriors):
    gains = posteriors @ table.T
    return gains.max(axis=1) if single else np.maximum(gains, 0.0).sum(axis=1)


def listed_funnel(name, joint, disclosure):
    """The value of the funnel, by one linear program over all vertices."""
    rows, single, value = actions_of(name, joint)
    source = source_of(joint)
    table = rows / source
    atoms = np.vstack([vertices(table, single), source])
    disclosed = np.sum(xlogx(atoms) - atoms * np.log(source), axis=1)
    result = linprog(
        phi(table, single, atoms),
        A_eq=atoms.T,
        b_eq=source,
        A_ub=-disclosed[None],
        b_ub=[-disclosure],
        method="highs-ds",
    )
    assert result.status == 0
    return float(value(result.fun))


def funnel(name, joint, share, solver="auto"):
    return proved(jp.FunnelProblem(joint, disclosure=share * entropy_of(joint), leakage=MEASURES[name]), solver)


_SHARED = np.zeros((4, 6))
_SHARED[:2, :3], _SHARED[2:, 3:] = 1.0, [[2, 0, 1], [1, 1, 1]]
WITH_ZEROS_AND_TIES = [
    _SHARED / _SHARED.sum(),
    np.ones((3, 4)) / 12,
    np.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4]),
    np.eye(4) / 4,
    np.array([[3, 1, 0, 2], [1, 3, 2, 0], [2, 2, 2, 2]]) / 20,
]
RANDOM = [
    drawn_joint(10 * private + seed, private, useful) for private in (2, 3, 4) for seed, useful in enumerate((3, 5, 8))
]


@pytest.mark.parametrize(
    ("name", "joint"),
    [("guess", joint) for joint in RANDOM]
    + [(name, joint) for name in ("guess", "total variation") for joint in WITH_ZEROS_AND_TIES]
    + [(name, drawn_joint(3, 3, 6)) for name in MEASURES],
)
def test_the_funnel_is_the_program_over_all_vertices(name, joint):
    for share in (0.3, 0.5, 0.75, 0.93):
        solution = funnel(name, joint, share)
        target = share * entropy_of(joint)
        assert solution.disclosure >= target - 1e-14
        assert solution.lower_bound - 1e-12 <= listed_funnel(name, joint, target) <= solution.value + 1e-9
    assert solution.solver == "vertex-generation"


def test_the_ends_of_the_curve():
    joint = drawn_joint(1, 4, 7)
    for share, value in ((0.0, joint.sum(axis=1).max()), (1.0, joint.max(axis=0).sum())):
        assert funnel("guess", joint, share).value == pytest.approx(value, abs=1e-13)


@pytest.mark.parametrize("name", ["guess", "min-entropy", *thorough("total variation")])
def test_curves_rise_are_convex_in_the_sum_and_targets_agree(name):
    joint = drawn_joint(2, 3, 7)
    whole = entropy_of(joint)
    targets = np.array([0.95, 0.55, 0.75, 0.85, 0.65]) * whole
    problem = jp.FunnelProblem(joint, disclosure=0.5, leakage=MEASURES[name])
    curve = jp.funnel_frontier(problem, disclosures=targets)
    order = np.argsort(targets)
    values = curve.value[order]
    assert (curve.status == "optimal").all()
    assert (np.diff(values) >= -1e-6).all()
    totals = np.exp(values) if name == "min-entropy" else values
    assert (totals[1:-1] <= 0.5 * (totals[:-2] + totals[2:]) + 2e-6).all()
    for i in (1, 3):
        alone = jp.solve(jp.FunnelProblem(joint, disclosure=targets[i], leakage=MEASURES[name]))
        assert curve.solutions[i].value == pytest.approx(alone.value, abs=1e-6)
    back = jp.funnel_frontier(problem, leakage_budgets=values[-2:])
    for target, solution in zip(targets[order][-2:], back.solutions, strict=True):
        assert solution.status == "optimal"
        assert solution.upper_bound >= target - 1e-12
        assert solution.value == pytest.approx(target, abs=1e-5)


def test_a_price_of_disclosure_touches_the_curve():
    joint, price = drawn_joint(8, 3, 6), 0.2
    solution = proved(jp.FunnelProblem(joint, multiplier=price, leakage=GUESS))
    assert solution.value == pytest.approx(solution.leakage - price * solution.disclosure, abs=1e-12)
    for disclosure in np.array([0.3, 0.7, 0.9, 1.0]) * entropy_of(joint):
        assert solution.lower_bound <= listed_funnel("guess", joint, disclosure) - price * disclosure + 1e-12


def test_a_budget_that_allows_no_better_guess_is_met():
    joint = drawn_joint(4, 3, 8)
    least = joint.sum(axis=1).max()
    solution = proved(jp.FunnelProblem(joint, leakage_budget=least, leakage=GUESS))
    assert solution.value > 0.1
    assert solution.leakage <= least + 1e-13
    at = jp.solve(jp.FunnelProblem(joint, disclosure=solution.value, leakage=GUESS))
    assert at.value == pytest.approx(least, abs=1e-6)
    with pytest.raises(InfeasibleError):
        jp.solve(jp.FunnelProblem(joint, leakage_budget=least - 1e-3, leakage=GUESS))


@pytest.mark.parametrize("budget", [0.0, 1e-17])
def test_a_budget_of_nothing_is_met_by_x_where_s_is_independent_of_it_but_for_rounding(budget):
    joint = np.outer([0.6, 0.4], [0.1, 0.9])
    asked = jp.FunnelProblem(joint, leakage_budget=budget, leakage=leakage.FInformation(leakage.TotalVariation()))
    assert proved(asked).value == pytest.approx(entropy_of(joint), abs=1e-9)


def test_symbols_without_mass_rare_ones_and_equal_ones_change_nothing():
    joint = drawn_joint(15, 3, 5)
    target = 0.8 * entropy_of(joint)
    padded = np.pad(joint, ((0, 1), (0, 2)))
    padded[3, 6] = 1e-15
    split = np.hstack([joint[:, :4], 0.5 * joint[:, 4:], 0.5 * joint[:, 4:]])  # one symbol as two
    extra = source_of(joint)[4] * np.log(2.0)  # which of the two it is can be shown as well
    plain, rare, more = (
        proved(jp.FunnelProblem(table, disclosure=disclosure, leakage=GUESS))
        for table, disclosure in ((joint, target), (padded / padded.sum(), target), (split, target + extra))
    )
    assert rare.value == pytest.approx(plain.value, abs=2e-6)
    assert rare.lower_bound <= plain.value + 1e-12
    assert more.value <= plain.value + 1e-6


def test_a_time_limit_leaves_an_interval():
    joint = drawn_joint(1, 8, 60)
    problem = jp.FunnelProblem(joint, disclosure=0.7 * entropy_of(joint), leakage=GUESS)
    solution = jp.solve(problem, time_limit=0.0)
    assert solution.status == "best_known"
    assert solution.stopped == 1
    assert joint.sum(axis=1).max() - 1e-12 <= solution.lower_bound <= solution.value <= solution.upper_bound
    assert solution.disclosure >= problem.target - 1e-14


@functools.cache
def guess_of_many():
    """(a problem of 24 symbols, its solution)."""
    joint = drawn_joint(1, 6, 24)
    problem = jp.FunnelProblem(joint, disclosure=0.8 * entropy_of(joint), leakage=GUESS)
    return problem, jp.solve(problem)


def test_a_proof_that_does_not_end_is_made_at_a_steeper_price():
    """The interval is wider, holds the optimum, and is narrower than that of a constant Y."""
    problem, full = guess_of_many()
    joint, short = problem.joint, jp.solve(problem, VertexGeneration(budget=1))
    assert full.status == "optimal"
    assert short.status == "best_known"
    assert short.lower_bound <= full.value
    assert short.lower_bound >= full.value - 0.5 * (full.value - joint.sum(axis=1).max())
    assert short.multiplier > full.multiplier


def test_open_points_of_a_curve_have_the_bounds_of_the_others():
    problem, full = guess_of_many()
    targets = np.array([0.8, 0.85]) * entropy(source_of(problem.joint))
    curve = jp.funnel_frontier(problem, disclosures=targets, solver=VertexGeneration(budget=1))
    first, second = curve.solutions
    assert second.status == "optimal"
    line = jp.funnels.proved_value(problem, second.proof)
    assert line <= first.lower_bound <= full.value


def test_wrong_problems_are_named():
    joint = drawn_joint(1, 3, 4)
    for problem, word in (
        (jp.FunnelProblem(joint, disclosure=0.2), "finitely many actions"),
        (jp.BottleneckProblem(joint, disclosure=0.2), "finitely many actions"),
    ):
        assert_refused(word, jp.solve, problem, "vertex-generation")
    assert_refused("symbols", jp.solve, jp.FunnelProblem(joint, disclosure=0.2, leakage=leakage.GainLeakage(np.eye(4))))
