"""The forms of Calmon-Fawaz's Theorem 1 are one problem: they must agree with each other and with themselves.

Metamorphic tests: what leaves the optimum alone, or moves it in a known way.
"""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jaxpriv as jp
from tests.cases import distances, drawn_joint, spent

from .checks import proved

SEEDS = st.integers(0, 2**32 - 1)


def test_multiplier_form_at_the_price_of_the_budget(ask):
    for seed in range(4):
        problem = ask(seed)
        by_budget = jp.solve(problem)
        price = by_budget.multipliers[0]
        by_price = jp.solve(jp.problems.replace_form(problem, multiplier=price))
        # min I + price E d = optimum + price budget at an optimal price; here up to both gaps.
        shifted = by_budget.value + price * problem.budget[0]
        assert by_price.value == pytest.approx(shifted, abs=2e-6)
        assert by_price.lower_bound <= shifted


def test_leakage_budget_form_inverts_the_budget_form(ask):
    for seed in range(4):
        problem = ask(seed)
        forth = jp.solve(problem, tol=1e-8)
        back = jp.solve(jp.problems.replace_form(problem, leakage_budget=forth.leakage), tol=1e-8)
        assert back.status == "optimal"
        assert back.leakage <= forth.leakage
        # At most the budget, and short of it by at most the gap over the slope.
        assert back.lower_bound <= problem.budget[0]
        assert back.value == pytest.approx(problem.budget[0], abs=1e-8 + 2e-8 / forth.multipliers[0])
        assert back.multipliers[0] == pytest.approx(1 / forth.multipliers[0], rel=1e-3)


def test_seeing_the_private_data_never_hurts(ask):
    """Remark 3: P(y | x, s) contains P(y | x)."""
    for seed in range(3):
        problem = ask(seed)
        joint, plain = problem.joints[0], jp.solve(problem)
        paired = jp.with_private_input(joint, problem.distortions, budget=problem.budget)
        wider = proved(paired)
        assert wider.lower_bound <= plain.value
        assert wider.value <= plain.lower_bound + 2e-6
        assert wider.mechanism.shape == ((joint > 0).sum(), 4)
        # A mechanism that ignores s is one of the wider ones: same leakage and distortion.
        mapped = plain.mechanism[jp.private_pairs(joint)[:, 1]]
        found = jp.certify(paired, dataclasses.replace(wider, mechanism=mapped))
        assert found.leakage == pytest.approx(plain.leakage, abs=1e-13)
        assert found.violation == 0


def test_redundant_constraints_change_nothing(ask, same):
    """Remark 1, several distortions: a duplicate, a slack one, and their prices."""
    problem = ask(1)
    joint, table, budget = problem.joints[0], problem.tables()[0], problem.budget[0]
    alone = jp.solve(problem)
    doubled = proved(jp.DistortionProblem(joint, [table, table], budget=[budget, budget]))
    slack = proved(jp.DistortionProblem(joint, [table, table**2], budget=[budget, 50.0]))
    same(alone, doubled)
    same(alone, slack)
    assert doubled.multipliers.sum() == pytest.approx(alone.multipliers[0], rel=1e-3)
    assert slack.multipliers[1] <= 1e-6


def test_a_second_constraint_that_binds_costs_leakage(ask):
    problem = ask(1)
    joint, one, hit = problem.joints[0], jp.solve(problem), 1 - np.eye(4)
    limit = 0.8 * spent(joint, hit, one.mechanism)
    tables = np.stack([problem.tables()[0], hit])
    both = proved(jp.DistortionProblem(joint, tables, budget=[problem.budget[0], limit]))
    assert both.lower_bound > one.value
    assert both.multipliers[1] > 1e-3


def test_prior_sets(ask, joint_of, same):
    """Identical joints are one joint; the worst case over different ones is at least every single optimum."""
    problem = ask(2)
    table, budget = problem.tables()[0], problem.budget[0]
    twice = jp.solve(jp.DistortionProblem(np.stack([problem.joints[0]] * 2), table, budget=budget))
    same(jp.solve(problem), twice)
    others = np.stack([joint_of(3), joint_of(4)])
    robust = proved(jp.DistortionProblem(others, table, budget=0.3))
    for joint in others:
        assert robust.value >= jp.solve(jp.DistortionProblem(joint, table, budget=0.3)).lower_bound
    # The leakage is the largest one, and the weights are a prior on the joints.
    leakages = [float(jp.probability.mutual_information(joint @ robust.mechanism)) for joint in others]
    assert max(leakages) == pytest.approx(robust.leakage, abs=1e-13)
    assert robust.multipliers[-2:].sum() == pytest.approx(1, abs=1e-6)


