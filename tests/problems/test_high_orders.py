"""High orders: rules fall as the power a - 1 of what ratios fall by, to far below rounding. Orders near 0 and 1."""

import numpy as np
import pytest

import jaxpriv as jp
import jaxpriv.leakage as lk
from tests.cases import distances, drawn_joint

COSTS = distances(7)


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


@pytest.mark.parametrize("order", [1e-300, 1e-4, 1e-3, 9e-3, 1 - 1e-9, 1 - 1e-16, 1 + 1e-9, 1 + 1e-12])
@pytest.mark.parametrize("family", [lk.Sibson, lk.Arimoto])
def test_orders_without_digits_are_evaluated_and_refused_as_problems(family, order):
    """Sums of order 0.001 of Arimoto's overflowed: 0.69 nats were called optimal where 8e-7 nats are."""
    (problem, *_) = problems(1.0, family(order))
    with pytest.raises(jp.InputError, match=r"^leakage: sums over the outputs have no digits of an order below 0\.01"):
        jp.solve(problem)
    assert 0 <= problem.leakage(problem.joints[0], np.eye(7)) < 1.0


@pytest.mark.parametrize("order", [0.01, 0.1, 3.0, 1e5, 1e300])
def test_arimoto_is_sibson_of_the_prior_of_that_order_for_every_prior(order):
    """Without an overflow of sums of low orders (3000 symbols: 3000^{1/a}), or an underflow of sums of high ones."""
    joint = drawn_joint(3, 1000, 3)
    prior = joint.sum(axis=1)
    problem = jp.DistortionProblem(joint, 1.0 - np.eye(3), budget=0.4, leakage=lk.Arimoto(order))
    found = jp.solve(problem, max_steps=30)
    value = lk.Arimoto(order)(joint, found.mechanism)
    assert found.lower_bound <= value + 1e-9
    assert found.value == pytest.approx(value, abs=1e-9)
    if order < 700:
        tilted = (prior / prior.max()) ** order
        tilted = joint / prior[:, None] * (tilted / tilted.sum())[:, None]
        assert value == pytest.approx(lk.Sibson(order)(tilted, found.mechanism), abs=1e-12)


@pytest.mark.parametrize("family", [lk.Sibson, lk.Arimoto])
def test_no_value_of_low_orders_exceeds_the_logarithm_of_the_private_symbols(family):
    """The sum of the identity is 10^(1 - 1/a), far below the rounding of sums: 6.98 nats of at most 2.30 at 0.01."""
    problem = jp.DistortionProblem(np.eye(10) / 10, 1.0 - np.eye(10), budget=0.0, leakage=family(0.01))
    found = jp.solve(problem)
    assert found.lower_bound <= found.value == pytest.approx(np.log(10))
