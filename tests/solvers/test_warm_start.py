"""The warm start of Theorem 2: a point the method may start from, and one much nearer to the solution."""

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.problems.statement import measured_program
from jaxpriv.solvers.conic.offer import no_offer, offered
from jaxpriv.solvers.conic.start import first_point
from jaxpriv.solvers.conic.system import rearrange, reduced_costs
from jaxpriv.solvers.conic.warm import has_warm_start, warm_point
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
    return warm_point(rearrange(program), 100, 0.3)


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
    assert has_warm_start(program)
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
        offered(data, point, no_offer(data.program)).gap
        for point in (warm_point(data, 100, 0.3), first_point(data, 0.3))
    )
    assert 0 < warm < 0.25 * cold


def test_only_a_relative_entropy_in_every_outcome_alone_has_one():
    entropy, average = (lk.MaxInformation(), 0.1), (lk.MutualInformation(), 0.1)
    assert has_warm_start(limited(JOINT, entropy))
    assert not has_warm_start(limited(JOINT, average))
    assert not has_warm_start(limited(JOINT, entropy, average))
    assert not has_warm_start(limited(JOINT, (lk.MaxLift(), 0.1)))
    assert not has_warm_start(limited(JOINT, (lk.MaxCostGain(lk.BrierLoss()), 0.1)))
    assert not has_warm_start(limited(np.stack([JOINT, JOINT[::-1]]), entropy))


def test_fewer_newton_steps_with_it_than_without():
    problem = jp.DistortionProblem(JOINT, DISTORTION, leakage_budget=0.2, leakage=lk.MaxInformation())
    cold = jp.solve(problem, solver=jp.ConicInteriorPoint(warm_steps=0))
    warm = jp.solve(problem, solver=jp.ConicInteriorPoint())
    assert cold.status == warm.status == "optimal"
    assert warm.value == pytest.approx(cold.value, abs=2e-6)
    assert warm.steps < cold.steps
