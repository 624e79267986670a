"""Problems inside of jit, vmap and grad: one convex program each, or the least worst outcome, and their derivatives.

What the host decides by values (closed forms, faces of budgets without slack, symbols to leave out, equal rows to
merge) is left out here. Where a limit has no slack the result is a mechanism that meets the limits, and its interval
may stay open.

What is differentiated is the optimum, not the iteration (`derivatives` has the mathematics): the value has the slope of
the Lagrangian at the optimum that was found, and the mechanism moves as the end of the central path does.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeGuard, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv._runtime.validation import is_traced
from jaxpriv.errors import InputError
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates import Certificate, certify_program, interval_of, violation_of
from jaxpriv.program.certificates.lagrangian import along, lagrangian
from jaxpriv.program.certify import most_excess
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.program.lower import (
    Limits,
    as_budgets,
    average_leakage,
    distance_program,
    distance_scale,
    finite_limits,
    least_worst_program,
    limits_of,
    linear_limit,
    measured_program,
    measured_values,
    of_distance,
    scale_and_shift,
    worst_program,
)
from jaxpriv.program.solution import Solution, Status, within_limits
from jaxpriv.reductions.closed_forms import (
    CORRECTIONS,
    LEFT_OUT,
    ROUNDING_SHARES,
    cheapest,
    cheapest_release,
    independent_release,
    spending_exactly,
)
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import AbstractSolver, Goal, InteriorPoint, path_tangent
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solvers.interior_point.system import Point
from jaxpriv.solvers.mirror_descent import AbstractMirrorDescent
from jaxpriv.solving.choice import fits_for_newton, step_limit
from jaxpriv.solving.stages import AWAY, distortion_of, inner_goal, own_goal, units_of

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
    released: Arr  # the mechanism; its derivative is NaN where other mechanisms are optimal too
    leakages: Arr  # what the certificate states of every term (J,); of the least limit nothing


class Optimum(NamedTuple):
    """What was found, and what its derivative is computed from."""

    result: TracedResult
    feasible_point: Arr  # (X, Y)
    point: PyTree  # the solver's last, of the reduced program


def in_one_precision(problem: T) -> T:
    """The problem with all its arrays in the precision of those that are traced."""
    kinds = [leaf.dtype for leaf in jax.tree.leaves(problem) if is_traced(leaf) and eqx.is_inexact_array(leaf)]
    return _cast(problem, jnp.result_type(*kinds)) if kinds else problem


def _cast(tree: T, dtype: "np.dtype") -> T:
    if dtype == jnp.float64:  # all that is not traced is of that precision
        return tree

    def cast(leaf: Arr) -> Arr:  # a number that is known stays known: an order decides the form of the program
        return (jnp if np.ndim(leaf) or is_traced(leaf) else np).asarray(leaf, dtype)

    return jax.tree.map(lambda leaf: cast(leaf) if eqx.is_inexact_array(leaf) else leaf, tree)


# ------------------------------------------------------------------------------ one program


def toward_limits(problem: DistortionProblem, limits: Limits) -> Program | None:
    """How far from its budgets a problem must stay under its limits; None where there is nothing of both, and without
    limits unless budgets are about the released marginal: those have no slack more often than not, and a program more
    takes 9 s of compiling (two budgets, 3 x 4 symbols).
    """
    if not problem.form.limits_distortion:
        return None
    away = distance_program(problem, limits, True)
    if not away.terms and any(not is_traced(table) and (table == table[:1]).all() for table in problem.entries()):
        return _of_budgets(problem)
    return away if away.terms else None


def _of_budgets(problem: DistortionProblem) -> Program:
    """How far from its budgets a problem must stay without limits."""
    away = distance_program(problem, (), True)
    return dataclasses.replace(away, terms=(_idle(away.mass),))


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
    mechanism = least_mixture(program, program, mechanism, partial(violation_of, program))
    proof = certify_program(program, mechanism, k, eta, price)
    interval = proof.value, proof.lower_bound, proof.violation, steps
    return TracedResult(mechanism, k, eta, price, *interval, mechanism, jnp.asarray(proof.leakages)), point


def least_mixture(program: Program, within: Program, mechanism: Arr, violation: Callable[[Arr], Arr]) -> Arr:
    """The mechanism, or the least of a few mixtures with releases that meet the limits, or what several budgets
    without slack leave of it, last the feasible point. `within`: the program with the budgets that are limits.
    """
    mass, feasible_point = program.mass, program.feasible_point
    marginal = jnp.broadcast_to(mass @ mechanism / mass.sum(), mechanism.shape)
    safe = 0.5 * (marginal + feasible_point)
    shares = np.array([0.0, *ROUNDING_SHARES], mechanism.dtype)[:, None, None]
    tried = [(1.0 - shares) * mechanism + shares * safe, feasible_point[None]]
    if len(within.budgets) > 1:
        least = np.array(LEFT_OUT, mechanism.dtype)

        def exact(least: Arr) -> Arr:
            return jax.lax.fori_loop(0, CORRECTIONS, lambda _, left: spending_exactly(within, left, least), mechanism)

        tried.insert(1, jax.vmap(exact)(least))
    every = jnp.concatenate(tried)
    return every[jnp.argmax(jax.vmap(violation)(every) == 0)]


# Rounds of the weights of B budgets, and their rate in times of sqrt(ln B / rounds). Choices: by the regret of these
# weights the mean misses what some mechanism meets by at most 9/8 sqrt(ln B / rounds) of the ranges.
_ROUNDS, _RATE = 400, 8.0


def _spread_release(program: Program) -> Arr:
    """The cheapest release, where it meets all budgets; otherwise the mean of the cheapest ones for weights that grow
    with what the releases before miss of each budget (multiplicative weights; Freund and Schapire 1999). It meets them
    where some mechanism leaves enough of all.
    """
    scale = distance_scale(program.constraints)[:, None, None]
    shares, allowed = program.constraints / scale, program.budgets / scale[:, 0, 0]
    rate = _RATE * float(np.sqrt(np.log(len(allowed)) / _ROUNDS))

    def weigh(_: int, carry: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
        heights, total = carry
        release = cheapest(jnp.tensordot(jax.nn.softmax(heights), shares, 1), program.support)
        return heights + rate * ((shares * release).sum(axis=(1, 2)) - allowed), total + release

    start = jnp.zeros_like(allowed), jnp.zeros_like(program.cost)
    spread, first = jax.lax.fori_loop(0, _ROUNDS, weigh, start)[1] / _ROUNDS, cheapest_release(program)
    return jnp.where(violation_of(program, first) == 0, first, spread)


def with_feasible_point(program: Program, away: Program | None, max_steps: ScalarLike) -> Program:
    """The program with a mechanism that meets its limits, if there is one."""
    if away is not None:
        start = dataclasses.replace(away, feasible_point=independent_release(away))
        nearest = best_of(InteriorPoint(), start, AWAY, max_steps)[0].mechanism
        within = dataclasses.replace(program, feasible_point=nearest)
        feasible_point = least_mixture(within, within, nearest, partial(violation_of, program))
    elif len(program.budgets) and not program.shares:
        feasible_point = _spread_release(program) if len(program.budgets) > 1 else cheapest_release(program)
    else:
        feasible_point = independent_release(program)
    return dataclasses.replace(program, feasible_point=feasible_point)


@partial(jax.jit, static_argnums=0)
def optimum(
    solver: AbstractSolver, program: Program, away: Program | None, goal: Goal, max_steps: ScalarLike
) -> Optimum:
    """The best of a program without a feasible point. `away`: the program whose solution is one, if none is known."""
    program = with_feasible_point(program, away, max_steps)
    best, point = best_of(solver, program, goal, max_steps)
    return Optimum(best, program.feasible_point, point)


def moves(program_of: Callable[[PyTree], Program], parts: PyTree, change: PyTree, point: Point) -> tuple[Arr, ...]:
    """The moves of (mechanism, k, eta, price) and of `released` of `program_of(parts)` as the parts move by `change`.

    `point`: where the interior-point method ended on the reduced program. The feasible point does not move the
    optimum, and private symbols without mass stay without.
    """

    def small(parts: PyTree) -> Reduced:
        program = program_of(parts)
        feasible_point = jax.lax.stop_gradient(program.feasible_point)
        return Reduced.of(dataclasses.replace(_mass_kept(program), feasible_point=feasible_point), Goal(1.0))

    def arrays(parts: PyTree) -> Program:
        return eqx.filter(small(parts).program, eqx.is_inexact_array)

    def read(parts: PyTree, x: Array, k: Array, eta: Array, price: Array) -> tuple[Arr, ...]:
        nothing = jnp.zeros((), x.dtype)
        return small(parts).expanded(Candidate(x.T, nothing, k, eta, price, nothing))

    moved = jax.jvp(arrays, (parts,), (change,))[1]
    along, shift = path_tangent(small(parts).program, moved, point)
    at = point.x, point.k, point.eta, point.price
    moved = jax.jvp(read, (parts, *at), (change, along.x, along.k, along.eta, along.price))[1]
    return *moved, moved[0] * jnp.where(shift <= _DETERMINED, 1.0, jnp.nan)


def _mass_kept(program: Program) -> Program:
    """The program, with rows of zeros that stay zeros whatever moves."""
    terms = []
    for term in program.terms:
        seen = (term.rows != 0).any(axis=1)
        rows = jnp.where(seen[:, None], term.rows, 0.0)
        terms.append(dataclasses.replace(term, rows=rows))
    return dataclasses.replace(program, terms=tuple(terms))


@jax.jit
def moved_mechanism(program: Program, feasible_point: Arr, point: PyTree, change: Program) -> tuple[Arr, ...]:
    """How (mechanism, k, eta, price, released) move as the arrays of real numbers of the program do; from `Optimum`."""
    program = dataclasses.replace(program, feasible_point=feasible_point, start=None)
    arrays, still = eqx.partition(program, eqx.is_inexact_array)
    change = dataclasses.replace(change, feasible_point=jnp.zeros_like(feasible_point), start=None)
    return moves(lambda parts: eqx.combine(parts, still), arrays, change, point)


# The least worst outcome inside of jit, vmap and grad: the minimax program, as on the host.
#
# See `least_worst` for what is solved and proved.


# A limit that rules prove is lowered by the first of these shares that the rounding of the certificate allows.
_LOWERED = (0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6)


@dataclasses.dataclass(frozen=True)
class LeastWorst:
    """The least limit on a worst-outcome measure that the budgets allow, as a function of tracers."""

    parts: PyTree  # what is traced of the problem, the goal and the steps
    rest: PyTree  # what is not
    solver: AbstractSolver

    @staticmethod
    def of(problem: DistortionProblem, solver: AbstractSolver, goal: Goal, max_steps: ScalarLike) -> "LeastWorst":
        parts, rest = eqx.partition((problem, goal, max_steps), is_traced)
        return LeastWorst(parts, rest, solver)

    def reassembled(self, parts: PyTree) -> tuple[DistortionProblem, Goal, ScalarLike]:
        """The three again."""
        return eqx.combine(parts, self.rest)

    def ended(self, parts: PyTree) -> Optimum:
        """It, certified. Values are those of the measure."""
        with jax.numpy_rank_promotion("allow"):
            return jax.jit(lambda parts: _from_one_program(self.solver, *self.reassembled(parts)))(parts)

    def moved_mechanism(self, parts: PyTree, feasible_point: Arr, point: PyTree, change: PyTree) -> Arr:
        """How its mechanism moves as the parts do; from `ended`."""

        def program_of(at: PyTree) -> Program:
            program = least_worst_program(self.reassembled(at)[0], True)
            return dataclasses.replace(program, feasible_point=feasible_point)

        return jax.jit(lambda parts, change: moves(program_of, parts, change, point)[-1])(parts, change)

    def slope(self, parts: PyTree, change: PyTree, at: TracedResult) -> Arr:
        """How the least limit e moves: it is the root of the distance to the budgets, whose Lagrangian is known."""

        def distance(parts: PyTree, e: ScalarLike) -> Arr:
            program = worst_program(self.reassembled(parts)[0], e, True)
            return lagrangian(program, at.mechanism, at.k, at.eta, at.price)

        moved = jax.jvp(lambda parts: distance(parts, at.value), (parts,), (change,))[1]
        falls = -jax.jvp(lambda e: distance(parts, e), (at.value,), (jnp.ones_like(at.value),))[1]
        rate = 1.0 / jnp.where((falls > 0) & (at.bound > 0), falls, jnp.nan)  # rules that prove nothing have no slope
        return moved * jnp.where(at.value > most_excess(jnp.asarray(at.value).dtype), rate, 0.0)


def _from_one_program(solver: AbstractSolver, problem: DistortionProblem, goal: Goal, max_steps: ScalarLike) -> Optimum:
    """From the minimax program, as on the host (`least_worst`)."""
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
    mechanism = least_mixture(program, limits, mechanism, violation)
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
    interval = high, low, violation(mechanism), steps
    return Optimum(TracedResult(mechanism, k, eta, price, *interval, mechanism, high[None][:0]), start, point)


def _stated_leak(problem: DistortionProblem, result: TracedResult) -> Arr:
    """`_leak` of what is released: its number is that of the certificate, where this has it, and measured nowhere else;
    its derivative is that of the measure.
    """
    form, parts = problem.form, eqx.filter(problem, is_traced)
    if not (form.sums_leakage or form.minimax):
        return _leak(problem, result.released)
    stated = result.value if form.minimax else average_leakage(problem, result.leakages)

    @jax.custom_jvp
    def leak(parts: PyTree, released: Arr, stated: Arr) -> Arr:
        del parts, released
        return stated

    @leak.defjvp
    def _jvp(primals: PyTree, tangents: PyTree) -> tuple[Arr, Arr]:
        def measured(parts: PyTree, released: Arr) -> Arr:
            return _leak(eqx.combine(parts, problem), released)

        return leak(*primals), jax.jvp(measured, primals[:2], tangents[:2])[1]

    return leak(parts, result.released, stated)


def _leak(problem: DistortionProblem, mechanism: Arr) -> Arr:
    return measured_values(problem.leakage, problem.joints, mechanism).max()


def _start(problem: DistortionProblem, further: Limits, max_steps: ScalarLike) -> Arr:
    """A mechanism that meets the budgets and the further limits, if there is one: without leakage where possible."""
    within = as_budgets(distance_program(problem, (), True))
    away = toward_limits(problem, further)
    if away is None and len(within.budgets) > 1:
        away = _of_budgets(problem)
    start = with_feasible_point(within, away, max_steps).feasible_point
    free = (within.constraints.sum(axis=1) <= within.budgets[:, None]).all(axis=0)
    symbol = jax.nn.one_hot(free.argmax(), len(free), dtype=start.dtype)
    return jnp.where(free.any(), jnp.broadcast_to(symbol, start.shape), start)


def _idle(mass: Arr) -> Term:
    """A limit that always holds, P(y) >= 0: the method needs one row."""
    return linear_limit(-mass[None], np.zeros(1), mass)


# ------------------------------------------------------------------------------ derivatives


# The share of the tolerance to which the central path is followed near the mechanism of another method: how a mechanism
# moves is known to the order of the gap, in units of the curvature, so to fewer digits than its value. A choice.
_CLOSER = 1e-3
# Where one mechanism is optimal no larger share of the mass moves with costs of the size of the products
# (`path_tangent`): at a tolerance of 1e-10 at most 2.4e-9 did, of two or more optimal ones at least 2e-5. A choice.
_DETERMINED = 1e-5


def solve_traced(
    problem: DistortionProblem, name: str, solver: PyTree, goal: Goal, max_steps: ScalarLike, start: Arr | None
) -> Solution:
    """Solve and certify within one trace."""
    problem, result, proved = proved_optimum(problem, solver, goal, max_steps, start=start)
    solution = Solution(
        value=result.value,
        lower_bound=result.bound,
        mechanism=result.released,
        leakage=_stated_leak(problem, result),
        distortion=distortion_of(problem, result.released),
        scores=result.k[None],
        weights=result.eta,
        multipliers=result.price,
        code=jnp.where(proved, Status.OPTIMAL.value, Status.NOT_CERTIFIED.value),
        steps=result.steps,
        solver=name,
        units=units_of(problem),
    )
    # What stands in the place of a mechanism that is none is a constant: without this its derivative would be 0.
    return where_proved(within_limits(solution, result.violation), proved)


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
        result = differentiable_least_worst(LeastWorst.of(problem, solver, goal, max_steps), whole)
    else:
        limits, (scale, shift) = limits_of(problem), scale_and_shift(problem)
        program = dataclasses.replace(measured_program(problem, limits, True), start=start)
        program, away = _cast(program, problem.joints.dtype), toward_limits(problem, limits)
        whole = whole and (isinstance(solver, InteriorPoint) or _unrolls(solver) or fits_for_newton(problem))
        inner = inner_goal(goal, scale, shift, problem)
        result = differentiable_optimum(solver, whole, program, away, inner, max_steps).result
        value, bound = interval_of(problem, scale, shift, result.value, result.bound)
        violation = jnp.maximum(result.violation, traced_excess(problem, limits, result.mechanism))
        result = result._replace(value=value, bound=bound, violation=violation)
    proved = goal.proved(Certificate(result.value, result.bound, None, None, result.violation))
    return problem, where_proved(result, proved), jnp.asarray(proved)


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
    _check_double(program.mass)
    with jax.numpy_rank_promotion("allow"):  # a rule may run long after `solve` has returned
        program = jax.tree.map(jnp.asarray, program)
        ended = differentiable_optimum(solver, True, program, away, goal, max_steps)
        result, interior = ended.result, isinstance(solver, InteriorPoint)
        # Differentiated once more, `result` moves too. The Lagrangian holds what a piecewise linear measure claims at
        # fixed rows, which is right once only.
        if not interior and (not whole or _unrolls(solver)):
            result = _once(f"second derivatives need solver='interior-point', not {type(solver).__name__}", result)
        elif not all(term.smooth for term in program.terms):
            result = _once("a piecewise linear measure has no derivative of the second order here", result)
        slope = along(program, tangents[0], result.mechanism, result.k, result.eta, result.price)
        if whole and _unrolls(solver):
            if any(term.role is not Role.OBJECTIVE for term in program.terms):
                raise InputError("unrolled: for one joint and limits on the distortion alone; 0 is for every problem")
            fixed = jax.lax.stop_gradient((result.mechanism, result.price))
            _, mechanism = jax.jvp(lambda program: solver.after(program, *fixed), (program,), tangents[:1])
            moved = (mechanism, *_unknown_tangents(ended.result, slope)[1:-1], mechanism)
        elif whole:
            change = eqx.filter(tangents[0], jax.tree.map(eqx.is_inexact_array, program))
            near = ended
            if not interior:  # the central path near the mechanism that was found
                started, closer = dataclasses.replace(program, start=result.mechanism), _CLOSER * goal.tol
                goal = dataclasses.replace(goal, tol=closer, rtol=0.0 * goal.rtol)
                given = jax.lax.stop_gradient((started, away, goal))
                near = optimum(InteriorPoint(), *given, step_limit(InteriorPoint(), None))
            moved = moved_mechanism(*jax.lax.stop_gradient((program, near.feasible_point, near.point)), change)
            moved = jax.tree.map(lambda part: part * _first_only(ended.result.value), moved)
        else:
            moved = _unknown_tangents(ended.result, slope)
        return ended, _moving(ended, slope, *moved)


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
        _check_double(*jax.tree.leaves(parts))
        with jax.numpy_rank_promotion("allow"):
            best = ended(parts)
            result = _once("the least worst outcome has no derivative of the second order here", best.result)
            slope = asked.slope(parts, change, result)
            mechanism, *rest = _unknown_tangents(result, slope)
            if whole and isinstance(asked.solver, InteriorPoint):
                fixed = jax.lax.stop_gradient((parts, best.feasible_point, best.point))
                mechanism = asked.moved_mechanism(*fixed, change)
            rest[-1] = mechanism
            return best, _moving(best, slope, mechanism, *rest)

    return ended(asked.parts).result


@jax.custom_jvp
def where_proved(results: T, proved: BoolLike) -> T:
    """What was found: without derivative (NaN, and outside of compiled code an error) where it is not `proved`."""
    del proved
    return results


@where_proved.defjvp
def _where_proved_jvp(primals: PyTree, tangents: PyTree) -> PyTree:
    results, proved = primals
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
    return results, moved


def _check_double(*arrays: Arr) -> None:
    kinds = {
        str(array.dtype) for array in arrays if jnp.issubdtype(array.dtype, jnp.floating) and array.dtype != jnp.float64
    }
    if kinds:
        raise InputError(
            f"problem holds {', '.join(sorted(kinds))}; derivatives of optima need float64: set jax_enable_x64, or "
            "call inside `with jax.enable_x64(True)`"
        )


# What of a `TracedResult` moves beside value and bound.
_MOVING = ("mechanism", "k", "eta", "price", "released")


def _moving(ended: Optimum, slope: Arr, *moved: Arr) -> Optimum:
    still = jax.tree.map(no_tangent, ended)
    result = still.result._replace(value=slope, bound=slope, **dict(zip(_MOVING, moved, strict=True)))
    return still._replace(result=result)


def _unknown_tangents(result: TracedResult, slope: Arr) -> tuple[Arr, ...]:
    """Tangents of what moves that are not known: NaN in every direction, as a linear map of `slope`."""
    return tuple(jnp.nan * slope * jnp.ones_like(getattr(result, name)) for name in _MOVING)


def no_tangent(primal: Arr) -> np.ndarray:
    dtype = primal.dtype if jnp.issubdtype(primal.dtype, jnp.floating) else jax.dtypes.float0
    return np.zeros(primal.shape, dtype)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _once(reason: str, results: T) -> T:
    """The same; an attempt to differentiate it is refused."""
    del reason
    return results


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
