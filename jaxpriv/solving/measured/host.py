"""One problem with any measures outside of jit, by its form: one convex program, or the least worst outcome."""

import dataclasses
import time

from jaxpriv._clock import Clock
from jaxpriv.errors import InfeasibleError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.statement import limits_of, measured_program, worst_program
from jaxpriv.solution import Solution, no_solution
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import MeasuredSolver
from jaxpriv.solving.dense import own_goal
from jaxpriv.solving.measured.known import no_rules
from jaxpriv.solving.measured.one import Solve
from jaxpriv.solving.measured.worst_outcome import least_worst_leakage


def solve_measured(
    problem: DistortionProblem, name: str, solver: MeasuredSolver, goal: Goal, limit: int, throw: bool, clock: Clock
) -> Solution:
    """Solve a problem with any measures."""
    begun = time.perf_counter()
    goal = own_goal(problem, goal)
    solve = Solve(problem, name, solver, limit, clock)
    try:
        if problem.budget is not None and problem.leakage.worst_outcome:
            return least_worst_leakage(solve, goal, begun)
        return solve.program_form(goal, begun)
    except InfeasibleError:
        if throw:
            raise
        return no_measured_solution(problem)


def no_measured_solution(problem: DistortionProblem) -> Solution:
    """The solution that says that there is none, in the shapes of the others of a sweep."""
    if problem.budget is not None and problem.leakage.worst_outcome:
        program = worst_program(problem, 0.0)
    else:
        program = measured_program(problem, limits_of(problem))
    k, eta, price = no_rules(program)
    nothing = no_solution(problem.shape, 1, k.shape[1], len(price), len(problem.distortions))
    return dataclasses.replace(nothing, weights=eta)
