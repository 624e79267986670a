"""Starts after mirror steps: a point the method may start from, and one much nearer to the solution."""

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.program.lower import measured_program, reading
from jaxpriv.solvers.interior_point.candidate import improved, no_candidate
from jaxpriv.solvers.interior_point.start import (
    average_point,
    averaged,
    first_point,
    independent_point,
    limited_in_every_outcome,
    outcome_point,
)
from jaxpriv.solvers.interior_point.system import rearrange, reduced_costs, residuals
from jaxpriv.testing import random_joint

N = 12
DISTORTION = np.abs(np.subtract.outer(np.arange(N), np.arange(N))).astype(float)
JOINT = random_joint(5, N, N)
SYMMETRIC = np.diag(np.full(N, 1.0 / N))
LIMITED = {"maximum information": lk.MaxInformation(), "relative entropy": lk.RelativeEntropyPrivacy()}


def limited(joint, *limits):
    measure, most = limits[0]
    problem = jp.DistortionProblem(joint, DISTORTION, leakage=measure, leakage_budget=most)
    return measured_program(problem, limits)


@jax.jit
def start(program):
    return outcome_point(rearrange(program), 50, 0.3)


@pytest.fixture
def as_solvers_do():
    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.usefixtures("as_solvers_do")
@pytest.mark.parametrize("share", [1e-4, 0.1, 0.9])
@pytest.mark.parametrize("joint", [JOINT, SYMMETRIC], ids=["random", "S = X"])
@pytest.mark.parametrize("name", LIMITED)
def test_a_strictly_interior_point_on_the_exact_equation_of_its_reduced_costs(name, joint, share):
    whole = 4.0 if name == "relative entropy" else float(lk.evaluate(LIMITED[name], joint, np.eye(N)).value)
    program = limited(joint, (LIMITED[name], share * whole))
    assert limited_in_every_outcome(program)
    data, point = rearrange(program), start(program)
    for inside in (point.x, point.z, point.eta, point.sigma):
        assert np.isfinite(inside).all()
        assert np.asarray(inside).min() > 0
    np.testing.assert_allclose(point.x.sum(axis=0), 1, atol=1e-12)
    z = reduced_costs(data, point.k, point.eta, point.nu, point.price)
    np.testing.assert_allclose(point.z, z, rtol=1e-9)


@pytest.mark.usefixtures("as_solvers_do")
def test_its_gap_is_a_fraction_of_that_of_the_independent_release():
    whole = float(lk.evaluate(LIMITED["maximum information"], JOINT, np.eye(N)).value)
    data = rearrange(limited(JOINT, (LIMITED["maximum information"], 0.3 * whole)))
    warm, cold = (
        improved(data, point, residuals(data, point).edges, no_candidate(data.program)).gap
        for point in (outcome_point(data, 50, 0.3), independent_point(data, 0.3))
    )
    assert 0 < warm < 0.25 * cold


def test_only_a_relative_entropy_in_every_outcome_alone_is_one():
    entropy, average = (lk.MaxInformation(), 0.1), (lk.MutualInformation(), 0.1)
    assert limited_in_every_outcome(limited(JOINT, entropy))
    assert not limited_in_every_outcome(limited(JOINT, average))
    assert not limited_in_every_outcome(limited(JOINT, entropy, average))
    assert not limited_in_every_outcome(limited(JOINT, (lk.MaxLift(), 0.1)))
    assert not limited_in_every_outcome(limited(JOINT, (lk.MaxCostGain(lk.BrierLoss()), 0.1)))
    assert not limited_in_every_outcome(limited(np.stack([JOINT, JOINT[::-1]]), entropy))


def test_fewer_newton_steps_with_it_than_without():
    problem = jp.DistortionProblem(JOINT, DISTORTION, leakage_budget=0.2, leakage=lk.MaxInformation())
    cold = jp.solve(problem, solver=jp.InteriorPoint(warm_steps=0))
    warm = jp.solve(problem, solver=jp.InteriorPoint())
    assert cold.status == warm.status == "optimal"
    assert warm.value == pytest.approx(cold.value, abs=2e-6)
    assert warm.steps < cold.steps


