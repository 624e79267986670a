"""Problems inside of jit, vmap and grad: one convex program each, or the least worst outcome.

What the host decides by values (closed forms, faces of budgets without room, symbols to leave out, equal rows to merge)
has no place here. Where a limit leaves no room the result is a mechanism that meets the limits, and its interval may
stay open.
"""

import jax.numpy as jnp
from jaxtyping import PyTree

from jaxpriv._types import ScalarLike
from jaxpriv.certificates import Certificate
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.statement import measured_values
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import Goal
from jaxpriv.solving.host import distortion_of, own_goal
from jaxpriv.solving.traced_program import Posed, in_one_precision, undifferentiated_optimum
from jaxpriv.solving.traced_worst_outcome import LeastWorst


def solve_traced(problem: DistortionProblem, name: str, solver: PyTree, goal: Goal, max_steps: ScalarLike) -> Solution:
    """Solve and certify within one trace."""
    problem = in_one_precision(problem)
    goal = own_goal(problem, goal)
    if problem.budget is not None and problem.leakage.worst_outcome:
        asked = LeastWorst.of(problem, solver, goal, max_steps)
        found = asked.found(asked.parts)
        value, bound, violation = found.value, found.bound, found.violation
    else:
        posed = Posed.of(problem)
        found = undifferentiated_optimum(solver, posed.program, posed.away, posed.inner(goal), max_steps)
        value, bound, violation = posed.certified(found)
    proved = goal.proved(Certificate(value, bound, None, None, violation))
    return Solution(
        value=value,
        lower_bound=bound,
        mechanism=found.mechanism,
        leakage=measured_values(problem.leakage, problem.joints, found.mechanism).max(),
        distortion=distortion_of(jnp, problem, found.mechanism),
        scores=found.k[None],
        weights=found.eta,
        multipliers=found.price,
        code=jnp.where(proved, Status.OPTIMAL.value, Status.NOT_CERTIFIED.value),
        steps=found.steps,
        solver=name,
    )
