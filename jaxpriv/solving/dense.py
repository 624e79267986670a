"""One problem whose tables fit into memory, outside of jit: the order of its stages.

lower -> limits without slack -> feasible point -> presolve, iterate, expand, certify -> solution. Each stage is a
method of `Stages`; the least worst outcome within budgets is a search or a minimax program of its own (`least_worst`).
"""

import time

from jaxpriv._clock import Clock
from jaxpriv.errors import InfeasibleError
from jaxpriv.presolve.closed_forms import no_rules
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.lower import limits_of, measured_program, worst_program
from jaxpriv.solution import Solution, no_solution
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import Solver
from jaxpriv.solving.least_worst import least_worst_leakage
from jaxpriv.solving.stages import Stages, own_goal


def solve_dense(
    problem: DistortionProblem, name: str, solver: Solver, goal: Goal, limit: int, throw: bool, clock: Clock
) -> Solution:
    """Solve a problem with any measures by a solver that works on tables."""
    begun = time.perf_counter()
    goal = own_goal(problem, goal)
    stages = Stages(problem, name, solver, limit, clock)
    try:
        if problem.budget is not None and problem.leakage.worst_outcome:
            return least_worst_leakage(stages, goal, begun)
        return solve_program(stages, goal, begun)
    except InfeasibleError:
        if throw:
            raise
        return none_of(problem)


def solve_program(stages: Stages, goal: Goal, begun: float) -> Solution:
    """The least distortion under limits, or the least average leakage within budgets: one convex program."""
    lowered = stages.lower(goal)
    answer = stages.on_tight_limits(lowered)
    if answer is None:
        lowered = stages.with_feasible_point(lowered)
        answer = stages.run(lowered.program, lowered.limits, lowered.goal, lowered.face, lowered)
    answer = stages.or_at_least_value(lowered, answer)
    return stages.conclude(lowered, answer, goal, begun)


def none_of(problem: DistortionProblem) -> Solution:
    """The solution whose status is that there is none, in the shapes of the others of a frontier."""
    if problem.budget is not None and problem.leakage.worst_outcome:
        program = worst_program(problem, 0.0)
    else:
        program = measured_program(problem, limits_of(problem))
    k, eta, price = no_rules(program)
    return no_solution(problem.shape, k.shape[1], eta.shape[1], len(price), len(problem.distortions))
