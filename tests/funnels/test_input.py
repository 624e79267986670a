"""Bad input is refused by name before anything runs."""

import numpy as np
import pytest

import jaxpriv as jp
from tests.cases import assert_refused, drawn_joint, raised

from .cases import entropy, information

JOINT = drawn_joint(0, 2, 4)


@pytest.mark.parametrize("kind", [jp.FunnelProblem, jp.BottleneckProblem])
@pytest.mark.parametrize("bad", [-1e-3, np.nan, np.inf, True, [0.1, 0.2], "much"])
def test_targets(kind, bad):
    for name in ("disclosure", "multiplier", "leakage_budget" if kind is jp.FunnelProblem else "relevance"):
        assert_refused(name, kind, JOINT, **{name: bad})


def test_targets_out_of_reach():
    most = entropy(JOINT.sum(axis=0))
    with raised(jp.InfeasibleError, r"^disclosure .* is above H\(X\)") as caught:
        jp.FunnelProblem(JOINT, disclosure=most + 1e-6)
    assert caught.value.proof["largest"] == pytest.approx(most)
    with raised(jp.InfeasibleError, r"^relevance .* is above I\(S;X\)"):
        jp.BottleneckProblem(JOINT, relevance=information(JOINT) + 1e-6)
    assert jp.FunnelProblem(JOINT, disclosure=most * (1 + 1e-14)).target <= most * (1 + 1e-15)
    assert jp.BottleneckProblem(JOINT, disclosure=most + 1.0).target == most + 1.0


def test_a_limit_on_the_equivocation_is_one_on_the_disclosure():
    most = entropy(JOINT.sum(axis=0))
    problem = jp.FunnelProblem(JOINT, equivocation=0.3 * most)
    assert (problem.form, problem.target) == ("disclosure", pytest.approx(0.7 * most, rel=1e-14))
    released = JOINT.sum(axis=0)[:, None] * jp.solve(problem).mechanism
    masses = released.sum(axis=0)
    left = -(released * np.log(np.where(released > 0, released / masses, 1.0))).sum()
    assert left == pytest.approx(0.3 * most, abs=1e-6)
    assert jp.FunnelProblem(JOINT, equivocation=most + 1.0).target == 0.0
    assert jp.FunnelProblem(JOINT, equivocation=0.0).target == pytest.approx(most, rel=1e-14)
    assert_refused("equivocation must be a finite number >= 0", jp.FunnelProblem, JOINT, equivocation=-0.1)


@pytest.mark.parametrize("kind", [jp.FunnelProblem, jp.BottleneckProblem])
def test_exactly_one_target(kind):
    assert_refused("exactly one of disclosure", kind, JOINT)
    assert_refused("exactly one of disclosure", kind, JOINT, disclosure=0.1, multiplier=0.1)


def test_joints_and_measures():
    assert_refused(r"joint\[0, 1\] is negative", jp.FunnelProblem, [[0.6, -0.1], [0.2, 0.3]], disclosure=0.1)
    assert_refused("joint sums to", jp.BottleneckProblem, [[6.0, 1.0], [2.0, 3.0]], disclosure=0.1)
    assert_refused(
        "leakage must be an average measure",
        jp.FunnelProblem,
        JOINT,
        disclosure=0.1,
        leakage=jp.leakage.MaxCostGain(jp.leakage.ZeroOneLoss()),
    )
    assert_refused(
        "mutual information only",
        jp.solve,
        jp.FunnelProblem(JOINT, disclosure=0.1, leakage=jp.leakage.MaximalLeakage()),
        "column-generation",
    )


def test_options_of_solve():
    problem = jp.FunnelProblem(JOINT, disclosure=0.1)
    assert_refused("solver 'interior-point' is unknown for funnels", jp.solve, problem, "interior-point")
    assert_refused("not rtol", jp.solve, problem, rtol=0.1)
    assert_refused("max_steps must be an integer", jp.solve, problem, max_steps=0)


def test_frontier_arguments():
    problem = jp.FunnelProblem(JOINT, disclosure=0.1)
    for wrong in ({}, {"relevances": [0.1]}, {"disclosures": [0.1], "multipliers": [0.1]}):
        assert_refused("exactly one of disclosures, leakage_budgets, multipliers", jp.funnel_frontier, problem, **wrong)
    assert_refused(r"disclosures\[1\] is NaN", jp.funnel_frontier, problem, disclosures=[0.1, np.nan])


def test_a_guessing_probability_cannot_fall_below_that_of_knowing_nothing():
    least = JOINT.sum(axis=1).max()
    guess = jp.leakage.CorrectGuess()
    with raised(jp.InfeasibleError, "leakage_budget") as caught:
        jp.solve(jp.FunnelProblem(JOINT, leakage_budget=least - 1e-3, leakage=guess), "greedy")
    assert caught.value.proof["least"] == pytest.approx(least)
    # The same number bounds what any disclosure costs: where greedy reaches it, nothing is left to prove.
    solution = jp.solve(jp.FunnelProblem(JOINT, disclosure=0.05, leakage=guess), "greedy")
    assert solution.lower_bound == pytest.approx(least, abs=1e-12)
    assert solution.lower_bound <= solution.value


@pytest.mark.parametrize("target", [0.0, 1.1e-16])
def test_a_target_of_rounding_where_x_is_certain(target):
    """H(X) = 0, and what is asked for is 0 but for the rounding of a sum."""
    solution = jp.solve(jp.FunnelProblem([[0.4], [0.6]], disclosure=target))
    assert (solution.status, solution.value) == ("optimal", 0.0)


def test_a_target_just_above_its_largest_value_is_shown_with_all_digits():
    with pytest.raises(jp.InfeasibleError, match=r"0\.6931471806\d* is above H\(X\) = 0\.6931471805\d*"):
        jp.FunnelProblem([0.5, 0.5], disclosure=np.log(2) + 1e-10)