SMOOTH = {
    "chi-squared": lk.FInformation(lk.ChiSquared()),
    "Hellinger": lk.FInformation(lk.SquaredHellinger()),
    "Jensen-Shannon": lk.FInformation(lk.JensenShannon()),
    "reverse KL": lk.FInformation(lk.ReverseKullbackLeibler()),
    "Sibson 1/2": lk.Sibson(0.5),
    "Sibson 2": lk.Sibson(2.0),
    "Arimoto 3": lk.Arimoto(3.0),
    "Brier": lk.AverageCostGain(lk.BrierLoss()),
    "logarithmic loss": lk.AverageCostGain(lk.LogLoss()),
}


def averages(joints, measure, share=0.3):
    joints = np.asarray(joints)
    useful = joints.shape[-1]
    x = np.linspace(0, 1, useful)
    table = abs(x[:, None] - x)
    spread = (joints.reshape(-1, *joints.shape[-2:]).sum(axis=1) @ table).min(axis=1).min()
    return jp.DistortionProblem(joints, table, budget=share * spread, leakage=measure)


@pytest.mark.parametrize("name", SMOOTH)
def test_at_most_eight_steps_to_the_least_smooth_average(name):
    """Ten to twenty from the independent release."""
    steps = []
    for seed, share in enumerate((0.3, 0.1, 0.03)):
        found = jp.solve(averages(random_joint(seed, 6, 6), SMOOTH[name], share))
        assert found.status == "optimal"
        steps.append(int(found.steps))
    assert max(steps) <= 8, steps


@pytest.mark.parametrize("name", ["chi-squared", "Sibson 1/2", "logarithmic loss"])
def test_rules_follow_the_prices_of_a_peak(name):
    """The price of one joint falls: 14 to 17 steps on average where its rules move with it and nothing is known."""
    steps = []
    for seed in range(3):
        joints = [random_joint(seed, 6, 6), random_joint(seed + 10, 6, 6)]
        found = jp.solve(averages(joints, SMOOTH[name], 0.1))
        assert found.status == "optimal"
        steps.append(int(found.steps))
    assert sum(steps) <= 30, steps


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", SMOOTH)
def test_averages_start_on_the_exact_equation_of_their_reduced_costs(name, count):
    joints = np.stack([random_joint(seed, 6, 6) for seed in range(count)])
    program = measured_program(averages(joints, SMOOTH[name]), ())
    assert averaged(program)
    data = rearrange(program)
    point = average_point(data, 50, 0.3)
    for inside in (point.x, point.z, point.price, point.slack):
        assert np.isfinite(inside).all()
        assert inside.min() > 0
    np.testing.assert_allclose(point.x.sum(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(point.z, reduced_costs(data, point.k, point.eta, point.nu, point.price), rtol=1e-9)
    assert (data.marks @ point.price) == pytest.approx(1.0 if count > 1 else 0.0, abs=1e-12)


def test_a_start_that_lost_its_way_is_not_used():
    """Symbols of tiny mass: the price of the budget grows without end in the mirror steps."""
    joint = random_joint(2, 6, 6) * 10.0 ** -np.arange(0, 12, 2.0)
    program = measured_program(averages(joint / joint.sum(), SMOOTH["Hellinger"], 0.01), ())
    data = rearrange(program)
    with np.errstate(all="ignore"):
        point = first_point(data, 0, 50)
    assert np.isfinite(point.x.sum() + point.z.sum() + point.price.sum())
    independent = independent_point(data, 1.0)
    assert (point.x * point.z).sum() <= (1.0 + 1e-12) * (independent.x * independent.z).sum()


def test_what_an_adversary_proves_who_has_learned_nothing():
    """The bound before the first step: that of the prior's rules, not minus infinity."""
    for measure in (SMOOTH["Sibson 2"], lk.MaximalLeakage(), lk.FInformation(lk.TotalVariation())):
        problem = averages(random_joint(0, 6, 6), measure)
        bound = float(no_candidate(measured_program(problem, ())).bound)
        scale, _ = reading(problem)
        assert scale.outer(bound) == pytest.approx(0.0, abs=1e-12)
