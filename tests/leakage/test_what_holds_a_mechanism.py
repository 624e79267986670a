"""`evaluate` and `report` take P(y|x) and everything that holds one; the bottleneck takes beta."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.problems import BottleneckProblem
from jaxpriv.statistics.watchdog.exact import watchdog
from tests.cases import assert_refused, value_of

JOINT = np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.3]])


def test_a_solution_is_measured_by_its_mechanism():
    solution = jp.solve(jp.DistortionProblem(JOINT, 1 - np.eye(3), budget=0.2))
    for measure in (lk.MutualInformation(), lk.MaximalLeakage(), lk.Lift()):
        assert lk.evaluate(measure, JOINT, solution) == lk.evaluate(measure, JOINT, np.asarray(solution.mechanism))
    assert value_of(lk.MutualInformation(), JOINT, solution) == pytest.approx(solution.leakage, abs=1e-12)
    assert lk.report(JOINT, solution) == lk.report(JOINT, np.asarray(solution.mechanism))


def test_a_watchdog_is_measured_by_its_mechanism():
    found = watchdog(JOINT, epsilon=0.3)
    assert 0 < found.released.sum() < 3
    assert value_of(lk.Lift(), JOINT, found) == pytest.approx(found.leakage, abs=1e-12)


def test_what_holds_a_mechanism_of_another_joint_is_refused():
    assert_refused("mechanism has 3 rows", lk.evaluate, lk.Lift(), np.full((2, 4), 0.125), watchdog(JOINT, epsilon=0.3))


@pytest.mark.parametrize("beta", [1.5, 4.0, 20.0])
def test_beta_is_the_usual_lagrangian(beta):
    problem = BottleneckProblem(JOINT, beta=beta)
    assert (problem.form, problem.multiplier) == ("multiplier", 1 / beta)
    found = jp.solve(problem)
    # I(X;Y) - beta I(S;Y) is at its least: neither X itself nor a constant is below what is proved.
    reached = found.disclosure - beta * found.leakage
    assert reached == pytest.approx(-beta * found.value, abs=1e-9)
    whole = value_of(lk.MutualInformation(), np.diag(JOINT.sum(axis=0)), np.eye(3))
    shown = value_of(lk.MutualInformation(), JOINT, np.eye(3))
    assert -beta * found.upper_bound <= min(0.0, whole - beta * shown) + 1e-9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beta": 0.0}, "beta must be a finite number > 0"),
        ({"beta": -1.0}, "beta must be"),
        ({"beta": np.nan}, "beta"),
        ({"beta": 2.0, "multiplier": 0.5}, "exactly one of disclosure, relevance, multiplier and beta"),
    ],
)
def test_a_wrong_beta_is_named(wrong, message):
    assert_refused(message, BottleneckProblem, JOINT, **wrong)
