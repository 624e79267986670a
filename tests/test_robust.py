"""Least leakage under the worst prior of an L1 ball."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import solve_prior_ball
from jaxpriv.data.datasets import census
from tests.cases import distances, drawn_joint, refused
from tests.information import information

TOL = 1e-6
RADII = (0.0, 0.2, 2.0)


@pytest.fixture(scope="module")
def problem():
    joint = drawn_joint(3, 3, 3)
    return jp.DistortionProblem(joint, jp.distortion.absolute(np.arange(3)), budget=0.3)


@pytest.fixture(scope="module")
def solutions(problem):
    return {radius: solve_prior_ball(problem, radius, tol=TOL) for radius in RADII}


def leaked(prior, channel):
    return information(prior[:, None] * channel)


def priors_in_ball(centre, radius):
    """Random priors of the ball, many on its boundary."""
    rng = np.random.default_rng(0)
    away = rng.dirichlet(np.full(len(centre), 0.4), 4000) - centre
    size = np.abs(away).sum(axis=1)
    scale = np.minimum(1.0, radius / size) * np.where(rng.random(4000) < 0.5, 1.0, rng.random(4000))
    return centre + away * scale[:, None]


@pytest.mark.parametrize("radius", RADII)
def test_interval_and_budget_hold_for_every_prior_of_the_ball(problem, solutions, radius):
    solution = solutions[radius]
    assert solution.status == "optimal"
    assert 0 <= solution.gap <= TOL
    centre = problem.joints[0].sum(axis=1)
    given = problem.joints[0] / centre[:, None]
    channel = given @ solution.mechanism
    cost = given @ (problem.tables()[0] * solution.mechanism).sum(axis=1)
    for prior in [*priors_in_ball(centre, radius), solution.prior, *solution.priors]:
        assert np.abs(prior - centre).sum() <= radius + 1e-12
        assert leaked(prior, channel) <= solution.value
        assert prior @ cost <= 0.3 + 1e-12
    # The worst prior it names is one: the upper bound is attained.
    assert leaked(solution.prior, channel) >= solution.value - TOL
    assert solution.leakage == pytest.approx(leaked(centre, channel), abs=1e-12)


def test_no_ball_is_the_plain_problem(problem, solutions):
    plain = jp.solve(problem, tol=TOL)
    assert solutions[0.0].value == pytest.approx(float(plain.value), abs=TOL)


def test_the_lower_bound_is_that_of_its_own_priors(problem, solutions):
    """What the ball must leak is what these finitely many priors must: solved anew as a set of joints."""
    solution = solutions[0.2]
    centre = problem.joints[0].sum(axis=1)
    joints = solution.priors[:, :, None] * problem.joints[0] / centre[:, None]
    finite = jp.solve(jp.DistortionProblem(joints, problem.distortions[0], budget=0.3), tol=1e-7)
    assert finite.lower_bound <= solution.value


def test_census_at_a_radius_where_worst_priors_crowd():
    """Rounds of worst priors alone end here with dozens of nearly equal ones and a gap above the tolerance."""
    data = census()
    cost = jp.distortion.changed_attributes(data.useful_attributes)
    solution = solve_prior_ball(jp.DistortionProblem(data.joint, cost, budget=0.5), 0.2, tol=TOL)
    assert solution.status == "optimal"
    assert solution.rounds == 1
    assert len(solution.priors) == 2
    assert solution.lower_bound <= 0.41582 <= solution.value + TOL


@pytest.mark.parametrize("radius", [0.05, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["two budgets", "zeros", "rare symbols"])
def test_one_finite_program_is_enough(kind, radius):
    rng = np.random.default_rng(8)
    joint = drawn_joint(rng, 5, 8, 0.4)
    costs = [distances(8)]
    budget = [0.7]
    if kind == "two budgets":
        costs, budget = [*costs, rng.random((8, 8))], [1.2, 0.4]
    if kind == "zeros":
        joint[rng.random(joint.shape) < 0.3] = 0.0
        joint[:, 2] = 0.0
    if kind == "rare symbols":
        joint[1] *= 1e-10
    joint /= joint.sum()
    solution = solve_prior_ball(jp.DistortionProblem(joint, costs, budget=budget), radius, tol=TOL)
    assert solution.status == "optimal"
    assert solution.value > 10 * TOL
    assert solution.rounds == 1
    assert len(solution.priors) <= 1 + len(costs)


def poor(given, centre, radius, tables, budget, tol, clock):
    return np.full(tables[0].shape, 1.0 / 3.0), np.stack([centre, np.eye(3)[0]])  # the second one outside


def too_large(*_):
    raise jp.errors.ResourceError("the search for the worst prior needs more than there is")


@pytest.mark.parametrize("search", [poor, too_large])
def test_rounds_make_up_for_a_poor_start_or_none(problem, solutions, search, monkeypatch):
    """Whatever the search returns, the interval is proved, and the rounds of worst priors close it."""
    monkeypatch.setattr("jaxpriv.solving.robust.saddle_point", search)
    solution = solve_prior_ball(problem, 0.2, tol=TOL)
    assert solution.status == "optimal"
    assert solution.rounds > 1
    assert solution.value == pytest.approx(solutions[0.2].value, abs=TOL)
    centre = problem.joints[0].sum(axis=1)
    assert np.abs(solution.priors - centre).sum(axis=1).max() <= 0.2 + 1e-12


def test_worst_leakage_over_all_priors_is_the_capacity():
    """Radius 2: any prior. The capacity of the binary symmetric channel, where nothing may be changed."""
    noise = 0.1
    joint = np.diag([0.9, 0.1]) @ np.array([[1 - noise, noise], [noise, 1 - noise]])
    found = solve_prior_ball(jp.DistortionProblem(joint, 1.0 - np.eye(2), budget=0.0), 2.0, tol=1e-11)
    capacity = np.log(2) + noise * np.log(noise) + (1 - noise) * np.log(1 - noise)
    assert found.value == pytest.approx(capacity, abs=1e-11)
    assert found.lower_bound <= capacity <= found.value
    assert_allclose(found.prior, 0.5, atol=1e-5)


def test_symbols_without_mass_stay_without():
    joint = np.array([[0.3, 0.2], [0.0, 0.0], [0.1, 0.4]])
    solution = solve_prior_ball(jp.DistortionProblem(joint, 1.0 - np.eye(2), budget=1.0), 0.5)
    assert solution.value <= TOL  # a constant release meets the budget
    assert solution.prior[1] == 0


def test_a_budget_without_slack_is_not_tightened(problem):
    tight = jp.DistortionProblem(problem.joints[0], jp.distortion.absolute(np.arange(3)), budget=0.0)
    solution = solve_prior_ball(tight, 0.2, tol=TOL)
    assert solution.status == "optimal"
    assert_allclose(solution.mechanism, np.eye(3), atol=1e-12)


def test_a_budget_of_large_multiplier_at_a_small_tolerance():
    """A multiplier of 14 makes a tightening of 1e-9 worth more than the tolerance."""
    problem = jp.DistortionProblem(np.diag([0.4, 0.6]), 1.0 - np.eye(2), budget=1e-6)
    solution = solve_prior_ball(problem, 0.2, tol=1e-8)
    assert solution.status == "optimal"
    # The prior 1/2, 1/2 is in the ball: ln 2 less the entropy of the error.
    exact = np.log(2) + 1e-6 * np.log(1e-6) + (1 - 1e-6) * np.log1p(-1e-6)
    assert solution.lower_bound <= exact <= solution.value


def test_a_budget_that_no_mechanism_keeps_on_the_ball():
    joint = np.diag([0.5, 0.5])
    cost = np.array([[0.0, 0.0], [1.0, 1.0]])  # x = 1 costs one whatever is released
    with pytest.raises(jp.InfeasibleError):
        solve_prior_ball(jp.DistortionProblem(joint, cost, budget=0.6), 0.5)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"radius": -0.1}, "radius"),
        ({"radius": 2.1}, "radius"),
        ({"radius": np.nan}, "radius"),
        ({"radius": True}, "radius"),
        ({"radius": 0.1, "tol": 0.0}, "tol"),
        ({"radius": 0.1, "max_rounds": 0}, "max_rounds"),
        ({"radius": 0.1, "max_rounds": 2.5}, "max_rounds"),
    ],
)
def test_bad_numbers(problem, change, name):
    with refused(name):
        solve_prior_ball(problem, **change)


def test_other_forms_are_refused(problem):
    joint, cost = problem.joints[0], problem.distortions[0]
    for other in (
        jp.DistortionProblem(joint, cost, multiplier=1.0),
        jp.DistortionProblem(np.stack([joint, joint]), cost, budget=0.3),
        jp.DistortionProblem(joint, cost, budget=0.3, leakage=jp.leakage.MaxLift()),
    ):
        with refused("problem"):
            solve_prior_ball(other, 0.1)