def test_a_query_of_the_private_data_is_rate_distortion(same):
    """Corollary 1: X = f(S) gives I(S;Y) = I(X;Y), whatever the masses of the private states."""
    rng = np.random.default_rng(5)
    mass = rng.dirichlet(np.ones(12))
    labels = np.arange(12) % 5
    joint = np.zeros((12, 5))
    joint[np.arange(12), labels] = mass
    table = distances(5)
    private = jp.solve(jp.DistortionProblem(joint, table, budget=0.5))
    source = jp.solve(jp.rate_distortion(joint.sum(axis=0), table, budget=0.5))
    same(private, source)
    assert private.mechanism == pytest.approx(source.mechanism, abs=1e-9)


SHUFFLED = [3, 1, 0, 2]
CHANGES = {
    # One private symbol becomes two with the same P(x|s); one useful symbol two with the same posterior and costs.
    "split private": lambda joint, table: (np.vstack([joint[:2], 0.3 * joint[2:], 0.7 * joint[2:]]), table),
    "twin useful": lambda joint, table: (
        np.hstack([joint[:, :3], 0.25 * joint[:, 3:], 0.75 * joint[:, 3:]]),
        np.vstack([table, table[3:]]),
    ),
    "empty symbols": lambda joint, table: (
        np.insert(np.insert(joint, 1, 0.0, axis=0), 2, 0.0, axis=1),
        np.insert(table, 2, 7.0, axis=0),
    ),
    "permute private": lambda joint, table: (joint[[2, 0, 1]], table),
    "permute useful": lambda joint, table: (joint[:, SHUFFLED], table[SHUFFLED]),
    "permute released": lambda joint, table: (joint, table[:, SHUFFLED]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_renaming_splitting_and_padding_change_nothing(ask, same, change):
    problem = ask(6)
    joint, table = CHANGES[change](problem.joints[0], problem.tables()[0])
    before, after = jp.solve(problem), jp.solve(jp.DistortionProblem(joint, table, budget=problem.budget))
    same(before, after)
    if change == "empty symbols":  # a symbol without mass releases the marginal of Y
        np.testing.assert_allclose(after.mechanism[2], joint.sum(axis=0) @ after.mechanism, atol=1e-14)
    moved = {"permute useful": before.mechanism[SHUFFLED], "permute released": before.mechanism[:, SHUFFLED]}
    if change in moved:
        np.testing.assert_allclose(after.mechanism, moved[change], atol=1e-4)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0])  # far above that the budget itself is rounding
def test_a_constant_on_a_row_costs_every_mechanism_the_same(ask, same, scale):
    problem = ask(7)
    joint, shift = problem.joints[0], scale * np.arange(4.0)
    budget = problem.budget + joint.sum(axis=0) @ shift
    same(jp.solve(problem), jp.solve(jp.DistortionProblem(joint, problem.tables()[0] + shift[:, None], budget=budget)))


@settings(max_examples=15)
@given(seed=SEEDS)
def test_the_optimum_is_monotone_and_convex_in_the_budget(ask, seed):
    """On random joints with zeros; and every price is the slope of a line below the whole curve."""
    problem = ask(seed)
    budgets = np.linspace(0.05, 1.2, 8) * problem.budget[0] / 0.4
    curve = jp.frontier(problem, budgets=budgets).solutions
    assert set(curve.status) == {"optimal"}
    value, bound = curve.value, curve.lower_bound
    assert np.all(bound[1:] <= value[:-1])
    assert np.all(bound[1:-1] <= (value[:-2] + value[2:]) / 2 + 1e-14)
    lines = bound[:, None] - curve.multipliers * (budgets[None, :] - budgets[:, None])
    assert np.all(lines <= value[None, :] + 1e-14)


def test_no_fact_of_a_problem_or_measure_is_part_of_its_tree():
    """Of a problem that was solved: each property has been read."""
    joint = drawn_joint(0, 3, 4)
    solved, other = (jp.DistortionProblem(joint, 1.0 - np.eye(4), budget=0.2) for _ in range(2))
    jp.solve(solved)
    assert jax.tree.structure(solved) == jax.tree.structure(other)
    assert solved.leakage == other.leakage
