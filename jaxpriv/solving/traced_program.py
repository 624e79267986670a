"""One convex program inside of jit, vmap and grad: all its rows, iterated on and certified there."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxpriv._types import Arr, BoolLike, ScalarLike
from jaxpriv._validation import is_traced
from jaxpriv.certificates import certify_program, interval_of, violation_of
from jaxpriv.errors import InputError
from jaxpriv.presolve.closed_forms import ROUNDING_SHARES, cheapest_release, independent_release
from jaxpriv.presolve.reduction import Reduced, moves
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import (
    Limits,
    distance_program,
    finite_limits,
    limits_of,
    measured_program,
    measured_values,
    reading,
)
from jaxpriv.solvers import AbstractSolver, Goal, InteriorPoint
from jaxpriv.solvers.interior_point import information
from jaxpriv.solving.stages import AWAY, inner_goal

# What a measure may exceed its limit by, relative to 1 + limit.
_ROUNDING = 1e-10

T = TypeVar("T")

NO_DERIVATIVE = (
    "solve has no derivative: the iteration stops where it is good enough. Differentiate optimal_value(problem) or "
    "optimal_mechanism(problem); outside of grad, sensitivity(problem, solution)"
)


class TracedResult(NamedTuple):
    """The best of a program: `value` and `bound` of its total, certified, and the certificate's `violation`."""

    mechanism: Arr  # (X, Y)
    k: Arr  # (Y, T)
    eta: Arr  # (Y, W)
    price: Arr  # (B,)
    value: ScalarLike
    bound: ScalarLike
    violation: ScalarLike
    steps: ScalarLike


def in_one_precision(problem: DistortionProblem) -> DistortionProblem:
    """The problem with all its arrays in the precision of those that are traced."""
    kinds = [leaf.dtype for leaf in jax.tree.leaves(problem) if is_traced(leaf) and eqx.is_inexact_array(leaf)]
    return _cast(problem, jnp.result_type(*kinds)) if kinds else problem


def _cast(tree: T, dtype: "np.dtype") -> T:
    if dtype == jnp.float64:  # all that is not traced is of that precision
        return tree
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if eqx.is_inexact_array(leaf) else leaf, tree)


# ------------------------------------------------------------------------------ one program


@dataclasses.dataclass(frozen=True)
class Posed:
    """A problem that one program states, and how its value reads as one of the measure."""

    problem: DistortionProblem
    limits: Limits
    program: Program
    away: Program | None  # whose solution is the feasible point of the program

    @staticmethod
    def of(problem: DistortionProblem) -> "Posed":
        limits = limits_of(problem)
        program = _cast(measured_program(problem, limits, True), problem.joints.dtype)
        return Posed(problem, limits, program, toward_limits(problem, limits))

    def inner(self, goal: Goal) -> Goal:
        """The goal in units of the program's total."""
        return inner_goal(goal, reading(self.problem)[0], self.problem)

    def certified(self, found: TracedResult) -> tuple[Arr, Arr, Arr]:
        """(value, lower bound, violation) in the unit of the problem."""
        scale, shift = reading(self.problem)
        value, bound = interval_of(self.problem, scale, shift, found.value, found.bound)
        return value, bound, jnp.maximum(found.violation, traced_excess(self.problem, self.limits, found.mechanism))


def toward_limits(problem: DistortionProblem, limits: Limits) -> Program | None:
    """How far from its budgets a problem must stay under its limits; None where there is nothing of both."""
    if problem.budget is None:
        return None
    away = distance_program(problem, limits, True)
    return away if away.terms else None


def traced_excess(problem: DistortionProblem, limits: Limits, mechanism: Arr) -> Arr:
    """By how much the measures themselves exceed their limits, relative to 1 + limit; 0 up to rounding."""
    over = jnp.zeros((), mechanism.dtype)
    for measure, value in finite_limits(limits):
        relative = (measured_values(measure, problem.joints, mechanism).max() - value) / (1.0 + value)
        over = jnp.maximum(over, jnp.where(relative <= _ROUNDING, 0.0, relative))
    return over


