"""Leakage envelopes: published values, the linear program over events, limits by thresholds, and designs."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_refused, distances, drawn_joint, raised, value_of

PRIOR = np.array([0.5, 0.3, 0.2])
ROWS = np.array([[0.95, 0.04, 0.01], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]])
VALUES = {0.0: 1.41161217, 0.1: 1.41161217, 0.3: 1.05382053, 0.6: 0.47343809, 1.0: 0.0}


def envelope(delta, joint, mechanism):
    return value_of(lk.LeakageEnvelope(delta), joint, mechanism)


def by_events(delta, joint, mechanism):
    """The largest P(E|s)/P(E) over randomised events of mass delta: larger ones have no larger ratio."""
    masses, given = joint.sum(axis=0) @ mechanism, joint / joint.sum(axis=1, keepdims=True) @ mechanism
    best = [linprog(-row, A_eq=masses[None], b_eq=[delta], bounds=(0, 1)).fun for row in given]
    return math.log(max(-value for value in best) / delta)


@pytest.mark.parametrize("delta", VALUES)
def test_its_values(delta):
    assert envelope(delta, np.diag(PRIOR), ROWS) == pytest.approx(VALUES[delta], abs=1e-8)


def test_it_is_the_linear_program_over_events_and_does_not_rise_under_post_processing():
    for seed in range(5):
        joint = random_joint(seed, 3, 4)
        mechanism = np.random.default_rng(seed).dirichlet(np.full(6, 0.3), 4)
        merged = np.column_stack([mechanism[:, :2].sum(axis=1), mechanism[:, 2:]])
        for delta in (0.05, 0.4):
            found = envelope(delta, joint, mechanism)
            assert found == pytest.approx(by_events(delta, joint, mechanism), abs=1e-9)
            assert envelope(delta, joint, merged) <= found + 1e-12
        assert envelope(0.0, joint, mechanism) == pytest.approx(value_of(lk.MaxLift(), joint, mechanism))


def problem(delta, eps, seed=0, shape=(2, 3)):
    joint = drawn_joint(seed, *shape)
    table = distances(shape[1])
    return jp.DistortionProblem(joint, table, leakage=lk.LeakageEnvelope(delta), leakage_budget=eps)


def within(given, eps, thresholds, delta):
    """The same least distortion, as a convex program for given thresholds."""
    first, *others = lk.LeakageEnvelope(delta).limits(thresholds, eps)
    form = {"leakage": first[0], "leakage_budget": first[1], "limits": others}
    return jp.solve(jp.DistortionProblem(given.joints[0], np.asarray(given.entries()[0]), **form))


def test_a_design_is_within_its_limit_and_no_thresholds_give_a_better_one():
    delta, eps = 0.3, 0.2
    given = problem(delta, eps, seed=2)
    found = jp.extremal.envelope_design(given, tol=1e-3)
    assert found.status == "optimal"
    assert found.leakage <= eps
    assert envelope(delta, given.joints[0], found.mechanism) == pytest.approx(found.leakage, abs=1e-12)
    own = within(given, eps, found.thresholds, delta)
    assert own.value == pytest.approx(found.value, abs=1e-6)
    assert envelope(delta, given.joints[0], own.mechanism) <= eps + 1e-6
    for thresholds in np.random.default_rng(1).uniform(1.0, math.exp(eps), (3, 2)):
        assert within(given, eps, thresholds, delta).value >= found.lower_bound - 1e-7


@pytest.mark.parametrize(
    ("eps", "seed", "shape"), [(0.3, 0, (2, 3)), (0.05, 1, (2, 3)), (0.3, 7, (2, 3)), (0.3, 10, (3, 4))]
)
def test_at_mass_zero_the_design_is_that_of_max_lift(eps, seed, shape):
    """Outputs of the linear program whose mass is rounding had any lift: the result disclosed nothing.

    A row of it may sum to more than one by rounding: the rest of it was negative.
    """
    given = problem(0.0, eps, seed, shape)
    found = jp.extremal.envelope_design(given)
    expected = jp.solve(
        jp.DistortionProblem(given.joints[0], given.entries()[0], leakage=lk.MaxLift(), leakage_budget=eps)
    )
    assert found.value == pytest.approx(expected.value, abs=1e-6)
    assert found.gap <= 1e-6


@pytest.mark.parametrize(("delta", "eps"), [(0.0, 150.0), (0.5, 150.0), (1.0, 500.0)])
def test_a_limit_that_limits_nothing_costs_nothing(delta, eps):
    """The linear program of thresholds up to e^eps was refused by its solver."""
    design = jp.extremal.envelope_design(problem(delta, eps))
    assert design.value == pytest.approx(0.0, abs=1e-9)
    assert design.gap <= 1e-9


def test_a_limit_of_nothing_is_that_of_independent_releases():
    """The best one is not constant; beside it rounding was above the limit, and every such release was passed over."""
    given = jp.DistortionProblem(
        drawn_joint(0, 2, 3), distances(3), leakage=lk.LeakageEnvelope(0.2), leakage_budget=0.0
    )
    design = jp.extremal.envelope_design(given)
    nothing = jp.solve(jp.DistortionProblem(given.joints[0], given.entries()[0], leakage_budget=0.0))
    assert design.status == "optimal"
    assert design.leakage <= 1e-12
    assert design.value == pytest.approx(nothing.value, abs=1e-6)


def test_without_time_the_bound_is_that_of_the_cheapest_outputs():
    cut = jp.extremal.envelope_design(problem(0.2, 0.1), time_limit=1e-9)
    assert (cut.boxes, cut.lower_bound) == (0, 0.0)


def test_what_is_refused():
    with raised(jp.InfeasibleError, "leakage_budget -1 is below 0"):
        jp.extremal.envelope_design(problem(0.1, -1.0))
    assert_refused("delta", lk.LeakageEnvelope, 1.5)
    assert_refused(r"leakage: .*envelope_design", jp.solve, problem(0.1, 0.3))
    assert_refused(r"thresholds\[1\]", lk.LeakageEnvelope(0.1).limits, [1.0, 2.0], 0.3)
    assert_refused(
        "LeakageEnvelope",
        jp.extremal.envelope_design,
        jp.DistortionProblem(np.eye(2) / 2, 1 - np.eye(2), leakage_budget=0.3),
    )
    limits = [(lk.HockeyStick(2, 1.0), 0.1)]
    assert_refused("symbol 2", jp.solve, jp.DistortionProblem(np.eye(2) / 2, 1 - np.eye(2), budget=0.3, limits=limits))
    assert_refused("thresholds has 0 dim", lk.LeakageEnvelope(0.1).limits, 1.0, 0.3)
    assert_refused("max_boxes", jp.extremal.envelope_design, problem(0.1, 0.3), max_boxes=math.nan)
    assert_refused("problem must be a DistortionProblem", jp.extremal.envelope_design, None)
