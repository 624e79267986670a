"""A limit on the released marginal: closed forms, a linear program stated otherwise, and what the limits must mean."""

import jax
import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp

RNG = np.random.default_rng(3)
JOINT = RNG.dirichlet(np.ones(12)).reshape(3, 4)
PRIOR = JOINT.sum(axis=0)
HAMMING = 1 - np.eye(4)
LINE = abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))


def of_outputs(solution):
    """The mechanism of Y alone."""
    inputs = len(solution.mechanism)
    return np.asarray(solution.mechanism).reshape(inputs, -1, inputs).sum(axis=1)


def entropy(*p):
    return -sum(q * np.log(q) for q in p)


@pytest.mark.parametrize(("p", "distance"), [(0.1, 0.05), (0.1, 0.1), (0.3, 0.05), (0.3, 0.1)])
def test_a_bit_with_its_own_marginal(p, distance):
    """Blau and Michaeli's perfect perception: R = 2 h(p) - H(1 - p - D/2, D/2, D/2, p - D/2)."""
    source, half = np.array([1 - p, p]), distance / 2
    solution = jp.solve(jp.with_marginal(source, 1 - np.eye(2), source, budget=distance))
    rate = 2 * entropy(p, 1 - p) - entropy(1 - p - half, half, half, p - half)
    assert solution.status == "optimal"
    assert solution.lower_bound <= rate + 1e-12
    assert solution.value == pytest.approx(rate, abs=1e-6)
    np.testing.assert_allclose(source @ of_outputs(solution), source, atol=1e-12)


@pytest.mark.parametrize(
    "leakage", [jp.leakage.MutualInformation(), jp.leakage.MaximalLeakage(), jp.leakage.MaxInformation()]
)
def test_total_variation_is_the_transport_cost_of_a_change(leakage):
    joint, hamming, target = JOINT[:, :3] / JOINT[:, :3].sum(), HAMMING[:3, :3], np.array([0.5, 0.3, 0.2])
    kept, moved = (
        jp.solve(jp.with_marginal(joint, hamming, target, budget=0.4, within=0.1, cost=cost, leakage=leakage))
        for cost in (None, hamming)
    )
    assert kept.status == moved.status == "optimal"
    assert kept.value == pytest.approx(moved.value, abs=2e-6)
    for one in (kept, moved):
        assert np.maximum(joint.sum(axis=0) @ of_outputs(one) - target, 0.0).sum() <= 0.1 + 1e-9
        own = jp.leakage.evaluate(leakage, joint, of_outputs(one)).value
        assert own <= one.value + 1e-9  # what the second part tells is never used


def transport(first, second, cost):
    size = len(first)
    sums = np.concatenate([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
    return linprog(cost.ravel(), A_eq=sums, b_eq=np.concatenate([first, second])).fun


def test_the_optimum_falls_as_more_is_allowed_and_the_distance_is_kept():
    allowed = (0.0, 0.05, 0.2, 5.0)
    found = [jp.solve(jp.with_marginal(JOINT, LINE, PRIOR, budget=0.4, within=v, cost=LINE)) for v in allowed]
    values = [float(one.value) for one in found]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1] + 1e-3
    for one, v in zip(found, allowed, strict=True):
        assert transport(PRIOR @ of_outputs(one), PRIOR, LINE) <= v + 1e-8
    assert values[-1] == pytest.approx(float(jp.solve(jp.DistortionProblem(JOINT, LINE, budget=0.4)).value), abs=2e-6)


def test_maximal_leakage_by_a_linear_program_of_its_own():
    """min sum_y t_y, W_xy <= t_y, with P_Y - q <= a, sum a <= v: no second part of the outputs."""
    source, target, size = PRIOR, np.array([0.1, 0.2, 0.3, 0.4]), 4
    cells, none = size * size, np.zeros((1, size))
    rows = np.concatenate(
        [
            np.hstack([np.eye(cells), -np.tile(np.eye(size), (size, 1)), np.zeros((cells, size))]),
            np.hstack([np.kron(source, np.eye(size)), np.zeros((size, size)), -np.eye(size)]),
            np.hstack([np.zeros((1, cells)), none, np.ones((1, size))]),
            np.hstack([(source[:, None] * HAMMING).reshape(1, -1), none, none]),
        ]
    )
    most = np.concatenate([np.zeros(cells), target, [0.05, 0.5]])
    sums = np.hstack([np.kron(np.eye(size), np.ones(size)), np.zeros((size, 2 * size))])
    least = linprog(np.repeat([0.0, 1.0, 0.0], [cells, size, size]), rows, most, sums, np.ones(size)).fun
    problem = jp.with_marginal(source, HAMMING, target, budget=0.5, within=0.05, leakage=jp.leakage.MaximalLeakage())
    assert jp.solve(problem).value == pytest.approx(np.log(least), abs=1e-6)


def test_weights_of_a_linear_program_are_exact_to_its_tolerance_only():
    """The budgets of all outputs together are constant: none may be ruled out because its weight is off by rounding."""
    rng = np.random.default_rng(12)
    joint = rng.dirichlet(np.ones(48)).reshape(4, 12)
    solution = jp.solve(jp.with_marginal(joint, 1 - np.eye(12), joint.sum(axis=0), budget=0.3))
    assert solution.status == "optimal"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"marginal": [0.5, 0.5]}, r"marginal has shape \(2,\)"),
        ({"marginal": [0.5, 0.5, 0.5, -0.5]}, r"marginal\[.*3\]"),
        ({"marginal": [0.5, 0.5, 0.5, 0.5]}, "marginal"),
        ({"within": -0.1}, "within must be"),
        ({"within": 0.1, "cost": np.ones((4, 3))}, r"cost has shape \(4, 3\)"),
        ({"within": 0.1, "cost": -HAMMING}, r"cost\[0, 1\] is negative"),
    ],
)
def test_bad_input_is_named(changed, message):
    with pytest.raises(jp.InputError, match=message):
        jp.with_marginal(**({"joint": JOINT, "distortion": HAMMING, "marginal": PRIOR, "budget": 0.3} | changed))


def test_one_output_with_a_cost_and_costs_in_a_trace():
    one = jp.with_marginal(JOINT, np.zeros((4, 1)), [1.0], budget=0.1, within=0.0, cost=[[0.0]])
    assert jp.solve(one).value == pytest.approx(0.0, abs=1e-9)

    def amounts(cost):
        return jp.with_marginal(JOINT, HAMMING, PRIOR, budget=0.3, within=0.1, cost=cost).entries()[-1]

    np.testing.assert_allclose(jax.jit(amounts)(2.0 * HAMMING), amounts(2.0 * HAMMING), rtol=1e-6)
