"""The least worst-outcome leakage as one program: the search's answer, on faces, under limits, for sets of joints."""

import dataclasses

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv._runtime.clock import Clock
from jaxpriv.program.certificates import certify_program
from jaxpriv.program.lower import least_worst_program, worst_program
from jaxpriv.solvers import Goal, InteriorPoint
from jaxpriv.solvers.interior_point.candidate import least_ratio
from jaxpriv.solvers.interior_point.start import first_point
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solving import dense as tables
from jaxpriv.solving.dense import searched
from jaxpriv.solving.stages import Stages
from tests.cases import thorough

MEASURES = {
    "max-information": lk.MaxInformation(),
    "hidden": lk.MaxInformation([0.1, -0.2, 0.05]),
    "relative entropy": lk.RelativeEntropyPrivacy(),
    "log": lk.MaxCostGain(lk.LogLoss()),
    "Brier": lk.MaxCostGain(lk.BrierLoss()),
    "zero-one": lk.MaxCostGain(lk.ZeroOneLoss()),
    "max-lift": lk.MaxLift(),
    "min-lift": lk.MinLift(),
    "lift": lk.Lift(),
    "ldp": lk.LocalDifferentialPrivacy(),
    "neighbours": lk.LocalDifferentialPrivacy(np.eye(3, k=1, dtype=bool)),
}
HAMMING = jp.distortion.hamming(4)


def drawn(seed, count=1):
    joints = np.random.default_rng(seed).dirichlet(np.ones(12), count).reshape(count, 3, 4)
    return joints if count > 1 else joints[0]


def by_search(problem, tol):
    stages = Stages(problem, "interior-point", InteriorPoint(), 200, Clock(None, None))
    start = np.eye(problem.shape[1])
    _, high, low = searched(stages, Goal(tol), start, None)
    return low, high


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("budget", [0.05, *thorough(0.3)])
def test_the_search_and_the_one_program_prove_one_value(name, budget):
    problem = jp.DistortionProblem(drawn(3), HAMMING, budget=budget, leakage=MEASURES[name])
    solution = jp.solve(problem, tol=1e-8)
    low, high = by_search(problem, 1e-6)
    assert solution.status == "optimal"
    assert max(low, float(solution.lower_bound)) <= min(high, float(solution.value)) + 1e-12
    assert high - low <= 1e-6


def test_several_joints_and_a_further_limit_on_a_rare_output():
    """Every joint has outputs of its own to limit; so has the further measure, whose limit is no peak."""
    measure, joints = lk.MaxInformation(), drawn(4, 2)
    problem = jp.DistortionProblem(joints, HAMMING, budget=0.2, leakage=measure)
    free = jp.solve(problem, tol=1e-8)
    assert free.status == "optimal"
    leaks = [lk.evaluate(measure, joint, free.mechanism).value for joint in joints]
    assert max(leaks) == pytest.approx(float(free.value), abs=1e-12)
    other = lk.RelativeEntropyPrivacy()
    held = 0.97 * max(lk.evaluate(other, joint, free.mechanism).value for joint in joints)
    bound = jp.solve(
        jp.DistortionProblem(joints, HAMMING, budget=0.2, leakage=measure, limits=[(other, held)]), tol=1e-8
    )
    assert bound.status == "optimal"
    assert max(lk.evaluate(other, joint, bound.mechanism).value for joint in joints) <= held * (1 + 1e-9)
    assert free.lower_bound <= bound.value


def test_linear_limits_beside_it():
    measure, joint = lk.RelativeEntropyPrivacy(), drawn(5)
    free = jp.solve(jp.DistortionProblem(joint, HAMMING, budget=0.2, leakage=measure))
    held = 0.95 * lk.evaluate(lk.MaxLift(), joint, free.mechanism).value
    problem = jp.DistortionProblem(joint, HAMMING, budget=0.2, leakage=measure, limits=[(lk.MaxLift(), held)])
    solution = jp.solve(problem)
    assert solution.status == "optimal"
    assert lk.evaluate(lk.MaxLift(), joint, solution.mechanism).value <= held * (1 + 1e-9)
    assert solution.value >= free.lower_bound


