"""The judge of the benchmarks: known values, repair, refusal, and that nobody gains by breaking a limit."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

import jaxpriv as jp
from benchmarks.limits import LIMITS
from benchmarks.objective import (
    CurveObjective,
    DistortionObjective,
    FunnelObjective,
    LimitObjective,
    Refused,
    as_mechanism,
)
from tests.cases import distances, raised, value_of

JOINT = np.array([[0.3, 0.1, 0.05], [0.05, 0.1, 0.4]])
TABLE = distances(3)
BUDGET = 0.2


@pytest.fixture(scope="module")
def bound() -> float:
    """A proved lower bound on every feasible mechanism's leakage."""
    return float(
        jp.solve(jp.DistortionProblem(JOINT, TABLE, budget=BUDGET), solver="mirror-descent", tol=1e-9).lower_bound
    )


def test_identity_leaks_the_whole_information():
    score = DistortionObjective(JOINT, TABLE, budget=BUDGET).score(np.eye(3))
    assert score.values[0] == pytest.approx(float(jp.probability.mutual_information(JOINT)), rel=1e-14)
    assert score.repair == 0


def test_a_multiplier_charges_the_distortion():
    constant = np.tile([0.0, 1.0, 0.0], (3, 1))
    used = float(JOINT.sum(axis=0) @ TABLE[:, 1])
    assert DistortionObjective(JOINT, TABLE, multiplier=2.0).score(constant).values == pytest.approx((2 * used,))


def test_breaking_the_budget_gains_nothing(bound):
    # Leaks nothing, at a distortion far over the budget: what is judged is its repaired version.
    constant = np.tile([0.0, 1.0, 0.0], (3, 1))
    score = DistortionObjective(JOINT, TABLE, budget=BUDGET).score(constant)
    assert score.repair == pytest.approx(1 - BUDGET / float(JOINT.sum(axis=0) @ TABLE[:, 1]))
    assert score.values[0] >= bound > 0


@given(seed=st.integers(0, 2**32 - 1), sharpness=st.floats(0.01, 10))
def test_no_matrix_is_valued_below_the_certified_bound(bound, seed, sharpness):
    rng = np.random.default_rng(seed)
    candidate = rng.normal(size=(3, 3)) + sharpness * (rng.random((3, 1)) + np.eye(3))
    objective = DistortionObjective(JOINT, TABLE, budget=BUDGET)
    try:
        score = objective.score(candidate)
    except Refused:
        assert (candidate <= 0).all(axis=1).any()
    else:
        assert score.values[0] >= bound - 1e-15


LIMITED = {name: kind(JOINT, 0.1) for name, kind in LIMITS.items()}


MEASURES = {
    "max-information": jp.leakage.MaxInformation(),
    "max-lift": jp.leakage.MaxLift(),
    "local-dp": jp.leakage.LocalDifferentialPrivacy(),
    "maximal-leakage": jp.leakage.MaximalLeakage(),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_judge_and_the_library_measure_the_same(name):
    mechanism = np.random.default_rng(3).dirichlet(np.ones(4), 3)
    measured = value_of(MEASURES[name], JOINT, mechanism)
    assert LIMITED[name].leaked(mechanism) == pytest.approx(measured, rel=1e-12)


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_met_after_the_repair_and_what_meets_it_stays(name):
    limit = LIMITED[name]
    repaired_mechanism, share = limit.repaired(np.eye(3), cheapest=1)
    assert 0 < share < 1
    assert limit.leaked(repaired_mechanism) <= limit.value * (1 + 1e-9)
    assert_allclose(repaired_mechanism.sum(axis=1), 1, rtol=1e-14)
    constant = np.tile([0.2, 0.5, 0.3], (3, 1))
    assert limit.leaked(constant) == pytest.approx(0, abs=1e-14)
    same, none = limit.repaired(constant, cheapest=1)
    assert none <= 1e-14
    assert_allclose(same, constant, rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), sharpness=st.floats(0.01, 10))
def test_whatever_a_solver_returns_is_valued_inside_the_limit(seed, sharpness):
    rng = np.random.default_rng(seed)
    candidate = rng.random((3, 3)) + sharpness * np.eye(3)
    weighted = JOINT.sum(axis=0)[:, None] * TABLE
    for limit in LIMITED.values():
        repaired_mechanism, share = limit.repaired(as_mechanism(candidate, (3, 3)), cheapest=1)
        assert limit.leaked(repaired_mechanism) <= limit.value * (1 + 1e-12) + 1e-15
        score = LimitObjective(TABLE, limit).score(candidate)
        assert score.repair == share
        assert score.values[0] == pytest.approx(float((weighted * repaired_mechanism).sum()), rel=1e-14)


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (np.full((3, 3), np.nan), "not finite"),
        (np.where(np.eye(3) > 0, np.inf, 0.0), "not finite"),
        (np.eye(2), "shape"),
        (np.zeros((3, 3)), "without mass"),
        (-np.eye(3), "without mass"),
    ],
)
def test_what_is_no_mechanism_is_refused(candidate, reason):
    with raised(Refused, reason):
        DistortionObjective(JOINT, TABLE, budget=BUDGET).score(candidate)


def test_a_funnel_that_discloses_too_little_is_mixed_with_x_itself():
    entropy = -float((JOINT.sum(axis=0) * np.log(JOINT.sum(axis=0))).sum())
    objective = FunnelObjective(JOINT, 0.4 * entropy)
    score = objective.score(np.ones((3, 1)))
    assert score.repair == pytest.approx(0.4)
    assert score.values[0] == pytest.approx(0.4 * float(jp.probability.mutual_information(JOINT)), rel=1e-12)
    assert objective.score(np.hstack([0.3 * np.eye(3), 0.7 * np.eye(3)])).repair == 0  # any number of outputs
    with pytest.raises(Refused):
        objective.score(np.ones((2, 3)))


def test_a_curve_is_judged_point_by_point():
    points = tuple(DistortionObjective(JOINT, TABLE, budget=b) for b in (0.1, 0.5))
    constant = np.tile([0.0, 1.0, 0.0], (3, 1))
    score = CurveObjective(points).score(np.stack([np.eye(3), constant]))
    assert score.values == (points[0].score(np.eye(3)).values[0], points[1].score(constant).values[0])
    assert score.repair == points[1].score(constant).repair
    with raised(Refused, "1 mechanisms for 2 points"):
        CurveObjective(points).score(np.eye(3)[None])
