"""A stranger's solver, the one of docs/how-to/own-solver.md: its intervals are proved, whatever it does."""

import dataclasses

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import solvers
from jaxpriv.program import program_of
from tests.cases import assert_one_optimum, refused
from tests.pages import code_of


@pytest.fixture(scope="module")
def page():
    return code_of("how-to/own-solver.md")


def test_the_page_solves_its_problem(page):
    solution, problem = page["solution"], page["problem"]
    reference = jp.solve(problem, tol=1e-9)
    assert solution.status == "optimal"
    assert solution.gap <= 1e-5
    assert_one_optimum(solution, reference, 1e-12)


def test_it_takes_every_smooth_average(page):
    measure = jp.leakage.FInformation(jp.leakage.ChiSquared())
    problem = jp.DistortionProblem(page["joint"], page["table"], multiplier=0.1, leakage=measure)
    found = jp.solve(problem, solver=page["ExponentiatedGradient"](length=0.2), tol=1e-5)
    reference = jp.solve(problem, tol=1e-9)
    assert found.status == "optimal"
    assert found.value == pytest.approx(reference.value, abs=1.1e-5)
    with refused("takes averages whose decision rules have no ties"):
        jp.solve(
            jp.DistortionProblem(page["joint"], page["table"], budget=0.2, leakage=jp.leakage.MaxLift()),
            solver=page["ExponentiatedGradient"](),
        )


def test_a_wrong_solver_proves_nothing_false(page):
    """Steps of the wrong sign run away from the optimum: the interval stays wide, and holds it."""
    problem = page["problem"]
    wrong = jp.solve(problem, solver=dataclasses.replace(page["ExponentiatedGradient"](), length=-1.0), max_steps=20)
    reference = jp.solve(problem, tol=1e-9)
    assert wrong.status != "optimal"
    assert_one_optimum(wrong, reference, 1e-12)


def test_the_slope_is_that_of_the_objective(page):
    program = program_of(page["problem"])
    mechanism = np.random.default_rng(0).dirichlet(np.ones(3), 3)
    direction = np.random.default_rng(1).normal(size=(3, 3))
    direction -= direction.mean(axis=1, keepdims=True)

    def value(t):
        moved = mechanism + t * direction
        return float(jp.probability.mutual_information(program.joints[0] @ moved)) + (program.cost * moved).sum()

    step = 1e-4 * mechanism.min()
    slope = (solvers.slope_of(program, mechanism) * direction).sum()
    assert slope == pytest.approx((value(step) - value(-step)) / (2 * step), rel=1e-5)
