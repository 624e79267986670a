"""Instances of the robustness runs: valid, of the kind that they say, and the same wherever they are drawn."""

import numpy as np
import pytest

import jaxpriv as jp
from benchmarks import robustness, robustness_faces, robustness_losses
from benchmarks.robustness_worst import KINDS, SHAPES, degenerate_joint, instances


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_joints_are_of_their_kind(kind, shape):
    if kind == "S = X" and shape[0] != shape[1]:
        pytest.skip("needs a square shape")
    joint = degenerate_joint(kind, shape[:2], np.random.default_rng(3))
    assert joint.sum() == pytest.approx(1, rel=1e-12)
    assert (joint >= 0).all()
    if kind == "X = f(S)":
        assert ((joint > 0).sum(axis=1) == 1).all()
    if kind == "S = f(X)":
        assert ((joint > 0).sum(axis=0) == 1).all()
    if kind == "rank one":
        assert np.linalg.matrix_rank(joint, tol=1e-12) == 1
    if kind == "zero p_x, p_s":
        assert (joint.sum(axis=0) == 0).any()
        assert (joint.sum(axis=1) == 0).any()


def test_an_instance_is_the_same_on_its_own():
    *_, last = instances(4, seed=7)
    (alone,) = instances(1, seed=7, first=3)
    np.testing.assert_array_equal(last.problem.joints, alone.problem.joints)
    assert last.problem.leakage_budget == alone.problem.leakage_budget
    assert "--seed 7 --first 3" in alone.label


@pytest.mark.parametrize("number", [692, 863])
def test_budgets_next_to_the_least_distortion_are_met(number):
    """Budgets of 4e-7 and 8e-7, where a release that leaks nothing costs 1e8 times as much."""
    *_, last = robustness.instances(number + 1, 0)
    solution = jp.solve(last.problem, solver="interior-point", tol=1e-6)
    assert solution.status == "optimal"
    assert jp.certify(last.problem, solution).violation <= 0


def test_every_measure_has_its_turn_on_a_face_and_a_number_of_its_own():
    drawn = list(robustness_faces.instances(len(robustness_faces.MEASURES), 5))
    assert [one.family for one in drawn] == list(robustness_faces.MEASURES)
    (again,) = robustness_faces.instances(1, 5, first=3)
    assert (again.problem.joints == drawn[3].problem.joints).all()


def test_a_loss_whose_announcements_leave_symbols_out_is_certified():
    """One of the problems with users' losses, whose set has kinks: a cube, under a leakage budget."""
    solution = jp.solve(robustness_losses.instance(0, 7).problem, tol=1e-6)
    assert solution.status == "optimal", solution.gap
    assert solution.gap <= 1e-6
