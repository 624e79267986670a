"""Problems whose tables fit into memory, outside of jit: one convex program each, or the least worst outcome."""

import time

from jaxpriv._clock import Clock
from jaxpriv.errors import InfeasibleError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.statement import limits_of, measured_program, worst_program
from jaxpriv.solution import Solution, no_solution
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import Solver
from jaxpriv.solving.host import Solve, own_goal
from jaxpriv.solving.known import no_rules
from jaxpriv.solving.worst_outcome import least_worst_leakage


def solve_tables(
    problem: DistortionProblem, name: str, solver: Solver, goal: Goal, limit: int, throw: bool, clock: Clock
) -> Solution:
    """Solve a problem with any measures by a solver that works on tables."""
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
        return none_of(problem)


def none_of(problem: DistortionProblem) -> Solution:
    """The solution that says that there is none, in the shapes of the others of a sweep."""
    if problem.budget is not None and problem.leakage.worst_outcome:
        program = worst_program(problem, 0.0)
    else:
        program = measured_program(problem, limits_of(problem))
    k, eta, price = no_rules(program)
    return no_solution(problem.shape, k.shape[1], eta.shape[1], len(price), len(problem.distortions))
