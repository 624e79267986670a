"""Sibson's information of high orders: rules fall as the power a - 1 of what ratios fall by, to far below rounding."""

import numpy as np
import pytest

import jaxpriv as jp
import jaxpriv.leakage as lk
from tests.cases import drawn_joint

COSTS = np.abs(np.subtract.outer(np.arange(7.0), np.arange(7.0)))


def joints(concentration):
    """Dense ones, or with symbols that nearly exclude one another."""
    for seed in range(6):
        yield drawn_joint([seed, 5], 4, 7, concentration)


def problems(concentration, measure, share=0.4):
    return [
        jp.DistortionProblem(joint, COSTS, budget=share * (joint.sum(axis=0) @ COSTS).min(), leakage=measure)
        for joint in joints(concentration)
    ]


@pytest.mark.parametrize(("concentration", "orders"), [(1.0, (4.0, 8.0, 16.0, 30.0)), (0.2, (4.0, 8.0, 16.0))])
def test_the_interior_point_alone_certifies_them_and_optima_rise_with_the_order(concentration, orders):
    below = jp.solve_many(problems(concentration, lk.Sibson(2.0)))
    for measure in [*map(lk.Sibson, orders), lk.MaximalLeakage()]:
        found = jp.solve_many(problems(concentration, measure), solver="interior-point")
        for one, lower in zip(found, below, strict=True):
            assert one.status == "optimal"
            assert one.lower_bound >= lower.lower_bound - lower.gap - one.gap
            assert one.value <= one.lower_bound + 1e-6
        below = found


def solved(share, measure):
    """With S and X independent but for this share, where all ratios are near one."""
    joint = next(joints(1.0))
    weak = share * joint + (1 - share) * np.outer(joint.sum(axis=1), joint.sum(axis=0))
    budget = 0.3 * (weak.sum(axis=0) @ COSTS).min()
    problem = jp.DistortionProblem(weak, COSTS, budget=budget, leakage=measure)
    return jp.solve(problem, "interior-point", tol=1e-13, rtol=1e-3)


def test_a_weak_dependence_keeps_its_digits():
    """Rules count from that of the prior: of small rates I_a is about a I_1."""
    order = 24.0
    high, information = (solved(1e-4, measure) for measure in (lk.Sibson(order), lk.MutualInformation()))
    assert high.status == information.status == "optimal"
    assert high.value == pytest.approx(order * information.value, rel=1e-2)


@pytest.mark.parametrize("order", [20.0, 100.0, 400.0])
def test_a_weak_dependence_takes_few_steps(order):
    """Rules near one another move on lines: 25 to 200 steps, without a certificate at order 400, by their roots."""
    found = solved(0.01, lk.Sibson(order))
    assert found.status == "optimal"
    assert found.steps <= 40
