"""Limits at the least value that a measure has: no interior, a linear program."""

import dataclasses

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as measures
from jaxpriv.program.certificates import Certificate
from jaxpriv.solvers import Goal
from tests.cases import drawn_joint, raised, value_of
from tests.grid import judge
from tests.grid.measures import independent
from tests.grid.optimum import Limit, Question, least

from .checks import proved
from .measured_cases import MEASURES

JOINT = drawn_joint(0, 3, 5)
DISTORTION = jp.distortion.absolute(np.arange(5) / 5)

# At zero each of these means that S and Y are independent ...
INDEPENDENCE = (
    "max-information", "relative-entropy", "sibson-2", "sibson-0.5", "arimoto-3", "maximal-leakage", "chi-squared",
    "jensen-shannon", "total-variation", "gain-brier", "lift", "max-lift", "ldp",
)  # fmt: skip
# ... and these require less.
LESS = ("min-entropy", "max-gain-zero-one")


def stated(measure, **form):
    return jp.DistortionProblem(JOINT, DISTORTION, leakage=measure, **form)


@pytest.fixture(scope="module")
def perfect():
    """The least distortion of a release that is independent of S, by the solver of mutual information."""
    return jp.solve(stated(None, leakage_budget=0.0))


@pytest.mark.parametrize("name", INDEPENDENCE)
def test_limit_zero_is_perfect_privacy(name, perfect):
    measure = MEASURES[name]
    found = proved(stated(measure, leakage_budget=0.0))
    assert found.value == pytest.approx(perfect.value, abs=1e-9)
    assert found.lower_bound <= perfect.value + 1e-12
    assert found.gap <= 1e-9
    assert value_of(measure, JOINT, found.mechanism) <= 1e-12


@pytest.mark.parametrize("name", ["sibson-2", "arimoto-3", "sibson-0.5", "gain-brier", "max-information"])
def test_a_steep_slope_loses_nothing_to_a_finite_price(name):
    """The price that a smooth limit of 0 has grows without bound; its rounding left gaps of up to 7e-6 here."""
    joint = drawn_joint(1009, 4, 6)
    table = abs(np.arange(6)[:, None] - np.arange(6))
    problem = jp.DistortionProblem(joint, table, leakage=MEASURES[name], leakage_budget=0.0)
    assert proved(problem).gap <= 1e-9


@pytest.mark.parametrize("name", ["sibson-2", "chi-squared", "max-information"])
def test_a_small_limit_is_not_read_as_none(name, perfect):
    """Rules that prove perfect privacy's cost prove less where the limit has any slack."""
    solved = {}
    for limit in (0.0, 1e-6):
        problem = stated(MEASURES[name], leakage_budget=limit)
        solved[limit] = jp.solve(problem)
    crossed = dataclasses.replace(solved[1e-6], scores=solved[0.0].scores, weights=solved[0.0].weights)
    crossed = dataclasses.replace(crossed, multipliers=solved[0.0].multipliers)
    assert jp.certify(problem, crossed).lower_bound <= solved[1e-6].value < perfect.value - 1e-6


@pytest.mark.parametrize("name", LESS)
def test_limit_zero_of_a_guess_is_weaker(name, perfect):
    found = proved(stated(MEASURES[name], leakage_budget=0.0))
    assert found.value < perfect.value - 1e-3
    assert value_of(MEASURES[name], JOINT, found.mechanism) <= 1e-9


@pytest.mark.parametrize("measure", [measures.AverageCostGain(measures.LogLoss()), MEASURES["chi-squared"]])
def test_limits_below_the_least_value_by_rounding_are_raised_to_it(measure, perfect):
    """At a price of 1e12 a limit of -2.2e-16 would add 2e-4 to the bound."""
    found = proved(stated(measure, leakage_budget=-2.2e-16))
    assert found.lower_bound <= perfect.value + 1e-12


def test_further_limits_below_the_least_value_by_rounding_are_raised_to_it():
    guess = measures.CorrectGuess()
    floor = value_of(guess, JOINT, np.full((5, 5), 0.2))
    limits = [(guess, floor * (1 - 5e-13))]
    assert limits[0][1] < floor
    found = proved(stated(measures.MaxLift(), leakage_budget=9.0, limits=limits))
    assert value_of(guess, JOINT, found.mechanism) <= floor * (1 + 1e-9)


def test_a_bound_above_the_value_proves_nothing():
    """A mechanism may exceed a limit within the allowance for rounding, and the price of the limit may be high."""
    goal = Goal(1e-6)
    for bound, holds in [(1.0 - 1e-7, True), (1.0 + 1e-12, True), (1.0 + 1e-7, False), (1.0 + 1e-3, False)]:
        nothing = np.zeros(0)
        assert goal.proved(Certificate(np.float64(1.0), np.float64(bound), nothing, nothing, 0.0)) == holds


def test_limit_zero_beside_a_budget(perfect):
    """The objective is at its least where S and Y are independent, if the budget allows that."""
    limits = [(measures.MaxInformation(), 0.0)]
    found = proved(stated(None, budget=perfect.value + 0.01, limits=limits))
    assert found.value == pytest.approx(0, abs=1e-12)


