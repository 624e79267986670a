"""Least leakage, then least distortion: no worse than the plain problem, and within the tolerance."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.errors import InfeasibleError
from jaxpriv.leakage import (
    LocalDifferentialPrivacy,
    MaximalLeakage,
    MaxInformation,
    MaxLift,
    MetricPrivacy,
    MutualInformation,
    Sibson,
)
from tests.cases import assert_refused, distances, drawn_joint

COSTS = distances(3)
JOINT = drawn_joint(0, 2, 3)
MEASURES = [MutualInformation(), MaximalLeakage(), MaxLift(), Sibson(2.0), LocalDifferentialPrivacy()]


def lexicographic(joint=JOINT, costs=COSTS, budget=0.2, tolerance=1e-3, **given):
    return jp.LexicographicProblem(jp.DistortionProblem(joint, costs, budget=budget, **given), tolerance=tolerance)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: type(one).__name__)
def test_data_that_say_nothing_are_released_as_they_are(measure):
    joint = np.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.7])  # of rank one up to rounding
    solution = jp.solve(lexicographic(joint, budget=1.0, tolerance=0.0, leakage=measure))
    assert solution.status == "optimal"
    assert solution.value == 0
    assert solution.distortion == [0]


def test_the_least_of_several_joints_and_of_further_limits():
    joints = np.stack([JOINT, JOINT[::-1]])
    problem = lexicographic(joints, budget=0.5, leakage=MaxLift(), limits=[(MutualInformation(), 0.01)])
    solution = jp.solve(problem)
    assert solution.status == "optimal"
    assert jp.certify(problem, solution).valid
    assert all(MutualInformation()(joint, solution.mechanism) <= 0.01 + 1e-12 for joint in joints)


@pytest.mark.parametrize("seed", [51, 201])
def test_the_bound_holds_for_what_certify_measures_of_the_first_step(seed):
    """Constant releases leak 1e-16 by rounding, taken for 0: at prices of 1e15 `certify` found gaps of .03 and .14."""
    rng = np.random.default_rng(seed)
    problem = lexicographic(drawn_joint(rng, 2, 3), rng.random((3, 2)).round(2), 1.0, 0.0, leakage=MaxInformation())
    found = jp.certify(problem, jp.solve(problem))
    assert found.agrees
    assert found.gap <= 1e-6


def test_a_claim_of_less_leakage_than_its_mechanism_has_is_found():
    problem = lexicographic()
    solution = jp.solve(problem)
    first = solution.least_leakage
    lowered = dataclasses.replace(first, value=first.value / 2)
    found = jp.certify(problem, dataclasses.replace(solution, least_leakage=lowered))
    assert found.valid
    assert not found.agrees
    assert "least_leakage.value" in found.message
    exceeding = dataclasses.replace(first, mechanism=np.full((3, 3), 1 / 3))
    assert not jp.certify(problem, dataclasses.replace(solution, least_leakage=exceeding)).valid
    assert_refused(
        "LexicographicProblem itself", jp.certify, problem, dataclasses.replace(solution, least_leakage=None)
    )


def test_without_a_mechanism_there_is_no_bound_but_infinity():
    problem = lexicographic(costs=COSTS + 1.0)
    with pytest.raises(InfeasibleError):
        jp.solve(problem)
    solution = jp.solve(problem, throw=False)
    assert (solution.status, solution.value, solution.lower_bound) == ("infeasible", np.inf, np.inf)


def test_a_time_limit_leaves_a_valid_interval():
    problem = lexicographic()
    solution = jp.solve(problem, time_limit=0.0)
    assert solution.status == "best_known"
    assert jp.certify(problem, solution).valid


def test_what_it_does_not_take_is_refused_with_a_reason():
    plain = jp.DistortionProblem(JOINT, COSTS, leakage_budget=0.1)
    assert_refused("with a budget", jp.LexicographicProblem, plain, tolerance=0.1)
    assert_refused("with a budget", jp.LexicographicProblem, jp.FunnelProblem(JOINT, disclosure=0.1), tolerance=0.1)
    assert_refused("several distortions", lexicographic, costs=np.stack([COSTS, COSTS]), budget=[1.0, 1.0])
    assert_refused("tolerance", lexicographic, tolerance=-1.0)
    assert_refused("leakage_budget", jp.solve, lexicographic(leakage=MetricPrivacy(1.0 - np.eye(2))))
    assert_refused("outside of jit", jax.jit(lambda budget: jp.solve(lexicographic(budget=budget)).value), 0.2)
    assert_refused("LexicographicProblem", jp.frontier, lexicographic(), budgets=[0.1])
