"""Limits far below what the data tell: next to independence a measure is quadratic in how far it is from it."""

from typing import Any

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.leakage import (
    FInformation,
    LocalDifferentialPrivacy,
    MaxInformation,
    MaxLift,
    MutualInformation,
    TotalVariation,
)
from jaxpriv.testing import random_joint
from tests.cases import distances, drawn_joint, value_of

from .checks import proved
from .measured_cases import AVERAGE

# More useful symbols than private ones: something can be told without leaking, and the price of a limit is infinite
# at zero. Another measure of one kind, another number, is the same compiled program.
SHAPE = (4, 6)
DISTORTION = distances(6) / 5
NAMES = ("chi-squared", "gain-brier", "sibson-2", "arimoto-3", "sibson-0.5")


@pytest.mark.parametrize("name", NAMES)
def test_small_limits_are_certified(name):
    joint = random_joint(3, *SHAPE)

    def leak(mechanism):
        return float(value_of(AVERAGE[name], joint, mechanism))

    none = leak(np.full((6, 6), 1 / 6))
    values = []
    for slack in (1e-4, 1e-6, 1e-8):
        problem = jp.DistortionProblem(joint, DISTORTION, leakage=AVERAGE[name], leakage_budget=none + slack)
        solution = proved(problem, tol=1e-7)
        assert leak(solution.mechanism) <= none + slack + 1e-13
        assert solution.value == pytest.approx(solution.distortion[0], abs=1e-12)
        values.append(float(solution.value))
    # What a limit costs grows as its square root: from 1e-6 to 1e-8 a tenth of what it does from 1e-4 to 1e-6.
    assert values[0] < values[1] < values[2]
    assert (values[2] - values[1]) / (values[1] - values[0]) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_small_limits_in_every_outcome_are_certified(seed):
    """Their Newton systems are solved with refinement: without it the outputs missed limits of 1e-7 by all of them."""
    joint = drawn_joint([17, seed], *SHAPE)
    problem = jp.DistortionProblem(joint, DISTORTION, leakage=MaxInformation(), leakage_budget=1e-7)
    solution = proved(problem, tol=1e-7)
    assert float(value_of(MaxInformation(), joint, solution.mechanism)) <= 1e-7 + 1e-13


@pytest.mark.parametrize("seed", [18, 26, 37])
def test_a_limit_below_the_tolerance_of_linear_programs_keeps_a_good_mechanism(seed):
    """A ratio of 1 + 1e-10: a vertex of the linear program exceeds it; one with S and Y independent does not."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(8) * rng.choice([0.3, 1.0])).reshape(2, 4)
    table = rng.uniform(0.2, 1.0, (4, 4)) * (1.0 - np.eye(4))
    proved(jp.DistortionProblem(joint, table, leakage_budget=1e-10, leakage=LocalDifferentialPrivacy()))


@pytest.mark.parametrize(
    ("form", "limit", "solver"),
    [
        ("budget", 0.0, "auto"),
        ("budget", 1e-10, "interior-point"),
        ("limit", 0.0, "interior-point"),
        ("limit", 1e-10, "auto"),
        ("multiplier", 1e-10, "interior-point"),
    ],
)
def test_next_to_no_leakage_in_every_outcome_is_certified(form, limit, solver):
    """The problem at the limit's least value has the rules and the mechanism: what is without slack has no interior."""
    joint = drawn_joint(14, 2, 5)
    asked: dict[str, Any] = {"leakage_budget": limit, "leakage": MaxLift()}
    if form != "budget":
        asked = {"limits": ((MaxLift(), limit),), "leakage": MutualInformation()}
        asked |= {"leakage_budget": 0.05} if form == "limit" else {"multiplier": 0.5}
    solution = proved(jp.DistortionProblem(joint, jp.distortion.hamming(5), **asked), solver)
    free = jp.solve(jp.DistortionProblem(joint, jp.distortion.hamming(5), leakage_budget=0.0))
    least = (0.5 if form == "multiplier" else 1.0) * free.value
    assert solution.value == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("measure", [LocalDifferentialPrivacy(), MaxLift()], ids=repr)
def test_a_budget_out_of_reach_under_next_to_no_leakage_is_refused_with_a_proof(measure):
    """Three joints, under which only constant releases leak nothing: an interval about 0 was all that was said."""
    joints = np.stack([drawn_joint([3, k], 3, 4) for k in range(3)])
    problem = jp.DistortionProblem(joints, 1.0 - np.eye(4, 5), budget=0.3, limits=[(measure, 1e-9)])
    with pytest.raises(jp.InfeasibleError, match="exceeded by at least") as error:
        jp.solve(problem)
    constants = max(1.0 - joints.sum(axis=1).min(axis=0))
    assert 0 < error.value.proof["bound"] <= constants - 0.3


def test_the_simplex_method_by_name_where_its_tolerance_sees_no_slack():
    """HiGHS calls the program infeasible, which ended in its own error."""
    joint = np.array([[157.0, 74, 232, 74], [26, 114, 89, 233]])
    measure = MaxLift()
    problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.hamming(4), leakage_budget=1e-10, leakage=measure)
    proved(problem, "linear-program")


@pytest.mark.parametrize("shape", [(5, 4), (2, 6)])
def test_next_to_no_total_variation_is_certified(shape):
    joint = drawn_joint([13, *shape], *shape, 0.3)
    measure = FInformation(TotalVariation())
    problem = jp.DistortionProblem(joint, jp.distortion.hamming(shape[1]), leakage_budget=1e-10, leakage=measure)
    assert proved(problem).leakage <= 1e-10 * (1 + 1e-5)
