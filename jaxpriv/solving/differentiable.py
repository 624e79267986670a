"""Optima as functions that JAX differentiates: the rules of values and of mechanisms, and `solve` in a trace.

`derivatives` has the mathematics. What is differentiated is the optimum, not the iteration: the value has the slope of
the Lagrangian at the optimum that was found, and the mechanism moves as the end of the central path does.
"""

import dataclasses
from functools import partial
from typing import NoReturn, TypeGuard, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv._runtime.validation import is_traced
from jaxpriv.errors import InputError
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates import Certificate
from jaxpriv.program.certificates.lagrangian import along
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import measured_values
from jaxpriv.program.solution import Solution, Status, within_limits
from jaxpriv.solvers import AbstractSolver, Goal, InteriorPoint
from jaxpriv.solvers.mirror_descent import AbstractMirrorDescent
from jaxpriv.solving.choice import fits_for_newton, step_limit
from jaxpriv.solving.stages import distortion_of, own_goal
from jaxpriv.solving.traced import (
    LeastWorst,
    Optimum,
    Posed,
    TracedResult,
    in_one_precision,
    moved_mechanism,
    optimum,
)

T = TypeVar("T")

# The share of the tolerance to which the central path is followed near the mechanism of another method: how a mechanism
# moves is known to the order of the gap, in units of the curvature, so to fewer digits than its value. A choice.
_CLOSER = 1e-3


