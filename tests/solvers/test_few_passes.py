"""In how few passes the proximal augmented Lagrangian method comes to six digits."""

import numpy as np
import pytest

import jaxpriv as jp
from benchmarks.first_order import CountedNewtons
from jaxpriv import leakage as lk
from tests.cases import assert_one_optimum, assert_proved, distances, drawn_joint


# Of 16 ordered symbols and 4 private ones, a joint with structure (four bumps) and one without, to a gap of 1e-6.
def bumps():
    rng, place = np.random.default_rng(0), (np.arange(16) + 0.5) / 16
    centre, width, mass = rng.uniform(size=4), rng.uniform(0.05, 0.2, 4), rng.dirichlet(np.ones(4))
    joint = mass[:, None] * np.exp(-0.5 * ((place - centre[:, None]) / width[:, None]) ** 2) + 1e-4 / 64
    return joint / joint.sum()


JOINTS = {"bumps": bumps(), "random": drawn_joint(0, 4, 16)}
# Passes: about 1.15 times those that were counted, for bumps and for the random joint.
PASSES = {
    "maximal leakage": (lk.MaximalLeakage(), None, {"bumps": 510, "random": 700}),
    "total variation": (lk.FInformation(lk.TotalVariation()), None, {"bumps": 370, "random": 1220}),
    "max-lift": (lk.MaxLift(), 0.3, {"bumps": 610, "random": 900}),
    "lift": (lk.Lift(), 0.3, {"bumps": 890, "random": 1500}),
    "local privacy": (lk.LocalDifferentialPrivacy(), 0.5, {"bumps": 1010, "random": 1400}),
}


@pytest.mark.parametrize("name", PASSES)
def test_few_passes_to_six_digits(name):
    measure, limit, most = PASSES[name]
    costs = distances(16) / 16
    for kind, joint in JOINTS.items():
        form = {"leakage_budget": limit} if limit else {"budget": 0.12 * (joint.sum(axis=0) @ costs).min()}
        problem = jp.DistortionProblem(joint, costs, leakage=measure, **form)
        solution = jp.solve(problem, CountedNewtons(), tol=1e-14, rtol=1e-6)
        assert_proved(problem, solution, 1e-6)
        assert_one_optimum(solution, jp.solve(problem, "linear-program"), 1e-10)
        assert CountedNewtons.passes[-1] <= most[kind], (name, kind)


def test_few_passes_of_mutual_information_where_many_outputs_hardly_differ():
    """At 64 symbols, 16 bumps and a multiplier; `hybrid-gradient` takes 1,620."""
    rng, place = np.random.default_rng(0), (np.arange(64) + 0.5) / 64
    centre, width, mass = rng.uniform(size=16), rng.uniform(0.05, 0.2, 16), rng.dirichlet(np.ones(16))
    joint = mass[:, None] * np.exp(-0.5 * ((place - centre[:, None]) / width[:, None]) ** 2) + 1e-4 / 1024
    problem = jp.DistortionProblem(joint / joint.sum(), distances(64) / 64, multiplier=1.0)
    solution = jp.solve(problem, CountedNewtons(), tol=1e-14, rtol=1e-6)
    assert_proved(problem, solution, 1e-6)
    assert_one_optimum(solution, jp.solve(problem, tol=1e-8), 1e-10)
    assert CountedNewtons.passes[-1] <= 800