def test_units_of_the_distortion_change_nothing():
    joint, measure = drawn(6), lk.MaxInformation()
    one, other = (
        jp.solve(jp.DistortionProblem(joint, unit * np.asarray(1 - np.eye(4)), budget=0.2 * unit, leakage=measure))
        for unit in (1.0, 1e9)
    )
    assert one.status == other.status == "optimal"
    assert other.value == pytest.approx(float(one.value), abs=1e-6)


@pytest.mark.parametrize("name", ["max-information", "Brier"])
def test_the_root_of_the_dual_is_what_its_rules_prove(name):
    """Just below it the certified distance to the budgets is positive, just above it is not."""
    problem = jp.DistortionProblem(drawn(7), HAMMING, budget=0.2, leakage=MEASURES[name])
    loose = jp.solve(problem, tol=1e-2)
    duals = np.asarray(loose.scores)[0], np.asarray(loose.weights), np.asarray(loose.multipliers)
    root = float(least_ratio(rearrange(least_worst_program(problem)), *duals, 0.0))
    assert 0 < root < float(jp.solve(problem, tol=1e-8).lower_bound)

    def distance(e):
        return certify_program(worst_program(problem, e), np.eye(4), *duals).lower_bound

    assert distance(root * (1 - 1e-9)) > 0
    assert distance(root * (1 + 1e-9)) < 0


def test_the_start_of_a_tight_budget_is_within_it():
    """An infeasible one diverged: its outputs vanished before the budget was met."""
    joint = np.random.default_rng(5).dirichlet(np.ones(12)).reshape(3, 4)
    table = np.random.default_rng(4).uniform(0.2, 1.0, (4, 4)) * (1.0 - np.eye(4))
    problem = jp.DistortionProblem(joint, table, budget=0.03, leakage=lk.MaxInformation())
    data = rearrange(dataclasses.replace(least_worst_program(problem), feasible_point=np.eye(4)))
    point = first_point(data, np.array(0), 0)
    assert ((data.c * point.x).sum(axis=(1, 2)) < data.program.budgets).all()
    assert data.stated[0].largest_ratio(point.x) < point.peak
    assert jp.solve(problem, tol=1e-9).gap <= 1e-9


# With S = X uniform on n symbols and a Hamming budget D: sum_y P(y|y) = n (1 - D) for the best mechanism. Summed over
# y, P(y|y) <= T P(y) gives T >= n (1 - D), P(y) <= T P(y|x) over x != y gives T >= (n - 1)/(n D), and
# P(y|y) <= T P(y|x) gives T >= (n - 1)(1 - D)/D. Randomised response attains all three.
SYMMETRIC = {
    "max-lift": (lk.MaxLift(), lambda n, d: n * (1 - d)),
    "lift": (lk.Lift(), lambda n, d: max(n * (1 - d), (n - 1) / (n * d))),
    "ldp": (lk.LocalDifferentialPrivacy(), lambda n, d: (n - 1) * (1 - d) / d),
    "neighbours": (lk.LocalDifferentialPrivacy(np.ones((4, 4), bool)), lambda n, d: (n - 1) * (1 - d) / d),
}


def assert_proved_out_of_reach(problem, solution):
    """The certified distance to the budgets is positive just below the lower end, by the rules of the solution."""
    duals = np.asarray(solution.scores)[0], np.asarray(solution.weights), np.asarray(solution.multipliers)
    e = float(solution.lower_bound) * (1 - 1e-9)
    for whole in (False, True):
        program = worst_program(problem, e, whole)
        if sum(len(term.rows) for term in program.terms) == duals[0].shape[1]:
            assert certify_program(program, np.eye(*problem.shape), *duals).lower_bound > 0
            return
    raise AssertionError("the rules are of no program of the problem")


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("budget", [0.04, 0.5])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_least_log_ratios_of_randomised_response(name, budget, tol):
    measure, ratio = SYMMETRIC[name]
    problem = jp.DistortionProblem(np.eye(4) / 4, HAMMING, budget=budget, leakage=measure)
    solution = jp.solve(problem, tol=tol)
    exact = np.log(ratio(4, budget))
    assert solution.status == "optimal"
    assert solution.value - solution.lower_bound <= tol
    assert solution.lower_bound <= exact + 1e-12
    assert exact <= solution.value + 1e-9
    assert solution.distortion[0] <= budget + 1e-12
    assert_proved_out_of_reach(problem, solution)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_log_ratios_need_no_search(name, monkeypatch):
    """A search took forty steps."""
    asked = []
    monkeypatch.setattr(tables, "searched", lambda *_: asked.append(True))
    most = 0
    for seed, budget in enumerate([0.02, 0.1, 0.2, 0.3]):
        joint = np.random.default_rng(seed).dirichlet(np.ones(16)).reshape(4, 4)
        problem = jp.DistortionProblem(joint, HAMMING, budget=budget, leakage=SYMMETRIC[name][0])
        solution = jp.solve(problem, tol=1e-6)
        assert solution.status == "optimal"
        assert jp.certify(problem, solution).lower_bound == pytest.approx(float(solution.lower_bound), abs=1e-9)
        assert_proved_out_of_reach(problem, solution)
        most = max(most, int(solution.steps))
    assert not asked
    assert 0 < most <= 20