def solve_traced(
    problem: DistortionProblem, name: str, solver: PyTree, goal: Goal, max_steps: ScalarLike, start: Arr | None = None
) -> Solution:
    """Solve and certify within one trace."""
    problem, found, proved = proved_optimum(problem, solver, goal, max_steps, start=start)
    solution = Solution(
        value=found.value,
        lower_bound=found.bound,
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
    # What stands in the place of a mechanism that is none is a constant: without this its derivative would be 0.
    return where_proved(within_limits(solution, found.violation), proved)


def proved_optimum(
    problem: DistortionProblem,
    solver: PyTree,
    goal: Goal,
    max_steps: ScalarLike,
    whole: bool = True,
    start: Arr | None = None,
) -> tuple[DistortionProblem, TracedResult, Array]:
    """(the problem as it was solved, what was found in its units, whether that is proved).

    Not `whole`: the mechanism has no derivative (NaN), as where another method than the interior-point method solved
    the problem and that one's systems do not fit into memory. Outside of compiled code JAX prepares the derivatives of
    all results, also of those that nobody asks for, and all take twice as long as those of the value.
    """
    if problem.forbids:
        raise InputError(
            "distortion has infinite entries, which forbid pairs: solve it outside of jit, vmap and grad, where "
            "`sensitivity` has the slopes of the optimal value"
        )
    problem = in_one_precision(_normalised(problem))
    goal = own_goal(problem, goal)
    if problem.form.minimax:
        found = differentiable_least_worst(LeastWorst.of(problem, solver, goal, max_steps), whole)
    else:
        posed = Posed.of(problem, start)
        whole = whole and (isinstance(solver, InteriorPoint) or _unrolls(solver) or fits_for_newton(problem))
        inner = posed.inner(goal)
        found = differentiable_optimum(solver, whole, posed.program, posed.away, inner, max_steps).found
        value, bound, violation = posed.certified(found)
        found = found._replace(value=value, bound=bound, violation=violation)
    proved = goal.proved(Certificate(found.value, found.bound, None, None, found.violation))
    return problem, where_proved(found, proved), jnp.asarray(proved)


def _normalised(problem: DistortionProblem) -> DistortionProblem:
    joints = problem.joints
    if not is_traced(joints):  # host joints are normalised already
        return problem
    return eqx.tree_at(lambda p: p.data, problem, joints / joints.sum(axis=(1, 2), keepdims=True))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def differentiable_optimum(
    solver: AbstractSolver, whole: bool, program: Program, away: Program | None, goal: Goal, max_steps: ScalarLike
) -> Optimum:
    """`optimum`, with derivatives of what was found: value and bound move as the optimal value does."""
    del whole
    return optimum(solver, program, away, goal, max_steps)


@differentiable_optimum.defjvp
def _optimum_jvp(solver: AbstractSolver, whole: bool, primals: PyTree, tangents: PyTree) -> PyTree:
    program, away, goal, max_steps = primals
    _of_double(program.mass)
    with jax.numpy_rank_promotion("allow"):  # a rule may run long after `solve` has returned
        program = jax.tree.map(jnp.asarray, program)
        ended = differentiable_optimum(solver, True, program, away, goal, max_steps)
        found, interior = ended.found, isinstance(solver, InteriorPoint)
        # Differentiated once more, `found` moves too. The Lagrangian holds what a piecewise linear measure claims at
        # fixed rows, which is right once only.
        if not interior and (not whole or _unrolls(solver)):
            found = _once(f"second derivatives need solver='interior-point', not {type(solver).__name__}", found)
        elif not all(term.smooth for term in program.terms):
            found = _once("a piecewise linear measure has no derivative of the second order here", found)
        slope = along(program, tangents[0], found.mechanism, found.k, found.eta, found.price)
        if whole and _unrolls(solver):
            if any(term.role is not Role.OBJECTIVE for term in program.terms):
                raise InputError("unrolled: for one joint and limits on the distortion alone; 0 is for every problem")
            fixed = jax.lax.stop_gradient((found.mechanism, found.price))
            _, mechanism = jax.jvp(lambda program: solver.after(program, *fixed), (program,), tangents[:1])
            moved = (mechanism, *_unknown(ended.found, slope)[1:])
        elif whole:
            change = eqx.filter(tangents[0], jax.tree.map(eqx.is_inexact_array, program))
            near = ended
            if not interior:  # the central path near the mechanism that was found
                started, closer = dataclasses.replace(program, start=found.mechanism), _CLOSER * goal.tol
                goal = dataclasses.replace(goal, tol=closer, rtol=0.0 * goal.rtol)
                given = jax.lax.stop_gradient((started, away, goal))
                near = optimum(InteriorPoint(), *given, step_limit(InteriorPoint(), None))
            moved = moved_mechanism(*jax.lax.stop_gradient((program, near.feasible_point, near.point)), change)
            moved = jax.tree.map(lambda part: part * _first_only(ended.found.value), moved)
        else:
            moved = _unknown(ended.found, slope)
        return ended, jax.tree.map(no_tangent, ended)._replace(found=_moving(ended.found, slope, *moved))


def _unrolls(solver: AbstractSolver) -> TypeGuard[AbstractMirrorDescent]:
    return isinstance(solver, AbstractMirrorDescent) and solver.unrolled > 0


def differentiable_least_worst(asked: LeastWorst, whole: bool) -> TracedResult:
    """The least worst outcome, with derivatives."""

    @jax.custom_jvp
    def ended(parts: PyTree) -> Optimum:
        return asked.ended(parts)

    @ended.defjvp
    def _jvp(primals: PyTree, tangents: PyTree) -> PyTree:
        (parts,), (change,) = primals, tangents
        _of_double(*parts)
        with jax.numpy_rank_promotion("allow"):
            best = ended(parts)
            found = _once("the least worst outcome has no derivative of the second order here", best.found)
            slope = asked.slope(parts, change, found)
            mechanism, *rest = _unknown(found, slope)
            if whole and isinstance(asked.solver, InteriorPoint):
                fixed = jax.lax.stop_gradient((parts, best.feasible_point, best.point))
                mechanism = asked.moved_mechanism(*fixed, change)
            return best, jax.tree.map(no_tangent, best)._replace(found=_moving(best.found, slope, mechanism, *rest))

    return ended(asked.parts).found


@jax.custom_jvp
def where_proved(found: T, proved: BoolLike) -> T:
    """What was found: without derivative (NaN, and outside of compiled code an error) where it is not `proved`."""
    del proved
    return found


@where_proved.defjvp
def _where_proved_jvp(primals: PyTree, tangents: PyTree) -> PyTree:
    found, proved = primals
    if not is_traced(proved) and not proved:
        raise InputError(
            "the optimum has no derivative here: its certified gap is above tol, no mechanism meets the limits, or a "
            "distortion that is differentiated has infinite entries. Change the limits, allow a larger tol or more "
            "max_steps, or take finite entries; inside of jit the derivative is NaN"
        )
    factor = jnp.where(proved, 1.0, jnp.nan)
    moved = jax.tree.map(
        lambda tangent: tangent if tangent.dtype == jax.dtypes.float0 else tangent * factor, tangents[0]
    )
    return found, moved


def _of_double(*arrays: Arr) -> None:
    kinds = {str(one.dtype) for one in arrays if jnp.issubdtype(one.dtype, jnp.floating) and one.dtype != jnp.float64}
    if kinds:
        raise InputError(
            f"problem holds {', '.join(sorted(kinds))}; derivatives of optima need float64: set jax_enable_x64, or "
            "call inside `with jax.enable_x64(True)`"
        )


def _moving(found: TracedResult, slope: Arr, mechanism: Arr, k: Arr, eta: Arr, price: Arr) -> TracedResult:
    still = jax.tree.map(no_tangent, found)
    return still._replace(value=slope, bound=slope, mechanism=mechanism, k=k, eta=eta, price=price)


def _unknown(found: TracedResult, slope: Arr) -> tuple[Arr, ...]:
    """Tangents of (mechanism, k, eta, price) that are not known: NaN in every direction, as a linear map of `slope`."""
    return tuple(jnp.nan * slope * jnp.ones_like(part) for part in (found.mechanism, found.k, found.eta, found.price))


def no_tangent(primal: Arr) -> np.ndarray:
    dtype = primal.dtype if jnp.issubdtype(primal.dtype, jnp.floating) else jax.dtypes.float0
    return np.zeros(primal.shape, dtype)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _once(reason: str, found: T) -> T:
    """The same; an attempt to differentiate it is refused."""
    del reason
    return found


@_once.defjvp
def _once_jvp(reason: str, primals: PyTree, tangents: PyTree) -> NoReturn:
    raise InputError(f"solve: {reason}; sensitivity(problem, solution) gives the first ones")


@jax.custom_jvp
def _first_only(value: Arr) -> Arr:
    """A factor 1 without derivative (NaN): how the moves of a mechanism move is not known."""
    return jnp.ones_like(value)


@_first_only.defjvp
def _first_only_jvp(primals: PyTree, tangents: PyTree) -> PyTree:
    return _first_only(*primals), jnp.nan * tangents[0]
