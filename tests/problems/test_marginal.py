"""A limit on the released marginal: closed forms, a linear program stated otherwise, and what the limits must mean."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

import jaxpriv as jp
from tests.cases import assert_refused, drawn_joint, thorough, value_of
from tests.funnels.cases import entropy
from tests.grid.cells import Cell, data_of, problem_of

from .checks import proved
from .measured_cases import DISTORTION as LINE

RNG = np.random.default_rng(3)
JOINT = drawn_joint(RNG, 3, 4)
PRIOR = JOINT.sum(axis=0)
HAMMING = 1 - np.eye(4)


def of_outputs(solution, size=4):
    """The mechanism of Y alone."""
    return np.asarray(solution.mechanism)[:size].reshape(size, -1, size).sum(axis=1)


@pytest.mark.parametrize(("p", "distance"), [(0.1, 0.05), (0.1, 0.1), (0.3, 0.05), (0.3, 0.1)])
def test_a_bit_with_its_own_marginal(p, distance):
    """Blau and Michaeli's perfect perception: R = 2 h(p) - H(1 - p - D/2, D/2, D/2, p - D/2)."""
    source, half = np.array([1 - p, p]), distance / 2
    solution = proved(jp.with_marginal(source, 1 - np.eye(2), source, budget=distance))
    rate = 2 * entropy([p, 1 - p]) - entropy([1 - p - half, half, half, p - half])
    assert solution.lower_bound <= rate + 1e-12
    assert solution.value == pytest.approx(rate, abs=1e-6)
    assert_allclose(source @ solution.mechanism, source, atol=1e-12)


@pytest.mark.parametrize(
    ("leakage", "solver"),
    [
        (jp.leakage.MutualInformation(), "auto"),
        (jp.leakage.MaximalLeakage(), "auto"),
        (jp.leakage.MaximalLeakage(), "linear-program"),
        (jp.leakage.MaxInformation(), "auto"),
    ],
)
def test_total_variation_is_the_transport_cost_of_a_change(leakage, solver):
    joint, hamming, target = JOINT[:, :3] / JOINT[:, :3].sum(), HAMMING[:3, :3], np.array([0.5, 0.3, 0.2])
    kept, moved = (
        jp.solve(jp.with_marginal(joint, hamming, target, budget=0.4, within=0.1, cost=cost, leakage=leakage), solver)
        for cost in (None, hamming)
    )
    assert kept.status == moved.status == "optimal"
    assert kept.value == pytest.approx(moved.value, abs=2e-6)
    for one in (kept, moved):
        mechanism = of_outputs(one, 3)
        assert np.maximum(joint.sum(axis=0) @ mechanism - target, 0.0).sum() <= 0.1 + 1e-9
        own = value_of(leakage, joint, mechanism)
        assert own <= one.value + 1e-9  # what the second part tells is never used


def test_an_independent_release_near_a_marginal_is_found_without_a_solver():
    """HiGHS meets budgets that are equations but for rounding: 9.5e-5 was the value, not certified."""
    cells = ["linear-program", "transport", "nothing", "inferential", "less", "beyond", "host"]
    solution = jp.solve(problem_of(Cell(*cells), data_of(*cells[1:6])), "linear-program")
    assert (solution.status, solution.solver, solution.value) == ("optimal", "closed-form", 0.0)


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


OWN = jp.leakage.UserDivergence(lambda t: (t - 1.0) ** 4, 1.0)
F = {
    None: lambda t: np.maximum(t - 1, 0),  # total variation
    jp.leakage.KullbackLeibler(): lambda t: t * np.log(t) - t + 1,
    jp.leakage.ChiSquared(): lambda t: (t - 1) ** 2,
    jp.leakage.SquaredHellinger(): lambda t: (np.sqrt(t) - 1) ** 2,
    jp.leakage.JensenShannon(): lambda t: (t * np.log(t) - (1 + t) * np.log((1 + t) / 2)) / 2,
    jp.leakage.ReverseKullbackLeibler(): lambda t: t - 1 - np.log(t),
    OWN: lambda t: (t - 1) ** 4,
}
TARGET = np.array([0.2, 0.3, 0.25, 0.25])


