"""Problems inside of jit and vmap: one convex program each, or the least worst outcome.

What the host decides by values (closed forms, faces of budgets without slack, symbols to leave out, equal rows to
merge) is left out here. Where a limit has no slack the result is a mechanism that meets the limits, and its interval
may stay open.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv._runtime.validation import is_traced
from jaxpriv.leakage.rule_sets import Term
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates import certify_program, interval_of, violation_of
from jaxpriv.program.certificates.lagrangian import lagrangian
from jaxpriv.program.certify import most_excess
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import (
    Limits,
    as_budgets,
    distance_program,
    finite_limits,
    least_worst_program,
    limits_of,
    linear_limit,
    measured_program,
    measured_values,
    of_distance,
    reading,
    worst_program,
)
from jaxpriv.reductions.closed_forms import ROUNDING_SHARES, cheapest_release, independent_release
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import AbstractSolver, Goal, InteriorPoint
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solving.moves import moves
from jaxpriv.solving.stages import AWAY, inner_goal

T = TypeVar("T")


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


class Optimum(NamedTuple):
    """What was found, and what its derivative is computed from."""

    found: TracedResult
    feasible_point: Arr  # (X, Y)
    point: PyTree  # the solver's last, of the reduced program


def in_one_precision(problem: T) -> T:
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
    def of(problem: DistortionProblem, start: Arr | None = None) -> "Posed":
        limits = limits_of(problem)
        program = dataclasses.replace(measured_program(problem, limits, True), start=start)
        program = _cast(program, problem.joints.dtype)
        return Posed(problem, limits, program, toward_limits(problem, limits))

    def inner(self, goal: Goal) -> Goal:
        """The goal in units of the program's total."""
        return inner_goal(goal, *reading(self.problem), self.problem)

    def certified(self, found: TracedResult) -> tuple[Arr, Arr, Arr]:
        """(value, lower bound, violation) in the unit of the problem."""
        scale, shift = reading(self.problem)
        value, bound = interval_of(self.problem, scale, shift, found.value, found.bound)
        return value, bound, jnp.maximum(found.violation, traced_excess(self.problem, self.limits, found.mechanism))


def toward_limits(problem: DistortionProblem, limits: Limits) -> Program | None:
    """How far from its budgets a problem must stay under its limits; None where there is nothing of both."""
    if not problem.form.limits_distortion:
        return None
    away = distance_program(problem, limits, True)
    return away if away.terms else None


def traced_excess(problem: DistortionProblem, limits: Limits, mechanism: Arr) -> Arr:
    """By how much the measures themselves exceed their limits, relative to 1 + limit; 0 up to rounding."""
    over = jnp.zeros((), mechanism.dtype)
    for measure, value in finite_limits(limits):
        relative = (measured_values(measure, problem.joints, mechanism).max() - value) / (1.0 + value)
        over = jnp.maximum(over, jnp.where(relative <= most_excess(mechanism.dtype), 0.0, relative))
    return over


def best_of(solver: AbstractSolver, program: Program, goal: Goal, max_steps: ScalarLike) -> tuple[TracedResult, Any]:
    """(the solver's best for a program with a feasible point, moved into the limits and certified; its last point)."""
    reduced = Reduced.of(jax.tree.map(jnp.asarray, program), goal)
    best, steps, point = whole.in_trace(solver, reduced.program, reduced.goal, max_steps)
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
    shares = np.array([0.0, *ROUNDING_SHARES], mechanism.dtype)[:, None, None]
    tried = jnp.concatenate([(1.0 - shares) * mechanism + shares * safe, feasible_point[None]])
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
) -> Optimum:
    """The best of a program without a feasible point. `away`: the program whose solution is one, if none is known."""
    program = with_feasible_point(program, away, max_steps)
    found, point = best_of(solver, program, goal, max_steps)
    return Optimum(found, program.feasible_point, point)


