"""Problems inside of jit, vmap and grad: one convex program each, or the least worst outcome.

What the host decides by values (closed forms, faces of budgets without slack, symbols to leave out, equal rows to
merge) is left out here. Where a limit has no slack the result is a mechanism that meets the limits, and its interval
may stay open.
"""

import dataclasses
from collections.abc import Callable
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._types import Arr, ScalarLike
from jaxpriv._validation import is_traced
from jaxpriv.certificates import Certificate, certify_program, violation_of
from jaxpriv.certificates.lagrangian import lagrangian
from jaxpriv.errors import InputError
from jaxpriv.leakage.rule_sets import Term
from jaxpriv.presolve.reduction import Reduced, moves
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import (
    Limits,
    as_budgets,
    distance_program,
    least_worst_program,
    limits_of,
    linear_limit,
    measured_values,
    of_distance,
    worst_program,
)
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Goal, last_state
from jaxpriv.solvers.interior_point.method import InteriorState
from jaxpriv.solving.stages import distortion_of, own_goal
from jaxpriv.solving.traced_program import (
    NO_DERIVATIVE,
    Posed,
    TracedResult,
    in_one_precision,
    least_mixture,
    toward_limits,
    traced_excess,
    undifferentiated_optimum,
    with_feasible_point,
)

# The least worst outcome inside of jit, vmap and grad: the minimax program, as on the host.
#
# See `least_worst` for what is solved and proved.


# A limit that rules prove is lowered by the first of these shares that the rounding of the certificate allows.
_LOWERED = (0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6)


@dataclasses.dataclass(frozen=True)
class LeastWorst:
    """The least limit on a worst-outcome measure that the budgets allow, as a function of tracers."""

    parts: list[Array]  # what is traced of the problem, the goal and the steps
    joined: Callable[[PyTree], tuple[DistortionProblem, Goal, ScalarLike]]  # the three again
    solver: AbstractSolver

    @staticmethod
    def of(problem: DistortionProblem, solver: AbstractSolver, goal: Goal, max_steps: ScalarLike) -> "LeastWorst":
        leaves, tree = jax.tree.flatten((problem, goal, max_steps))
        places = [i for i, leaf in enumerate(leaves) if is_traced(leaf)]

        def joined(parts: PyTree) -> PyTree:
            values = dict(zip(places, parts, strict=True))
            return jax.tree.unflatten(tree, [values.get(i, leaf) for i, leaf in enumerate(leaves)])

        return LeastWorst([leaves[i] for i in places], joined, solver)

    def found(self, parts: PyTree) -> TracedResult:
        """It, certified; an attempt to differentiate it is refused. Values are those of the measure."""

        @jax.custom_jvp
        @jax.jit
        def without_derivative(parts: PyTree) -> TracedResult:
            return self._least(parts)[0]

        @without_derivative.defjvp
        def _refused(primals: PyTree, tangents: PyTree) -> NoReturn:
            raise InputError(NO_DERIVATIVE)

        with jax.numpy_rank_promotion("allow"):
            return without_derivative(parts)

    def _least(self, parts: PyTree) -> tuple[TracedResult, tuple[Arr, InteriorState]]:
        """It, and of the minimax program (the mechanism at its start, where it ended)."""
        return _from_one_program(self.solver, *self.joined(parts))

    def found_and_moves(self, parts: PyTree, change: PyTree) -> tuple[TracedResult, Arr, Arr]:
        """It, and how its mechanism and its value move as the parts do."""

        @jax.jit
        def both(parts: PyTree, change: PyTree) -> tuple[TracedResult, Arr, Arr]:
            found, (start, state) = self._least(parts)

            def program_of(at: PyTree) -> Program:
                return dataclasses.replace(least_worst_program(self.joined(at)[0], True), feasible_point=start)

            mechanism = moves(program_of, parts, change, state.point)[0]
            return found, mechanism, self.slope(parts, change, found)

        with jax.numpy_rank_promotion("allow"):
            return both(parts, change)

    def slope(self, parts: PyTree, change: PyTree, at: TracedResult) -> Arr:
        """How the least limit e moves: it is the root of the distance to the budgets, whose Lagrangian is known."""

        def distance(parts: PyTree, e: ScalarLike) -> Arr:
            program = worst_program(self.joined(parts)[0], e, True)
            return lagrangian(program, at.mechanism, at.k, at.eta, at.price)

        moved = jax.jvp(lambda parts: distance(parts, at.value), (parts,), (change,))[1]
        falls = -jax.jvp(lambda e: distance(parts, e), (at.value,), (jnp.ones_like(at.value),))[1]
        return jnp.where(at.value > 0, moved / jnp.where(falls > 0, falls, jnp.nan), 0.0)


