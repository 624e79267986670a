"""`jp.History`: the records of a solve, as every method reports them."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import Progress
from tests.cases import distances, drawn_joint, further, refused, spent

RNG = np.random.default_rng(5)
JOINT = drawn_joint(RNG, 4, 5)
TABLE = distances(5)
ASKED = jp.DistortionProblem(JOINT, TABLE, budget=0.3)
LINEAR = jp.DistortionProblem(JOINT, TABLE, leakage_budget=0.1, leakage=jp.leakage.MaximalLeakage())
CASES = {
    "interior-point": ASKED,
    "mirror-descent": ASKED,
    "accelerated": ASKED,
    "linear-program": LINEAR,
    "hybrid-gradient": LINEAR,
    "augmented-lagrangian": LINEAR,
    "column-generation": jp.FunnelProblem(JOINT, disclosure=0.5),
    "greedy": jp.FunnelProblem(JOINT, disclosure=0.5),
}
WITH_LENGTH = {"interior-point", "mirror-descent", "hybrid-gradient"}


@pytest.mark.parametrize(
    "solver", further(CASES, CASES.keys() - {"accelerated", "hybrid-gradient", "augmented-lagrangian"})
)
def test_every_method_has_a_history_that_ends_with_its_result(solver):
    history = jp.History(every=5, mechanisms=True)
    found = jp.solve(CASES[solver], solver, tol=1e-3, max_steps=200, progress=history)
    last = history.records[-1]
    assert (last.solver, last.step, last.value) == (found.solver, int(found.steps), float(found.value))
    assert last.gap == pytest.approx(float(found.gap))
    assert last.mechanism is found.mechanism
    numbers = [one for one in history if np.isfinite(one.value)]
    assert all(one.gap == abs(one.value - one.bound) for one in numbers)
    steps = [one.step for one in history.records[:-1]]
    assert steps == sorted(steps)
    assert np.diff([0, *steps]).max(initial=0) <= 5
    if solver in WITH_LENGTH:
        assert all(one.length >= 0 for one in history.records[:-1])
        for one in history.records:
            assert one.distortion[0] == pytest.approx(spent(JOINT, TABLE, one.mechanism))


def test_a_long_run_can_be_recorded_step_by_step():
    history = jp.History(every=1)
    jp.solve(ASKED, "blahut-arimoto", tol=1e-15, max_steps=1100, progress=history)
    assert len(history) >= 1100


def test_budgets_are_met_along_the_way_and_the_interval_closes():
    history = jp.History()
    found = jp.solve(ASKED, tol=1e-8, progress=history)
    assert (history["distortion"] <= 0.3 * (1 + 1e-9)).all()
    finite = history["value"][np.isfinite(history["value"])]
    assert (np.diff(finite[:-1]) <= 0).all()
    assert history["gap"][-1] <= 1e-8
    assert len(history) == int(found.steps) + 2  # the start, every step, and the certified result
    assert all(one.mechanism is None for one in history.records)
    assert repr(history) == f"History({len(history)} records)"


def test_a_face_of_the_budgets_and_a_least_worst_outcome_have_mechanisms_of_the_problem():
    face = jp.DistortionProblem(JOINT, np.round(TABLE / 2), budget=0.0)
    for asked in (face, jp.DistortionProblem(JOINT, TABLE, budget=0.3, leakage=jp.leakage.MaxLift())):
        history = jp.History(mechanisms=True)
        jp.solve(asked, progress=history)
        for one in history.records:
            assert one.mechanism.shape == (5, 5)
            assert (one.distortion <= asked.budget * (1 + 1e-9) + 1e-12).all()


def test_between_two_records_of_every_k_steps_only_the_newest_is_kept():
    history = jp.History(every=3)
    for step in range(8):
        history(Progress("some", step, 1.0, 0.0, 1.0, 0.1 * step))
    assert history["step"].tolist() == [0, 3, 6, 7]
    for wrong in (0, 1.5, True):
        with refused("every"):
            jp.History(every=wrong)


def test_a_curve_reports_its_points():
    history = jp.History()
    jp.frontier(ASKED, budgets=[0.2, 0.3], progress=history)
    assert history.records[-1].done == 2
