"""The best R_Y: draws on the complement are alike, all others above the bound, and a linear program of our own."""

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.statistics.watchdog import CompleteMerging, best_draw, scores
from jaxpriv.statistics.watchdog.exact import watchdog
from tests.cases import drawn_joint, refused, value_of

JOINT = drawn_joint(8, 3, 8, 0.7)
EPSILON = float(np.sort(scores(JOINT))[4])  # five symbols are released
RELEASED = scores(JOINT) <= EPSILON
MEASURES = [
    lk.MutualInformation(),
    lk.MaximalLeakage(),
    lk.Sibson(2.0),
    lk.FInformation(lk.ChiSquared()),
    lk.MaxInformation(),
    lk.Lift(),
]


def mechanism_of(draw):
    return np.where(RELEASED[:, None], np.eye(8), draw)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: type(measure).__name__)
def test_draws_on_the_complement_are_alike_and_no_other_is_below_the_bound(measure):
    rng = np.random.default_rng(0)

    def leaked(draw):
        return value_of(measure, JOINT, mechanism_of(draw))

    inside = best_draw(JOINT, EPSILON, measure, outside=0.0).solution
    for _ in range(3):
        draw = np.where(RELEASED, 0.0, rng.random(8))
        draw /= draw.sum()
        found = watchdog(JOINT, epsilon=EPSILON, perturbation=CompleteMerging(draw=draw))
        np.testing.assert_allclose(found.mechanism, mechanism_of(draw), atol=1e-15)
        assert leaked(draw) == pytest.approx(inside.value, abs=1e-6)
    best = best_draw(JOINT, EPSILON, measure)
    assert best.solution.status == "optimal"
    np.testing.assert_allclose(best.mechanism, mechanism_of(best.draw), atol=1e-15)
    assert leaked(best.draw) == pytest.approx(best.solution.value, abs=1e-6)
    assert best.solution.value <= inside.value + 1e-6
    for draw in rng.dirichlet(np.full(8, 0.5), 30):
        assert leaked(draw) >= best.solution.lower_bound - 1e-9


def test_maximal_leakage_by_a_linear_program_of_our_own():
    """min over R_Y of sum_y t_y with t_y at least every P(y|s)."""
    given = JOINT / JOINT.sum(axis=1, keepdims=True)
    hidden = given[:, ~RELEASED].sum(axis=1)
    rows, right = [], []
    for s in range(3):
        for y in range(8):
            row = np.zeros(16)
            row[y], row[8 + y] = hidden[s], -1.0
            rows.append(row)
            right.append(-given[s, y] if RELEASED[y] else 0.0)
    for outside in (0.0, 0.2, 1.0):
        most = np.concatenate([RELEASED, np.zeros(8)])
        least = linprog(
            np.repeat([0.0, 1.0], 8),
            A_ub=[*rows, most],
            b_ub=[*right, outside],
            A_eq=[np.repeat([1.0, 0.0], 8)],
            b_eq=[1.0],
        ).fun
        found = best_draw(JOINT, EPSILON, lk.MaximalLeakage(), outside=outside)
        assert found.solution.value == pytest.approx(np.log(least), abs=1e-6)
        assert found.draw[RELEASED].sum() <= outside + 1e-9


def test_wrong_arguments_are_named():
    with refused("outside"):
        best_draw(JOINT, EPSILON, outside=1.5)
    with refused("epsilon is above all scores"):
        best_draw(JOINT, 50.0)


@pytest.mark.parametrize("measure", [lk.MutualInformation(), lk.MaximalLeakage(), lk.Sibson(0.5), lk.Arimoto(3.0)])
def test_upper_bounds_of_the_lagrangian(measure):
    for multiplier in (0.0, 0.4, 1.5):
        for epsilon in (0.0, EPSILON, 20.0):
            found = watchdog(JOINT, epsilon=epsilon)
            own, printed = found.lagrangian(multiplier)
            disclosed = value_of(lk.MutualInformation(), JOINT.sum(axis=0), found.mechanism)
            assert value_of(measure, JOINT, found.mechanism) - multiplier * disclosed <= own + 1e-9
            assert own <= printed + 1e-12
    best = jp.solve(jp.FunnelProblem(JOINT, multiplier=0.4))
    assert best.lower_bound <= min(watchdog(JOINT, epsilon=e).lagrangian(0.4)[0] for e in scores(JOINT))