def _from_one_program(
    solver: AbstractSolver, problem: DistortionProblem, goal: Goal, max_steps: ScalarLike
) -> tuple[TracedResult, tuple[Arr, InteriorState]]:
    """From the minimax program, as on the host (`least_worst`); and (the mechanism at its start, where it ended)."""
    further = limits_of(problem)
    limits = as_budgets(distance_program(problem, further, True))

    def violation(mechanism: Arr) -> Arr:
        return jnp.maximum(violation_of(limits, mechanism), traced_excess(problem, further, mechanism))

    start = _start(problem, further, max_steps)
    high = _leak(problem, start)
    program = dataclasses.replace(least_worst_program(problem, True), feasible_point=start)
    reduced = Reduced.of(jax.tree.map(jnp.asarray, program), goal)
    state, steps = last_state(solver, reduced.program, reduced.goal, jnp.where(high > goal.tol, max_steps, 0))
    mechanism, k, eta, price = reduced.expanded(state.best)
    mechanism = least_mixture(program.mass, start, mechanism, lambda one: violation(one) == 0)
    leak = _leak(problem, mechanism)
    better = leak < high
    mechanism, high = jnp.where(better, mechanism, start), jnp.where(better, leak, high)
    claimed = jnp.maximum(reduced.limit(state.best.bound), 0.0)
    worst = worst_program(problem, claimed, True)
    k, eta, price = of_distance(program, worst, claimed, high, k, eta, price)

    def proved(e: Arr) -> Array:
        return jnp.asarray(certify_program(worst_program(problem, e, True), start, k, eta, price).lower_bound > 0)

    tried = claimed * (1.0 - jnp.asarray(_LOWERED))
    proofs = jax.vmap(proved)(tried)
    low = jnp.where(proofs.any(), tried[jnp.argmax(proofs)], 0.0)
    return TracedResult(mechanism, k, eta, price, high, low, violation(mechanism), steps), (start, state)


def _leak(problem: DistortionProblem, mechanism: Arr) -> Arr:
    return measured_values(problem.leakage, problem.joints, mechanism).max()


def _start(problem: DistortionProblem, further: Limits, max_steps: ScalarLike) -> Arr:
    """A mechanism that meets the budgets and the further limits, if there is one: without leakage where possible."""
    within = as_budgets(distance_program(problem, (), True))
    away = toward_limits(problem, further)
    if away is None and len(within.budgets) > 1:
        away = distance_program(problem, (), True)
        away = dataclasses.replace(away, terms=(_idle(away.mass),))
    start = with_feasible_point(within, away, max_steps).feasible_point
    free = (within.constraints.sum(axis=1) <= within.budgets[:, None]).all(axis=0)
    symbol = jax.nn.one_hot(free.argmax(), len(free), dtype=start.dtype)
    return jnp.where(free.any(), jnp.broadcast_to(symbol, start.shape), start)


def _idle(mass: Arr) -> Term:
    """A limit that always holds, P(y) >= 0: the method needs one row."""
    return linear_limit(-mass[None], np.zeros(1), mass)


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