def least_by_cuts(f, within, budget):
    """Maximal leakage by linear programs: D_f is above its tangents, one more at every P_Y that exceeds the limit."""
    size = 4
    given = JOINT / JOINT.sum(axis=1, keepdims=True)  # P(y|s) <= t_y
    rows = [np.hstack([np.kron(given, np.eye(size)), -np.tile(np.eye(size), (len(given), 1))])]
    rows.append(np.hstack([(PRIOR[:, None] * HAMMING).reshape(1, -1), np.zeros((1, size))]))
    most = [np.zeros(given.size), [budget]]
    sums = np.hstack([np.kron(np.eye(size), np.ones(size)), np.zeros((size, size))])
    objective = np.repeat([0.0, 1.0], [16, size])
    exact = {"primal_feasibility_tolerance": 1e-10}
    for _ in range(100):
        found = linprog(objective, np.concatenate(rows), np.concatenate(most), sums, np.ones(size), options=exact)
        released = PRIOR @ found.x[:16].reshape(size, size)
        ratio = np.maximum(released / TARGET, 1e-3)
        value, slope = TARGET @ f(ratio), (f(ratio + 1e-6) - f(ratio - 1e-6)) / 2e-6
        if value <= within + 1e-8:
            return np.log(found.fun)
        rows.append(np.append(np.kron(PRIOR, slope), np.zeros(size))[None])
        most.append([within - value + slope @ (ratio * TARGET)])
    raise AssertionError


@pytest.mark.parametrize(
    ("divergence", "within"),
    [*((one, 0.03) for one in F), (None, 1e-3), *thorough(*((one, 1e-3) for one in F if one is not None))],
    ids=lambda one: one if isinstance(one, float) else type(one).__name__,
)
def test_divergences_of_the_released_marginal(divergence, within):
    f, least = F[divergence], least_by_cuts(F[divergence], within, 0.4)

    def stated(leakage):
        given = {"budget": 0.4, "within": within, "divergence": divergence, "leakage": leakage}
        return jp.with_marginal(JOINT, HAMMING, TARGET, **given)

    solution = proved(stated(jp.leakage.MaximalLeakage()))
    assert solution.lower_bound <= least + 1e-7
    assert solution.value == pytest.approx(least, abs=1e-6 if divergence is None else 2e-6)
    for leakage in (None, jp.leakage.MaxLift()):
        other = proved(stated(leakage))
        assert TARGET @ f(PRIOR @ of_outputs(other) / TARGET) <= within * (1 + 1e-9)
        if divergence is not None:
            assert_array_equal(other.mechanism[4:], np.eye(4))


def test_a_bit_within_a_divergence_of_its_marginal():
    """The least rate over the binary marginals within it: by a fine grid of P(Y=1) and the best channel of each."""
    source, within, distance = np.array([0.7, 0.3]), 0.002, 0.1
    given = {"within": within, "divergence": jp.leakage.ChiSquared()}
    solution = jp.solve(jp.with_marginal(source, 1 - np.eye(2), source, budget=distance, **given))
    y = np.linspace(0.001, 0.6, 200001)
    y = y[(y - 0.3) ** 2 / 0.3 + (y - 0.3) ** 2 / 0.7 <= within]
    # P(0,1) + P(1,0) = D and P(0,1) - P(1,0) = P(Y=1) - .3
    up = (distance + y - 0.3) / 2
    joint = np.array([0.7 - up, up, 0.3 - y + up, y - up])
    inside = (joint > 0).all(axis=0)
    rate = entropy([0.7, 0.3]) + entropy([1 - y, y], axis=0) - entropy(joint, axis=0)
    assert solution.value == pytest.approx(rate[inside].min(), abs=2e-6)


@pytest.mark.parametrize("leakage", [None, jp.leakage.MaxLift()])
def test_a_released_symbol_of_next_to_no_mass_is_within_a_divergence_of_its_own(leakage):
    """P_Y = P_X is: no mechanism was certified to be, because rules of 1e-11 are below what linear programs see."""
    joint = JOINT * [1, 1, 1e-10, 1] / (JOINT * [1, 1, 1e-10, 1]).sum()
    form = {"budget": 0.3, "within": 0.03, "divergence": jp.leakage.KullbackLeibler(), "leakage": leakage}
    proved(jp.with_marginal(joint, HAMMING, joint.sum(axis=0), **form))