@pytest.mark.parametrize("name", ["ldp", *thorough("max-lift", "lift")])
def test_a_batch_proves_least_log_ratios(name, monkeypatch):
    """Randomised response at several budgets and random joints, in one compiled program."""
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")
    measure, ratio = SYMMETRIC[name]
    budgets = np.array([0.04, 0.2, 0.5, 0.6])
    known = [jp.DistortionProblem(np.eye(4) / 4, HAMMING, budget=one, leakage=measure) for one in budgets]
    joints = np.random.default_rng(11).dirichlet(np.ones(16), 4).reshape(4, 4, 4)
    drawn = [jp.DistortionProblem(one, HAMMING, budget=0.1, leakage=measure) for one in joints]
    found = [one for one in jp.solve_many([*known, *drawn]) if isinstance(one, jp.Solution)]
    assert len(found) == 8
    for problem, solution in zip([*known, *drawn], found, strict=True):
        assert solution.status == "optimal"
        assert -1e-9 <= solution.gap <= 1e-6
        assert solution.distortion[0] <= problem.budget[0] + 1e-12
        assert_proved_out_of_reach(problem, solution)
    for budget, solution in zip(budgets, found, strict=False):
        exact = np.log(ratio(4, budget))
        assert solution.lower_bound <= exact + 1e-12
        assert exact <= solution.value + 1e-9
    monkeypatch.delenv("JAXPRIV_COMPILE")  # one by one they need no program
    for problem, solution in zip(drawn, found[4:], strict=True):
        alone = jp.solve(problem, tol=1e-8)
        assert alone.lower_bound <= solution.value + 1e-9
        assert solution.lower_bound <= alone.value + 1e-9


TIGHT = {
    "a private symbol without mass": (
        [[0.0, 0.0, 0.2878, 0.1702], [0.1809, 0.1308, 0.0, 0.2303], [0.0, 0.0, 0.0, 0.0]],
        0.01,
    ),
    "rare pairs": (
        [[0.34, 0.1, 6e-4, 6e-4], [5e-5, 1e-3, 0.125, 8e-4], [0.317, 0.11, 2e-5, 9e-7]],
        0.1,
    ),
}


@pytest.mark.parametrize("case", TIGHT)
@pytest.mark.parametrize("name", ["lift", "ldp", "max-information"])
def test_candidates_without_rare_outputs_keep_to_the_budget(name, case):
    """The feasible point is X itself: moved to the outputs that are left it may cost more than the budget."""
    joint, budget = np.array(TIGHT[case][0]), TIGHT[case][1]
    joint = joint / joint.sum()
    problem = jp.DistortionProblem(joint, HAMMING, budget=budget, leakage=MEASURES[name])
    program = dataclasses.replace(least_worst_program(problem, True), feasible_point=np.eye(4))
    solver, goal = InteriorPoint(), Goal(1e-6, 0.0)
    state = solver.init(program, 0, solver.blank(program))
    for _ in range(60):
        mechanism = np.asarray(state.best.mechanism)
        assert 1.0 - joint.sum(axis=0) @ np.diag(mechanism) <= budget + 1e-12
        if goal.met(state.best):
            break
        with np.errstate(all="ignore"):
            state = solver.step(program, state)
    assert goal.met(state.best)
    known, mechanism = jp.solve(problem), np.asarray(state.best.mechanism)
    leak = float(lk.evaluate(MEASURES[name], joint, mechanism).value)
    assert known.lower_bound - 1e-9 <= leak <= known.value + 1e-5