@jax.jit
def moved_mechanism(program: Program, feasible_point: Arr, point: PyTree, change: Program) -> tuple[Arr, ...]:
    """How (mechanism, k, eta, price) move as the arrays of real numbers of the program do; from `Optimum`."""
    program = dataclasses.replace(program, feasible_point=feasible_point, start=None)
    arrays, still = eqx.partition(program, eqx.is_inexact_array)
    change = dataclasses.replace(change, feasible_point=jnp.zeros_like(feasible_point), start=None)
    return moves(lambda parts: eqx.combine(parts, still), arrays, change, point)


# The least worst outcome inside of jit, vmap and grad: the minimax program, as on the host.
#
# See `dense` for what is solved and proved.


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

    def ended(self, parts: PyTree) -> Optimum:
        """It, certified. Values are those of the measure."""
        with jax.numpy_rank_promotion("allow"):
            return jax.jit(lambda parts: _from_one_program(self.solver, *self.joined(parts)))(parts)

    def moved_mechanism(self, parts: PyTree, feasible_point: Arr, point: PyTree, change: PyTree) -> Arr:
        """How its mechanism moves as the parts do; from `ended`."""

        def program_of(at: PyTree) -> Program:
            program = least_worst_program(self.joined(at)[0], True)
            return dataclasses.replace(program, feasible_point=feasible_point)

        return jax.jit(lambda parts, change: moves(program_of, parts, change, point)[0])(parts, change)

    def slope(self, parts: PyTree, change: PyTree, at: TracedResult) -> Arr:
        """How the least limit e moves: it is the root of the distance to the budgets, whose Lagrangian is known."""

        def distance(parts: PyTree, e: ScalarLike) -> Arr:
            program = worst_program(self.joined(parts)[0], e, True)
            return lagrangian(program, at.mechanism, at.k, at.eta, at.price)

        moved = jax.jvp(lambda parts: distance(parts, at.value), (parts,), (change,))[1]
        falls = -jax.jvp(lambda e: distance(parts, e), (at.value,), (jnp.ones_like(at.value),))[1]
        return jnp.where(at.value > 0, moved / jnp.where(falls > 0, falls, jnp.nan), 0.0)


def _from_one_program(solver: AbstractSolver, problem: DistortionProblem, goal: Goal, max_steps: ScalarLike) -> Optimum:
    """From the minimax program, as on the host (`dense`)."""
    further = limits_of(problem)
    limits = as_budgets(distance_program(problem, further, True))

    def violation(mechanism: Arr) -> Arr:
        return jnp.maximum(violation_of(limits, mechanism), traced_excess(problem, further, mechanism))

    start = _start(problem, further, max_steps)
    high = _leak(problem, start)
    program = dataclasses.replace(least_worst_program(problem, True), feasible_point=start)
    reduced = Reduced.of(jax.tree.map(jnp.asarray, program), goal)
    most = jnp.where(high > goal.tol, max_steps, 0)
    best, steps, point = whole.in_trace(solver, reduced.program, reduced.goal, most)
    mechanism, k, eta, price = reduced.expanded(best)
    mechanism = least_mixture(program.mass, start, mechanism, lambda one: violation(one) == 0)
    leak = _leak(problem, mechanism)
    better = leak < high
    mechanism, high = jnp.where(better, mechanism, start), jnp.where(better, leak, high)
    claimed = jnp.maximum(reduced.limit(best.bound), 0.0)
    worst = worst_program(problem, claimed, True)
    k, eta, price = of_distance(program, worst, claimed, high, k, eta, price)

    def proved(e: Arr) -> Array:
        return jnp.asarray(certify_program(worst_program(problem, e, True), start, k, eta, price).lower_bound > 0)

    tried = claimed * (1.0 - jnp.asarray(_LOWERED))
    proofs = jax.vmap(proved)(tried)
    low = jnp.where(proofs.any(), tried[jnp.argmax(proofs)], 0.0)
    return Optimum(TracedResult(mechanism, k, eta, price, high, low, violation(mechanism), steps), start, point)


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