@pytest.mark.parametrize(("rare", "share", "cost"), [(1e-10, 1.0, None), (1e-7, 1.0, HAMMING), (0.1, 1e-10, LINE)])
def test_a_marginal_of_next_to_no_mass_is_met(rare, share, cost):
    """Also one of the useful symbols, of which the last has a `share`; up to rounding relative to every mass."""
    joint = JOINT * [1, 1, 1, share] / (JOINT * [1, 1, 1, share]).sum()
    target = np.array([0.4, 0.3, 0.3 - rare, rare])
    problem = jp.with_marginal(joint, HAMMING, target, budget=0.7, within=0.01 * (cost is not None), cost=cost)
    solution = proved(problem)
    for limit, row in zip(problem.budget, problem.tables(), strict=True):
        assert (joint.sum(axis=0)[:, None] * row * solution.mechanism).sum() <= limit * (1 + 2e-12)


def test_weights_of_a_linear_program_are_exact_to_its_tolerance_only():
    """The budgets of all outputs together are constant: none may be ruled out because its weight is off by rounding."""
    joint = drawn_joint(12, 4, 12)
    proved(jp.with_marginal(joint, 1 - np.eye(12), joint.sum(axis=0), budget=0.3))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"marginal": [0.5, 0.5]}, r"marginal has shape \(2,\)"),
        ({"marginal": [0.5, 0.5, 0.5, -0.5]}, r"marginal\[.*3\]"),
        ({"marginal": [0.5, 0.5, 0.5, 0.5]}, "marginal"),
        ({"within": -0.1}, "within must be"),
        ({"joint": np.stack([JOINT, JOINT]), "within": 0.1}, "^joint: how y is moved"),
        ({"joint": np.stack([JOINT, JOINT]), "cost": HAMMING}, "^joint: how y is moved"),
        ({"within": 0.1, "cost": np.ones((4, 3))}, r"cost has shape \(4, 3\)"),
        ({"within": 0.1, "cost": -HAMMING}, r"cost\[0, 1\] is negative"),
        ({"within": 0.1, "cost": HAMMING, "divergence": jp.leakage.ChiSquared()}, "give one of them"),
        ({"within": 0.0, "cost": HAMMING, "divergence": jp.leakage.ChiSquared()}, "give one of them"),
        ({"within": 0.1, "divergence": jp.leakage.TotalVariation()}, "divergence must be a curved one"),
        ({"within": 0.1, "divergence": jp.leakage.ChiSquared}, "divergence must be a curved one"),
        ({"within": 0.1, "divergence": jp.leakage.ChiSquared(), "marginal": [0.5, 0.5, 0, 0]}, r"marginal\[2\] is 0"),
    ],
)
def test_bad_input_is_named(changed, message):
    assert_refused(
        message, jp.with_marginal, **{"joint": JOINT, "distortion": HAMMING, "marginal": PRIOR, "budget": 0.3} | changed
    )


def test_one_output_with_a_cost_and_costs_in_a_trace():
    one = jp.with_marginal(JOINT, np.zeros((4, 1)), [1.0], budget=0.1, within=0.0, cost=[[0.0]])
    assert jp.solve(one).value == pytest.approx(0.0, abs=1e-9)

    def amounts(cost):
        return jp.with_marginal(JOINT, HAMMING, PRIOR, budget=0.3, within=0.1, cost=cost).entries()[-1]

    assert_allclose(jax.jit(amounts)(2.0 * HAMMING), amounts(2.0 * HAMMING), rtol=1e-6)

    def within(v):
        given = {"within": v, "divergence": jp.leakage.ChiSquared()}
        return jp.with_marginal(JOINT, HAMMING, PRIOR, budget=0.3, **given).joints

    assert_refused("outside of jit and vmap", jax.jit(within), 0.1)
