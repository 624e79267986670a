"""A relative tolerance ends a solve, also of a measure that is the logarithm of a sum over the outputs."""

import jax
import numpy as np
import pytest

import jaxpriv as jp
import jaxpriv.leakage as lk
from tests.cases import distances, drawn_joint

JOINT = drawn_joint(3, 4, 9)
COSTS = distances(9)
# Also two joints and two budgets.
TWO = np.stack([JOINT, drawn_joint(4, 4, 9)])
MEASURES = [
    lk.MutualInformation(),
    lk.Sibson(0.4),
    lk.Sibson(2.0),
    lk.Sibson(30.0),
    lk.Arimoto(3.0),
    lk.MaximalLeakage(),
]
CASES = [
    pytest.param(
        solver,
        jp.DistortionProblem(JOINT, COSTS, budget=0.4, leakage=measure),
        id=f"{measure.label}-{solver}",
        marks=pytest.mark.thorough if solver == "hybrid-gradient" and measure not in MEASURES[2::2] else (),
    )
    for measure in MEASURES
    for solver in ("interior-point", "hybrid-gradient")
]
CASES.append(
    pytest.param(
        "interior-point",
        jp.DistortionProblem(TWO, [COSTS, COSTS**0.5], budget=[0.4, 0.3], leakage=lk.Sibson(2.0)),
        id="two joints",
    )
)
LEAST = 1e-13  # an absolute tolerance that ends nothing


@pytest.mark.parametrize(("solver", "problem"), CASES)
def test_it_ends_a_solve_as_soon_as_it_is_met(solver, problem):
    found = [jp.solve(problem, solver, tol=LEAST, rtol=rtol) for rtol in (1e-1, 1e-3, 1e-6)]
    for rtol, one in zip((1e-1, 1e-3, 1e-6), found, strict=True):
        assert one.status == "optimal"
        assert 0.0 <= one.gap <= rtol * one.value
    # An optimum is known only to the gap, so that values agree to no more than that.
    assert found[-1].lower_bound <= found[0].value <= found[-1].value + found[0].gap
    assert found[0].steps < found[1].steps < found[2].steps


def test_it_ends_the_problems_of_a_list():
    of_order = [jp.DistortionProblem(JOINT, COSTS, budget=b, leakage=lk.Sibson(2.0)) for b in (0.1, 0.4, 0.8)]
    loose, close = (jp.solve_many(of_order, tol=LEAST, rtol=rtol) for rtol in (1e-2, 1e-6))
    for one, other in zip(loose, close, strict=True):
        assert one.gap <= 1e-2 * one.value
        assert other.gap <= 1e-6 * other.value
        assert one.steps < other.steps


def test_it_ends_a_solve_in_a_trace():
    def steps(rtol):
        problem = jp.DistortionProblem(JOINT, COSTS, budget=0.4, leakage=lk.Sibson(2.0))
        found = jp.solve(problem, "hybrid-gradient", tol=LEAST, rtol=rtol)
        return found.gap / found.value, found.steps

    run = jax.jit(steps)
    (loose, few), (close, many) = run(1e-2), run(1e-6)
    assert loose <= 1e-2
    assert close <= 1e-6
    assert few < many