def best_of(solver: AbstractSolver, program: Program, goal: Goal, max_steps: ScalarLike) -> tuple[TracedResult, Any]:
    """(the solver's best for a program with a feasible point, moved into the limits and certified; its last point)."""
    reduced = Reduced.of(jax.tree.map(jnp.asarray, program), goal)
    best, steps, point = information.in_trace(solver, reduced.program, reduced.goal, max_steps)
    mechanism, k, eta, price = reduced.expanded(best)
    mechanism = _inside(program, mechanism)
    proof = certify_program(program, mechanism, k, eta, price)
    return TracedResult(mechanism, k, eta, price, proof.value, proof.lower_bound, proof.violation, steps), point


def _inside(program: Program, mechanism: Arr) -> Arr:
    """The mechanism, or the least of a few mixtures with releases that meet the limits, last the feasible point."""
    return least_mixture(program.mass, program.feasible_point, mechanism, lambda one: violation_of(program, one) == 0)


def least_mixture(mass: Arr, feasible_point: Arr, mechanism: Arr, met: Callable[[Arr], BoolLike]) -> Arr:
    marginal = jnp.broadcast_to(mass @ mechanism / mass.sum(), mechanism.shape)
    safe = 0.5 * (marginal + feasible_point)
    mixed = [(1.0 - share) * mechanism + share * safe for share in (0.0, *ROUNDING_SHARES)]
    tried = jnp.stack([*mixed, feasible_point])
    return tried[jnp.argmax(jax.vmap(met)(tried))]


def with_feasible_point(program: Program, away: Program | None, max_steps: ScalarLike) -> Program:
    """The program with a mechanism that meets its limits, if there is one."""
    if away is not None:
        start = dataclasses.replace(away, feasible_point=independent_release(away))
        feasible_point = best_of(InteriorPoint(), start, AWAY, max_steps)[0].mechanism
    elif len(program.budgets) and not program.shares:
        feasible_point = cheapest_release(program)
    else:
        feasible_point = independent_release(program)
    return dataclasses.replace(program, feasible_point=feasible_point)


@partial(jax.jit, static_argnums=0)
def optimum(
    solver: AbstractSolver, program: Program, away: Program | None, goal: Goal, max_steps: ScalarLike
) -> TracedResult:
    """The best of a program without a feasible point. `away`: the program whose solution is one, if none is known."""
    return best_of(solver, with_feasible_point(program, away, max_steps), goal, max_steps)[0]


@partial(jax.jit, static_argnums=0)
def optimum_and_moves(
    solver: AbstractSolver,
    program: Program,
    away: Program | None,
    goal: Goal,
    max_steps: ScalarLike,
    change: Program,
) -> tuple[TracedResult, tuple[Arr, ...]]:
    """The same, and how (mechanism, k, eta, price) move as the arrays of real numbers of the program do."""
    program = with_feasible_point(program, away, max_steps)
    found, point = best_of(solver, program, goal, max_steps)
    arrays, still = eqx.partition(jax.tree.map(jnp.asarray, program), eqx.is_inexact_array)
    change = dataclasses.replace(change, feasible_point=jnp.zeros_like(program.feasible_point))
    return found, moves(lambda parts: eqx.combine(parts, still), arrays, change, point)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def undifferentiated_optimum(
    solver: AbstractSolver, program: Program, away: Program | None, goal: Goal, max_steps: ScalarLike
) -> TracedResult:
    """`optimum`; an attempt to differentiate it is refused."""
    return optimum(solver, program, away, goal, max_steps)


@undifferentiated_optimum.defjvp
def _refused(solver: AbstractSolver, primals: PyTree, tangents: PyTree) -> NoReturn:
    raise InputError(NO_DERIVATIVE)