INFINITE = {
    "max-lift": [(measures.MaxLift(), np.inf)],
    "two": [(measures.MaxLift(), np.inf), (measures.Sibson(2.0), np.inf)],
    "mutual-information": [(measures.MutualInformation(), np.inf)],
    "no neighbours": [(measures.LocalDifferentialPrivacy(np.eye(3, dtype=bool)), 0.0)],
}


@pytest.mark.parametrize("leakage", [None, measures.MaxLift()])
@pytest.mark.parametrize("name", INFINITE)
def test_limits_that_limit_nothing_beside_two_budgets(name, leakage):
    both = [DISTORTION, jp.distortion.hamming(5)]
    form = {"budget": [0.15, 0.5]}
    plain, found = (
        proved(jp.DistortionProblem(JOINT, both, leakage=leakage, limits=limits, **form))
        for limits in ((), INFINITE[name])
    )
    assert found.value == pytest.approx(plain.value, abs=1e-6)


@pytest.mark.parametrize("solver", ["auto", "linear-program"])
def test_no_limit_under_a_set_of_joints(solver):
    """The least of the largest distortions: a linear program without any measure."""
    joints = np.random.default_rng(0).dirichlet(np.ones(15), 2).reshape(2, 3, 5)
    table = np.random.default_rng(1).random((5, 3))
    asked = jp.DistortionProblem(joints, table, leakage=measures.MaxLift(), leakage_budget=np.inf)
    found = proved(asked, solver)
    assert found.value == pytest.approx(found.distortion[0], abs=1e-12)
    least = [(joint.sum(axis=0) * table.min(axis=1)).sum() for joint in joints]
    assert max(least) - 1e-12 <= found.lower_bound <= found.value


def test_zero_leakage_under_every_joint_of_a_set():
    """Independence under a joint is about its own law of Y."""
    joints = np.random.default_rng(5).dirichlet(np.ones(10), 2).reshape(2, 2, 5)
    table = 1.0 - np.eye(5)
    solution = proved(jp.DistortionProblem(joints, table, leakage=MEASURES["gain-brier"], leakage_budget=0.0))
    costs = tuple(joint.sum(axis=0)[:, None] * table for joint in joints)
    terms = [Limit(judge.zero(independent), joint, 0.0) for joint in joints]
    optimum = least(Question(np.zeros((5, 5)), [], terms, np.ones((5, 5), dtype=bool), costs))[0]
    assert solution.value == pytest.approx(optimum, abs=1e-7)


LIMITS = (measures.MaxLift(), measures.Sibson(2.0), measures.LocalDifferentialPrivacy(), measures.MaximalLeakage())
OBJECTIVES = (measures.MutualInformation(), measures.MaximalLeakage(), measures.MaxInformation())


@pytest.mark.parametrize("limit", LIMITS, ids=lambda measure: type(measure).__name__)
def test_a_limit_of_zero_beside_budgets_is_met_or_refused(limit):
    """S and Y are then independent, at some least distortion: below it there is no mechanism, above it no leakage."""
    rng = np.random.default_rng(0)
    joint, table = drawn_joint(rng, 3, 4), rng.uniform(0.2, 1.0, (4, 4)) * (1.0 - np.eye(4))
    least = jp.solve(jp.DistortionProblem(joint, table, leakage_budget=0.0, leakage=measures.MaxLift())).value
    for objective in OBJECTIVES:

        def beside(share, objective=objective):
            return jp.DistortionProblem(joint, table, budget=share * least, leakage=objective, limits=[(limit, 0.0)])

        for share in (0.5, 0.99):
            with raised(jp.InfeasibleError, "contradict"):
                jp.solve(beside(share))
        for share in (1.01, 1.5):
            assert proved(beside(share)).value <= 1e-6
    curve = jp.frontier(beside(1.01), budgets=np.array([0.5, 1.01, 1.5]) * least, throw=False)
    assert curve.status.tolist() == ["infeasible", "optimal", "optimal"]


@pytest.mark.parametrize(
    "form", [{"budget": 0.25}, {"leakage_budget": 0.1}, {"leakage_budget": 0.0}, {"multiplier": 0.7}]
)
@pytest.mark.parametrize("name", ["total-variation", "max-lift", "ldp", "chi-squared", "gain-brier", "maximal-leakage"])
def test_one_useful_symbol_with_mass_leaks_nothing_and_is_released_at_least_distortion(name, form):
    joint = np.zeros((4, 2))
    joint[:, 1] = [0.125, 0.25, 0.5, 0.125]
    measure = MEASURES[name]
    if "multiplier" in form and (measure.worst_outcome or name == "maximal-leakage"):
        pytest.skip("this measure takes no multiplier")
    problem = jp.DistortionProblem(joint, [[0.3, 0.5], [0.2, 0.7]], leakage=measure, **form)
    found = proved(problem)
    if "budget" in form:
        assert found.value <= 1e-12
        return
    expected = 0.2 * form.get("multiplier", 1.0)
    assert found.lower_bound <= expected + 1e-15
    assert found.value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-25])
def test_budgets_far_above_every_distortion_limit_nothing(scale):
    joints = np.array([[[0.3, 0.1], [0.2, 0.4]], [[0.1, 0.4], [0.4, 0.1]]])
    found = proved(jp.DistortionProblem(joints, scale * (1.0 - np.eye(2)), budget=0.1))
    assert found.leakage == found.lower_bound == 0.0
