"""Additive noise: the law of Z by definition, its optimum by closed form, by brute force and by its conditions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.data.probability import mutual_information
from jaxpriv.testing import random_joint
from tests.cases import drawn_joint, raised
from tests.funnels.cases import information

JOINT = random_joint(0, 3, 5)
CYCLIC = np.minimum(np.arange(5.0), 5 - np.arange(5.0))


def table_of(problem, noise, offsets=None):
    """P(y|x), one event at a time."""
    inputs = problem.joint.shape[1]
    low = 0 if offsets is None else min(offsets)
    table = np.zeros((inputs, problem.outputs))
    for x in range(inputs):
        for z, mass in enumerate(noise):
            y = (x + z) % inputs if offsets is None else x + offsets[z] - low
            table[x, y] += mass
    return table


def problem_on(offsets, budget):
    """The cost of each z and the problem."""
    cost = CYCLIC if offsets is None else np.abs(offsets).astype(float)
    return cost, jp.NoiseProblem(JOINT, cost, budget=budget, offsets=offsets)


@pytest.mark.parametrize("offsets", [None, [-1, 0, 1], [0, 3], [2, -2, 0]], ids=str)
def test_mechanism_noise_and_columns(offsets):
    cost, problem = problem_on(offsets, 1.0)
    noise = np.random.default_rng(1).dirichlet(np.ones(len(cost)))
    table = table_of(problem, noise, offsets)
    assert_allclose(problem.mechanism(noise), table, atol=1e-16)
    assert_allclose(problem.noise(table), noise, atol=1e-16)
    assert_allclose((problem.columns() @ noise).T, JOINT @ table, atol=1e-16)


@pytest.mark.parametrize("offsets", [None, [-1, 0, 1]], ids=str)
def test_no_random_noise_leaks_less(offsets):
    cost, problem = problem_on(offsets, 0.4)
    solution = jp.solve(problem)
    assert solution.status == "optimal"
    assert solution.solver == "barrier-newton"
    best = problem.noise(solution.mechanism)
    assert_allclose(problem.mechanism(best), solution.mechanism, atol=1e-16)
    assert best.sum() == pytest.approx(1, abs=1e-14)
    assert solution.distortion[0] == pytest.approx(cost @ best, abs=1e-15)
    assert cost @ best <= 0.4 * (1 + 1e-12)
    assert solution.leakage == pytest.approx(float(mutual_information(JOINT @ solution.mechanism)), abs=1e-14)

    rng = np.random.default_rng(2)
    nearest = np.inf
    for share in 10.0 ** rng.uniform(-4, 0, 2000):
        law = (1 - share) * best + share * rng.dirichlet(np.full(len(cost), 0.5))
        excess = max(0.0, 1 - 0.4 / (cost @ law)) * (1 + 1e-12)  # towards z = 0, which costs nothing
        law = (1 - excess) * law + excess * (cost == 0)
        value = float(information(JOINT @ table_of(problem, law, offsets)))
        assert value >= solution.lower_bound
        nearest = min(nearest, value - solution.value)
    assert nearest < 1e-4


@pytest.mark.usefixtures("options_of_a_release")
def test_price_is_the_slope():
    low, here, high = (jp.solve(jp.NoiseProblem(JOINT, CYCLIC, budget=0.4 + d), tol=1e-8) for d in (-1e-3, 0, 1e-3))
    assert (high.value - low.value) / 2e-3 == pytest.approx(-here.multipliers[0], rel=1e-3)
    # Complementarity: mass only where the bound's costs are least.
    problem = jp.NoiseProblem(JOINT, CYCLIC, budget=0.4)
    costs = np.einsum("ysz,ys->z", problem.columns(), here.scores[0]) + here.multipliers[0] * CYCLIC
    assert problem.noise(here.mechanism) @ (costs - costs.min()) <= here.gap <= 1e-8


def test_noise_never_beats_a_general_mechanism_and_is_optimal_by_symmetry():
    """Additive noise is a special mechanism; on the cyclic group with uniform X = S it is the best one."""
    noisy = jp.solve(jp.NoiseProblem(JOINT, CYCLIC, budget=0.4))
    x = np.arange(5)
    table = CYCLIC[(x[None, :] - x[:, None]) % 5]
    free = jp.solve(jp.DistortionProblem(JOINT, table, budget=0.4))
    assert free.lower_bound <= noisy.value
    uniform_noise = jp.solve(jp.NoiseProblem(np.eye(5) / 5, CYCLIC, budget=0.4))
    uniform_free = jp.solve(jp.rate_distortion(np.full(5, 0.2), table, budget=0.4))
    assert uniform_noise.lower_bound <= uniform_free.value
    assert uniform_free.lower_bound <= uniform_noise.value
    entropy = jp.max_entropy_noise(CYCLIC, 0.4).entropy
    assert uniform_noise.value == pytest.approx(np.log(5) - entropy, abs=1e-6)


@pytest.mark.parametrize("budget", [0.0, 1e-9, 1.2, 100.0])
def test_budgets_at_the_ends(budget):
    problem = jp.NoiseProblem(JOINT, CYCLIC, budget=budget)
    solution = jp.solve(problem)
    assert solution.status == "optimal"
    assert solution.distortion[0] <= budget * (1 + 1e-9)
    if budget == 0:
        assert_array_equal(solution.mechanism, np.eye(5))
    if budget >= 1.2:  # uniform noise on the group hides everything
        assert solution.value <= 1e-6


def test_infeasible_noise_comes_with_a_proof():
    for run in (
        lambda: jp.solve(jp.NoiseProblem(JOINT, CYCLIC + 1, budget=0.9)),
        lambda: jp.max_entropy_noise(CYCLIC + 1, 0.9),
    ):
        with raised(jp.InfeasibleError, r"^budget: E d\(Z\) is at least 1") as caught:
            run()
        proof = caught.value.proof
        assert proof["bound"] == (CYCLIC + 1).min() > proof["allowed"] == 0.9
    quiet = jp.solve(jp.NoiseProblem(JOINT, CYCLIC + 1, budget=0.9), throw=False)
    assert (quiet.status, quiet.value) == ("infeasible", np.inf)


def test_maximum_entropy_is_the_gibbs_law():
    for budget in (0.0, 1e-6, 0.3, 1.0, 1.2, 7.0):
        found = jp.max_entropy_noise(CYCLIC, budget)
        assert found.noise.sum() == pytest.approx(1, abs=1e-15)
        assert CYCLIC @ found.noise <= budget + 1e-12
        assert 0 <= found.gap + 1e-15 <= 1e-9
        gibbs = np.exp(-found.price * CYCLIC)
        assert_allclose(found.noise, gibbs / gibbs.sum(), atol=1e-15)
    assert_allclose(jp.max_entropy_noise(CYCLIC, 7.0).noise, 0.2)
    assert jp.max_entropy_noise(CYCLIC, 0.0).entropy == pytest.approx(0, abs=1e-12)


def test_the_data_themselves_are_certified_to_small_tolerances():
    joint = drawn_joint(2, 8, 16)
    cost = np.minimum(np.arange(16), 16 - np.arange(16)) / 16
    solution = jp.solve(jp.NoiseProblem(joint.sum(axis=0), cost, budget=0.08), tol=1e-7)
    assert solution.status == "optimal"
    assert solution.steps <= 20


@pytest.mark.parametrize("offsets", [None, [-4, -1, 0, 2, 3]], ids=str)
def test_random_noise_is_certified_whatever_has_no_mass(offsets):
    """Useful symbols without mass, and with them outputs, rare private symbols, and costs of all sizes."""
    rng = np.random.default_rng(0)
    for case in range(40):
        joint = drawn_joint(rng, 3, 5, rng.choice([0.2, 1.0]))
        joint[:, case % 5] *= case % 2
        joint[0] *= 10.0 ** -rng.integers(0, 200)
        cost = rng.random(5) * 10.0 ** rng.integers(-6, 7)
        budget = cost.min() + rng.choice([1e-12, 1e-6, 0.1, 0.5, 0.9]) * (cost.mean() - cost.min())
        solution = jp.solve(jp.NoiseProblem(joint / joint.sum(), cost, budget=budget, offsets=offsets))
        assert solution.status == "optimal", case
        assert solution.distortion[0] <= budget * (1 + 1e-12)
