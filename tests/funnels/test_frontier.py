"""Curves: every point certified, and a band that holds everything in between."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import datasets
from jaxpriv._runtime.clock import Stop
from jaxpriv.funnels.atoms.column_generation import BlockProgram
from tests.cases import assert_refused

from .cases import block_joint, entropy, entropy_of, information, released

JOINT = block_joint(2, [(2, 4), (2, 3), (1, 2)])
MOST = entropy(JOINT.sum(axis=0))


@pytest.fixture(scope="module")
def curves():
    targets = np.linspace(0.0, MOST, 13)[[3, 0, 12, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]]
    return tuple(
        jp.funnel_frontier(kind(JOINT, disclosure=0.0), disclosures=targets, tol=1e-7)
        for kind in (jp.FunnelProblem, jp.BottleneckProblem)
    )


def test_points_are_optimal_in_the_order_given(curves):
    for curve in curves:
        assert len(curve) == 13
        assert set(curve.status) == {"optimal"}
        assert curve.gap.max() <= 1e-7
        assert curve.targets[1] == 0.0
        assert 0 <= curve.value[1] < 1e-20
        assert curve[2].value == pytest.approx(information(JOINT), abs=1e-9)
    funnel, bottleneck = curves
    assert (funnel.disclosure >= funnel.targets - 1e-12).all()
    assert (bottleneck.disclosure <= bottleneck.targets + 1e-12).all()
    assert (funnel.value <= bottleneck.value + 1e-7).all()


def test_curves_are_convex_and_concave(curves):
    for curve, sign in zip(curves, (1.0, -1.0), strict=True):
        order = np.argsort(curve.targets)
        second = np.diff(curve.value[order], 2)
        assert (sign * second >= -4e-7).all()


def test_band_holds_the_curve_and_every_mechanism(curves):
    funnel, bottleneck = curves
    at = np.linspace(0, MOST, 101)
    (low, reached), (told, high) = funnel.band(at), bottleneck.band(at)
    assert (low <= reached).all()
    assert (told <= high).all()
    for curve, (lower, upper) in (
        (funnel, funnel.band(funnel.targets)),
        (bottleneck, bottleneck.band(curves[1].targets)),
    ):
        assert (lower <= curve.upper_bound + 1e-9).all()
        assert (upper >= curve.lower_bound - 1e-9).all()
        assert (upper - lower).max() <= 2e-7
    one = jp.solve(jp.FunnelProblem(JOINT, disclosure=0.43 * MOST), tol=1e-8)
    lower, upper = funnel.band(0.43 * MOST)
    assert lower[0] - 1e-8 <= one.value <= upper[0] + 1e-8
    rng = np.random.default_rng(1)
    for _ in range(300):
        mechanism = rng.dirichlet(np.full(6, 10 ** rng.uniform(-2, 1)), JOINT.shape[1])
        at, leaked = released(JOINT, mechanism)
        assert funnel.band(at)[0][0] - 1e-12 <= leaked <= bottleneck.band(at)[1][0] + 1e-12
    assert_refused("disclosures must lie in", funnel.band, MOST + 0.1)


def test_other_targets_and_progress(curves):
    seen = []
    budgets = jp.funnel_frontier(
        jp.FunnelProblem(JOINT, disclosure=0.0),
        leakage_budgets=curves[0].value[[5, 8]],
        progress=seen.append,
    )
    np.testing.assert_allclose(budgets.value, curves[0].targets[[5, 8]], atol=2e-6)
    assert [(record.done, record.total) for record in seen] == [(1, 2), (2, 2)]
    slopes = jp.funnel_frontier(jp.BottleneckProblem(JOINT, disclosure=0.0), multipliers=[0.2, 0.6])
    assert set(slopes.status) == {"optimal"}


def test_census_curve_is_solved_globally():
    joint = np.asarray(datasets.census().joint)
    targets = np.linspace(0, entropy_of(joint), 62)[1:-1]
    curve = jp.funnel_frontier(jp.FunnelProblem(joint, disclosure=0.0), disclosures=targets)
    assert set(curve.status) == {"optimal"}
    assert curve.gap.max() <= 1e-6
    assert max(solution.mechanism.shape[1] for solution in curve.solutions) <= joint.shape[1] + 1


def test_a_target_that_takes_long_goes_on_after_the_others(monkeypatch):
    """With a limit, one target does not take the time of those that follow."""
    whole, visits = BlockProgram.solve, []

    def slow(self, problem, goal):
        visits.append(problem.target)
        if visits == [0.9 * MOST]:
            goal.clock.stop = Stop.TIME_LIMIT
        return whole(self, problem, goal)

    monkeypatch.setattr(BlockProgram, "solve", slow)
    shares = [0.5, 0.9, 0.7]
    curve = jp.funnel_frontier(
        jp.FunnelProblem(JOINT, disclosure=0.0), disclosures=[share * MOST for share in shares], time_limit=600.0
    )
    assert visits == [share * MOST for share in (0.9, 0.7, 0.5, 0.9)]
    assert set(curve.status) == {"optimal"}
