"""Budgets that have no slack: every feasible mechanism meets them with equality, and several outputs tie."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

import jaxpriv as jp
from benchmarks import robustness_faces
from jaxpriv import leakage
from tests.cases import drawn_joint, raised, value_of

from .checks import least_total, proved


def drawn(form, name="mutual information", seed=0):
    """The first instance of a form in the benchmark."""
    every = robustness_faces.instances(100, seed, only=name)
    return next(one.problem for one in every if one.form == form)


def least_information(problem):
    """(entries that some mechanism within the budgets uses, the least I(S;Y)), by linear programs of their own."""
    masses, tables = problem.joints.sum(axis=1), problem.tables()
    costs = (masses[:, None, :, None] * tables).reshape(-1, *problem.shape)
    budgets = np.tile(problem.budget, len(masses))
    sums = np.kron(np.eye(problem.shape[0]), np.ones((1, problem.shape[1])))
    rows, size = costs.reshape(len(costs), -1), tables[0].size
    most = [-linprog(-one, rows, budgets + 1e-12, sums, np.ones(len(sums))).fun for one in np.eye(size)]
    support = np.reshape(most, problem.shape) > 1e-6
    within = zip(costs, budgets + 1e-12, strict=True)
    return support, least_total("mutual-information", problem.joints, support, within)


def test_a_face_that_takes_two_rounds():
    """The first budget leaves two outputs to each x; among these the second is at its least too."""
    first = np.array([[0.0, 0.0, 1.0, 2.0], [1.0, 0.0, 0.0, 1.0]])
    second = np.array([[5.0, 1.0, 0.0, 0.0], [0.0, 3.0, 3.0, 0.0]])
    joint = np.array([[0.3, 0.2], [0.1, 0.4]])
    problem = jp.DistortionProblem(joint, [first, second], budget=[0.0, 0.4 * 1.0 + 0.6 * 3.0])
    solution = proved(problem)
    assert solution.value <= 1e-6  # both may release the second output
    assert_array_equal(solution.mechanism[:, [0, 3]], 0.0)
    assert_allclose(solution.mechanism[:, 1], 1.0, atol=1e-5)


@pytest.mark.parametrize("form", robustness_faces.FORMS)
def test_least_mutual_information_where_there_is_no_slack(form):
    for seed in range(3):
        problem = drawn(form, seed=seed)
        solution = proved(problem)
        support, optimum = least_information(problem)
        assert not solution.mechanism[~support].any()
        assert solution.lower_bound - 1e-9 <= optimum <= solution.value + 1e-9


def test_outputs_that_no_symbol_may_use_stay_empty():
    """They are cheapest for no x: mass 0 throughout, which once was 0/0 in the first Newton step."""
    joint = drawn_joint(3, 4, 6)
    table = np.array(
        [
            [0, 0, 1, 2, 1, 2],
            [1, 0, 2, 2, 1, 2],
            [0, 1, 1, 1, 2, 2],
            [0, 0, 2, 1, 1, 1],
            [1, 0, 2, 2, 2, 2],
            [0, 2, 1, 1, 1, 1],
        ],
        dtype=float,
    )
    problem = jp.DistortionProblem(joint, table, budget=0.0)
    solution = proved(problem)
    assert solution.mechanism[:, 2:].max() == 0
    assert_array_equal(jp.frontier(problem, budgets=[0.0, 0.2]).solutions.status, "optimal")


@pytest.mark.parametrize(
    ("name", "form"),
    [("Sibson 2", form) for form in robustness_faces.FORMS]
    + [
        pytest.param(
            name, "weighted budgets", marks=pytest.mark.thorough if name in ("Sibson 1/2", "total variation") else ()
        )
        for name in ("Sibson 1/2", "maximal leakage", "total variation", "user's f", "max-information", "max-lift")
    ]
    + [("LDP", "one budget")],
)
def test_least_leakage_of_any_measure_where_there_is_no_slack(name, form):
    proved(drawn(form, name, seed=3))


def test_a_limit_beside_a_budget_without_slack():
    base = drawn("one budget", seed=1)
    limits = [(leakage.MaximalLeakage(), 1.0)]
    problem = jp.DistortionProblem(base.joints[0], base.tables(), budget=base.budget, limits=limits)
    solution = proved(problem)
    assert value_of(limits[0][0], base.joints[0], solution.mechanism) <= 1.0 + 1e-9


# Only x = 0 excludes a private symbol, and the first output is free of cost for it alone.
EXCLUDING = np.array([[0.3, 0.2, 0.1], [0.0, 0.15, 0.25]])
FREE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
INFINITE = [(leakage.LocalDifferentialPrivacy(), "linear-program"), (leakage.MinLift(), "linear-program")]
each_infinite = pytest.mark.parametrize(
    ("measure", "solver"), [*INFINITE, (leakage.FInformation(leakage.ReverseKullbackLeibler()), "auto")]
)


@each_infinite
def test_outputs_that_exclude_a_symbol_are_left_out_where_there_is_no_slack(measure, solver):
    problem = jp.DistortionProblem(EXCLUDING, FREE, budget=0.0, leakage=measure)
    solution = proved(problem, solver)
    assert_allclose(solution.mechanism, [[0, 1, 0], [0, 1, 0], [0, 0, 1]], atol=1e-12)
    assert solution.verify(problem).valid


@each_infinite
def test_a_least_distortion_that_only_infinite_leakage_attains(measure, solver):
    joint, table = np.diag([0.5, 0.3, 0.2]), 1 - np.eye(3)
    problem = jp.DistortionProblem(joint, table, budget=0.0, leakage=measure)
    with raised(jp.InfeasibleError, r"infinite.*Use a larger budget") as caught:
        jp.solve(problem, solver)
    assert type(measure).__name__ in str(caught.value)
    quiet = jp.solve(problem, solver, throw=False)
    assert (quiet.status, quiet.value, quiet.lower_bound) == ("infeasible", np.inf, np.inf)


def test_a_curve_from_a_point_of_infinite_leakage_on():
    problem = jp.DistortionProblem(np.diag([0.5, 0.3, 0.2]), 1 - np.eye(3), budget=0.1, leakage=leakage.Lift())
    curve = jp.frontier(problem, budgets=[0.0, 0.2], solver="linear-program")
    assert curve.solutions.status.tolist() == ["infeasible", "optimal"]


@pytest.mark.parametrize(("budget", "status"), [(0.1, "infeasible"), (0.4, "optimal")])
def test_a_second_budget_that_only_an_excluding_output_meets(budget, status):
    second = np.zeros((3, 3))
    second[0, 1] = 1.0  # x = 0, of probability 0.3, has to use the first output two times out of three or never
    tables = np.stack([FREE, second])
    problem = jp.DistortionProblem(EXCLUDING, tables, budget=[0.0, budget], leakage=INFINITE[0][0])
    assert jp.solve(problem, "linear-program", throw=False).status == status


@pytest.mark.parametrize("measure", [leakage.Sibson(2.0), leakage.FInformation(leakage.JensenShannon())])
def test_outputs_that_only_symbols_without_mass_may_use_stay_empty(measure):
    """Such a symbol costs nothing wherever it goes: its row rules no output out, and gives none any mass."""
    problem = drawn("one budget", seed=1)
    joint, tables = problem.joints[0], problem.tables()[0]
    without = jp.DistortionProblem(joint, tables, budget=problem.budget, leakage=measure)
    idle = (
        np.insert(joint, 1, 0.0, axis=1),
        np.pad(np.insert(tables, 1, 2.0, axis=0), ((0, 0), (0, 1)), constant_values=9),
    )
    solution = proved(jp.DistortionProblem(*idle, budget=problem.budget, leakage=measure))
    assert solution.value == pytest.approx(jp.solve(without).value, abs=2e-6)
