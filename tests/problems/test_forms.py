"""The forms of Calmon-Fawaz's Theorem 1 are one problem: they must agree with each other and with themselves.

Metamorphic tests: what leaves the optimum alone, or moves it in a known way.
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxpriv as jp
from jaxpriv.program import program_of
from tests.information import certify

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
        joint = problem.joints[0]
        wider = jp.solve(jp.with_private_input(joint, problem.distortions, budget=problem.budget))
        plain = jp.solve(problem)
        assert wider.status == "optimal"
        assert wider.lower_bound <= plain.value
        assert wider.value <= plain.lower_bound + 2e-6
        assert wider.mechanism.shape == ((joint > 0).sum(), 4)
        # A mechanism that ignores s is one of the wider ones: same leakage and distortion.
        pairs = jp.private_pairs(joint)
        mapped = certify(
            program_of(jp.with_private_input(joint, problem.distortions, budget=problem.budget)),
            plain.mechanism[pairs[:, 1]],
            np.zeros((1, 4, 3)),
            np.ones(1),
            np.ones(1),
        )
        assert mapped.leakages[0] == pytest.approx(plain.leakage, abs=1e-13)
        assert mapped.violation == 0


def test_redundant_constraints_change_nothing(ask, same):
    """Remark 1, several distortions: a duplicate, a slack one, and their prices."""
    problem = ask(1)
    table, budget = problem.tables()[0], problem.budget[0]
    alone = jp.solve(problem)
    doubled = jp.solve(jp.DistortionProblem(problem.joints[0], [table, table], budget=[budget, budget]))
    same(alone, doubled)
    assert doubled.multipliers.sum() == pytest.approx(alone.multipliers[0], rel=1e-3)
    slack = jp.solve(jp.DistortionProblem(problem.joints[0], [table, table**2], budget=[budget, 50.0]))
    same(alone, slack)
    assert slack.multipliers[1] <= 1e-6
    assert slack.distortion == pytest.approx(
        [(problem.joints[0].sum(axis=0)[:, None] * d * slack.mechanism).sum() for d in (table, table**2)], abs=1e-14
    )


def test_a_second_constraint_that_binds_costs_leakage(ask):
    problem = ask(1)
    table, budget = problem.tables()[0], problem.budget[0]
    one = jp.solve(problem)
    hit = 1 - np.eye(4)
    limit = 0.8 * (problem.joints[0].sum(axis=0)[:, None] * hit * one.mechanism).sum()
    both = jp.solve(jp.DistortionProblem(problem.joints[0], np.stack([table, hit]), budget=[budget, limit]))
    assert both.status == "optimal"
    assert both.lower_bound > one.value
    assert np.all(both.distortion <= np.array([budget, limit]) + 1e-12)
    assert both.multipliers[1] > 1e-3


def test_prior_sets(ask, joint_of, same):
    """Identical joints are one joint; the worst case over different ones is at least every single optimum."""
    problem = ask(2)
    table, budget = problem.tables()[0], problem.budget[0]
    single = jp.solve(problem)
    twice = jp.solve(jp.DistortionProblem(np.stack([problem.joints[0]] * 2), table, budget=budget))
    same(single, twice)

    others = np.stack([joint_of(3), joint_of(4)])
    robust = jp.solve(jp.DistortionProblem(others, table, budget=0.3))
    assert robust.status == "optimal"
    singles = [jp.solve(jp.DistortionProblem(joint, table, budget=0.3)) for joint in others]
    assert robust.value >= max(one.lower_bound for one in singles)
    # Every budget holds under every joint, the leakage is the largest one, and the weights are a prior on the joints.
    used = np.einsum("kx,xy,xy->k", others.sum(axis=1), table, robust.mechanism)
    assert used.max() == pytest.approx(robust.distortion[0], abs=1e-14)
    assert used.max() <= 0.3 + 1e-12
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
    table = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    private = jp.solve(jp.DistortionProblem(joint, table, budget=0.5))
    source = jp.solve(jp.rate_distortion(joint.sum(axis=0), table, budget=0.5))
    same(private, source)
    assert private.mechanism == pytest.approx(source.mechanism, abs=1e-9)


@pytest.mark.parametrize(
    "change", ["split private", "empty symbols", "twin useful", "permute private", "permute useful", "permute released"]
)
def test_renaming_splitting_and_padding_change_nothing(ask, same, change):
    problem = ask(6)
    joint, table, budget = problem.joints[0], problem.tables()[0], problem.budget[0]
    before = jp.solve(problem)
    row = column = released = None
    if change == "split private":  # one private symbol becomes two with the same P(x|s)
        joint = np.vstack([joint[:2], 0.3 * joint[2:], 0.7 * joint[2:]])
    elif change == "empty symbols":
        joint = np.insert(np.insert(joint, 1, 0.0, axis=0), 2, 0.0, axis=1)
        table = np.insert(table, 2, 7.0, axis=0)
    elif change == "twin useful":  # one useful symbol becomes two with the same posterior and costs
        joint = np.hstack([joint[:, :3], 0.25 * joint[:, 3:], 0.75 * joint[:, 3:]])
        table = np.vstack([table, table[3:]])
    elif change == "permute private":
        row = [2, 0, 1]
        joint = joint[row]
    elif change == "permute useful":
        column = [3, 1, 0, 2]
        joint, table = joint[:, column], table[column]
    else:
        released = [1, 3, 2, 0]
        table = table[:, released]
    after = jp.solve(jp.DistortionProblem(joint, table, budget=budget))
    same(before, after)
    if change == "empty symbols":  # a symbol without mass releases the marginal of Y
        np.testing.assert_allclose(after.mechanism[2], joint.sum(axis=0) @ after.mechanism, atol=1e-14)
    if column or released:
        order = np.ix_(column or range(4), released or range(4))
        np.testing.assert_allclose(after.mechanism, before.mechanism[order], atol=1e-4)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_units_of_the_distortion_do_not_matter(ask, same, scale):
    problem = ask(7)
    scaled = jp.DistortionProblem(problem.joints[0], problem.tables()[0] * scale, budget=problem.budget * scale)
    before, after = jp.solve(problem), jp.solve(scaled)
    same(before, after)
    assert after.multipliers[0] * scale == pytest.approx(before.multipliers[0], rel=1e-6)
    # A constant on a row costs every mechanism the same.
    shift = scale * np.arange(4.0)[:, None]
    budget = problem.budget + (problem.joints[0].sum(axis=0) * shift[:, 0]).sum()
    if scale <= 1:  # far above that the budget itself is rounding
        same(before, jp.solve(jp.DistortionProblem(problem.joints[0], problem.tables()[0] + shift, budget=budget)))
    # The objective of the leakage-budget form has the units of the distortion.
    limited = jp.problems.replace_form(problem, leakage_budget=0.05)
    scaled = jp.DistortionProblem(problem.joints[0], problem.tables()[0] * scale, leakage_budget=0.05)
    same(jp.solve(limited), jp.solve(scaled, tol=1e-6 * scale), scale=scale, slack=1e-12 * scale)


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
    joint = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(3, 4)
    solved, other = (jp.DistortionProblem(joint, 1.0 - np.eye(4), budget=0.2) for _ in range(2))
    jp.solve(solved)
    assert jax.tree.structure(solved) == jax.tree.structure(other)
    assert solved.leakage == other.leakage
