"""The local methods behind `solve`: known values, bounds, zero masses, statuses, bad input."""

from dataclasses import replace

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage
from jaxpriv.funnels import FunnelGoal, local
from jaxpriv.funnels.local import Alternating, BottleneckIteration, DifferenceOfConvex
from jaxpriv.testing import binary_bottleneck, binary_funnel, random_joint
from tests.cases import TIME_LIMIT, assert_refused, drawn_joint, thorough, value_of

from .cases import binary_symmetric, conditional_of, entropy_of, information

DESCENT, EM, TISHBY = DifferenceOfConvex(max_steps=600), Alternating(), BottleneckIteration(max_steps=600)


@pytest.mark.parametrize("solver", [DESCENT, EM], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(("p", "delta"), [(0.14, 0.24), (0.5, 0.25), *thorough((0.3, 0.1))])
def test_the_binary_funnel_is_its_closed_form(solver, p, delta):
    """Each search by descents, to a fine tolerance too; of the alternating method the better one of two."""
    above, tol = (1e-8, 1e-9) if solver is DESCENT else (1e-6, 1e-6)
    for alpha in (0.1, 0.4, 0.7, 0.95):
        point = binary_funnel(p, delta, alpha)
        problem = jp.FunnelProblem(point.joint, disclosure=point.disclosure)
        solutions = [jp.solve(problem, replace(solver, seed=seed), tol=tol) for seed in (0, 1)]
        assert min(one.value for one in solutions) == pytest.approx(point.leakage, abs=1e-8)
        for solution in solutions:
            assert point.leakage - 1e-12 <= solution.value < point.leakage + above
            assert solution.disclosure >= point.disclosure - 1e-14
            assert solution.lower_bound <= point.leakage + 1e-12


def test_the_three_targets_of_the_binary_funnel_agree():
    below, point, above = (binary_funnel(0.14, 0.24, alpha) for alpha in (0.6001, 0.6, 0.5999))
    solution = jp.solve(jp.FunnelProblem(point.joint, leakage_budget=point.leakage), DESCENT)
    assert solution.value == pytest.approx(point.disclosure, abs=1e-7)
    assert solution.leakage <= point.leakage + 1e-14
    price = (above.leakage - below.leakage) / (above.disclosure - below.disclosure)
    solution = jp.solve(jp.FunnelProblem(point.joint, multiplier=price), DESCENT)
    assert solution.value == pytest.approx(point.leakage - price * point.disclosure, abs=1e-8)


def test_the_bottleneck_of_a_fair_bit_is_its_closed_form():
    joint = binary_symmetric(0.5, 0.1)
    for disclosure in (0.1, 0.3, 0.6):
        relevance = binary_bottleneck(0.1, disclosure)
        released = jp.solve(jp.BottleneckProblem(joint, disclosure=disclosure), TISHBY)
        assert released.value == pytest.approx(relevance, abs=1e-8)
        assert released.disclosure <= disclosure + 1e-14
        paid = jp.solve(jp.BottleneckProblem(joint, relevance=relevance), TISHBY)
        assert paid.value == pytest.approx(disclosure, abs=1e-7)
        assert paid.leakage >= relevance - 1e-14


def test_the_bottleneck_of_x_itself_is_a_line():
    for disclosure in (0.2, 0.5):
        solution = jp.solve(jp.BottleneckProblem(np.diag([0.7, 0.3]), disclosure=disclosure), TISHBY)
        assert solution.value == pytest.approx(disclosure, abs=1e-10)
        assert solution.status == "optimal"  # I(S;Y) <= I(X;Y) proves it


def test_the_front_door_knows_the_names_and_the_results_are_honest():
    joint = random_joint(4, 2, 2)
    for name, problem in (
        ("difference-of-convex", jp.FunnelProblem(joint, disclosure=0.2)),
        ("alternating", jp.FunnelProblem(joint, disclosure=0.2)),
        ("bottleneck-iteration", jp.BottleneckProblem(joint, disclosure=0.2)),
    ):
        solution = jp.solve(problem, name)
        assert solution.solver == name
        assert solution.lower_bound <= solution.value <= solution.upper_bound
        optimum = jp.solve(problem, "column-generation")  # proved
        assert optimum.status == "optimal"
        best = optimum.lower_bound if problem.minimises_leakage else -optimum.upper_bound
        value = solution.value if problem.minimises_leakage else -solution.value
        assert best - 1e-14 <= value <= best + 2e-6
        assert (solution.status == "optimal") == (solution.gap <= 1e-6)
        assert solution.status in ("optimal", "stationary", "best_known")
        np.testing.assert_allclose(solution.mechanism.sum(axis=1), 1.0, atol=1e-14)


def test_too_few_steps_are_not_called_stationary():
    problem = jp.FunnelProblem(random_joint(1, 2, 2), disclosure=0.3)
    assert jp.solve(problem, DifferenceOfConvex(rounds=1), max_steps=2).status == "best_known"


def test_symbols_without_mass_and_split_symbols_change_nothing():
    point = binary_funnel(0.14, 0.24, 0.5)
    padded = np.zeros((4, 3))
    padded[np.ix_([0, 3], [0, 2])] = point.joint
    padded[1] = 0.25 * padded[0]  # one private symbol as two
    padded[0] *= 0.75
    for solver in (DESCENT, EM):
        solution = jp.solve(jp.FunnelProblem(padded, disclosure=point.disclosure), solver)
        assert solution.value == pytest.approx(point.leakage, abs=1e-8)
        assert solution.mechanism.shape[0] == 3


def test_at_order_one_sibsons_information_is_mutual_information():
    """It has a column of its own and a logarithm outside, so it goes the way of general measures."""
    joint, price = binary_symmetric(0.14, 0.24), 0.2
    plain = jp.solve(jp.FunnelProblem(joint, multiplier=price), DESCENT)
    found = DESCENT.find(jp.FunnelProblem(joint, multiplier=price, leakage=leakage.Sibson(1.0)), FunnelGoal())
    released = found.posteriors.T * found.masses
    value = information(conditional_of(joint) @ released) - price * information(released)
    assert value == pytest.approx(plain.value, abs=1e-7)
    assert found.stationary


def test_wrong_problems_and_wrong_settings_are_named():
    funnel = jp.FunnelProblem(binary_symmetric(0.3, 0.1), disclosure=0.2)
    bottleneck = jp.BottleneckProblem(binary_symmetric(0.3, 0.1), disclosure=0.2)
    for solver, problem, word in (
        (DESCENT, bottleneck, "FunnelProblem"),
        (EM, bottleneck, "the funnel of mutual information"),
        (EM, jp.FunnelProblem(binary_symmetric(0.3, 0.1), multiplier=0.2), "disclosure"),
        (
            EM,
            jp.FunnelProblem(binary_symmetric(0.3, 0.1), disclosure=0.2, leakage=leakage.Sibson(2.0)),
            "mutual information",
        ),
        (TISHBY, funnel, "BottleneckProblem"),
        (Alternating(outputs=1), funnel, "outputs"),
    ):
        assert_refused(word, jp.solve, problem, solver)
    for kind in (DifferenceOfConvex, Alternating, BottleneckIteration):
        for name, value in (("starts", 0), ("max_steps", 0), ("seed", -1), ("outputs", 0)):
            assert_refused(name, kind, **{name: value})
    assert_refused("rounds", DifferenceOfConvex, rounds=0)


MEASURES = {
    "Sibson": leakage.Sibson(2.0),
    "Arimoto": leakage.Arimoto(3.0),
    "chi-squared": leakage.FInformation(leakage.ChiSquared()),
    "Hellinger": leakage.FInformation(leakage.SquaredHellinger()),
    "a function of the user's": leakage.FInformation(leakage.UserDivergence(lambda t: (t - 1) ** 4, 1.0)),
}


# Every target, and of the measures one of each kind.
TARGETED = [("Sibson", "disclosure"), ("Arimoto", "leakage_budget"), ("a function of the user's", "multiplier")]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param(name, form, marks=() if (name, form) in TARGETED else pytest.mark.thorough)
        for name in MEASURES
        for form in ("disclosure", "leakage_budget", "multiplier")
    ],
)
@pytest.mark.usefixtures("forgotten", "now")
def test_without_time_to_compile_the_release_is_that_of_information(monkeypatch, name, form):
    def refused(*_):
        raise AssertionError("compiled")

    for compiled in ("descend", "survey", "random_starts"):
        monkeypatch.setattr(local, compiled, refused)
    measure, joint = MEASURES[name], drawn_joint(0, 3, 4)
    most = entropy_of(joint)
    whole = value_of(measure, joint, np.eye(4))
    target = {"disclosure": 0.8 * most, "leakage_budget": 0.2 * whole, "multiplier": 0.3 * whole / most}[form]
    problem = jp.FunnelProblem(joint, leakage=measure, **{form: target})
    solution = jp.solve(problem, "difference-of-convex", time_limit=3.0)
    assert solution.stopped == TIME_LIMIT
    # No more than the release of least mutual information of the same disclosure leaks, but for time sharing.
    known = jp.solve(jp.FunnelProblem(joint, disclosure=solution.disclosure - 1e-9))
    reached = value_of(measure, joint, known.mechanism)
    assert solution.leakage <= (1.0 if form == "disclosure" else 1.2) * reached + 1e-6
    if form == "leakage_budget":  # more than X itself, a part of the time
        assert solution.value > 0.3 * most


def test_time_to_compile_leads_to_less_leakage():
    joint = drawn_joint(0, 3, 4)
    measure = MEASURES["chi-squared"]
    problem = jp.FunnelProblem(joint, leakage=measure, disclosure=1.0)
    least = jp.solve(jp.FunnelProblem(joint, disclosure=1.0))
    assert (
        jp.solve(problem, "difference-of-convex", time_limit=1000.0).value
        < value_of(measure, joint, least.mechanism) - 1e-4
    )
