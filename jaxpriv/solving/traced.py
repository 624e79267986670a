"""Problems inside of jit, vmap and grad: one convex program each, or the least worst outcome.

What the host decides by values (closed forms, faces of budgets without slack, symbols to leave out, equal rows to
merge) is left out here. Where a limit has no slack the result is a mechanism that meets the limits, and its interval
may stay open.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from jaxpriv._types import Arr, ScalarLike
from jaxpriv._validation import is_traced
from jaxpriv.certificates import Certificate, certify_program, violation_of
from jaxpriv.certificates.lagrangian import lagrangian
from jaxpriv.errors import InputError
from jaxpriv.leakage.rule_sets import Term
from jaxpriv.presolve.closed_forms import independent_release, no_rules
from jaxpriv.presolve.reduction import Reduced, as_they_are, moves
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
    worst_program,
)
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Goal, last_state
from jaxpriv.solving.least_worst import (
    ABOVE,
    DISTANCE,
    FIRST,
    FROM_END,
    GROWTH,
    MARGIN,
    MOST_PROBES,
    NEEDED,
    SLOW,
    nearest_mixture,
)
from jaxpriv.solving.stages import distortion_of, own_goal
from jaxpriv.solving.traced_program import (
    NO_DERIVATIVE,
    Posed,
    TracedResult,
    best_of,
    in_one_precision,
    least_mixture,
    toward_limits,
    traced_excess,
    undifferentiated_optimum,
    with_feasible_point,
)

# The least worst outcome inside of jit, vmap and grad: the minimax program, or the search, as on the host.
#
# See `least_worst` for what is solved and proved.


# A limit that rules prove is lowered by the first of these shares that the rounding of the certificate allows.
_LOWERED = (0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6)
# Limits at which the rules of one distance are tried, and how far below their root in tolerances.
_TRIED, _LOWER = 4, 0.05


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

    def _least(self, parts: PyTree) -> tuple[TracedResult, PyTree]:
        """It, and of the minimax program (the mechanism at its start, where it ended)."""
        problem, goal, max_steps = self.joined(parts)
        found = _searched if problem.leakage.linear else _from_one_program
        return found(self.solver, problem, goal, max_steps)

    def found_and_moves(self, parts: PyTree, change: PyTree) -> tuple[TracedResult, TracedResult]:
        """It, and how it moves as the parts do."""

        @jax.jit
        def both(parts: PyTree, change: PyTree) -> tuple[TracedResult, TracedResult]:
            found, end = self._least(parts)
            slope = self.slope(parts, change, found)
            problem = self.joined(parts)[0]
            if problem.leakage.linear:
                # At the least limit the mechanism is the one whose distance to the budgets is least.
                def program_of(at: PyTree) -> Program:
                    program = worst_program(self.joined(at[0])[0], at[1], True)
                    return dataclasses.replace(program, feasible_point=independent_release(program))

                at, moved = (parts, found.value), (change, slope)
                max_steps = self.joined(parts)[2]
                end = best_of(self.solver, program_of(at), DISTANCE, max_steps)[1]
                counted = as_they_are
            else:
                start, end = end

                def program_of(at: PyTree) -> Program:
                    return dataclasses.replace(least_worst_program(self.joined(at)[0], True), feasible_point=start)

                at, moved = parts, change
                counted = partial(_by_unit_of_distance, end.point.price.shape[0])
            mechanism, k, eta, price = moves(program_of, at, moved, end.point, counted)
            nothing = jnp.zeros_like(found.value)
            return found, TracedResult(mechanism, k, eta, price, slope, nothing, nothing, found.steps)

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


def _by_unit_of_distance(budgets: int, mechanism: Arr, k: Arr, eta: Arr, price: Arr) -> tuple[Arr, Arr, Arr, Arr]:
    """The optimum of a minimax program with duals of the distance to its budgets: prices of these that sum to one."""
    total = price[:budgets].sum()
    total = jnp.where(total > 0, total, 1.0)
    return mechanism, k / total, eta / total, price / total


def _from_one_program(
    solver: AbstractSolver, problem: DistortionProblem, goal: Goal, max_steps: ScalarLike
) -> tuple[TracedResult, PyTree]:
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
    mechanism, k, eta, price = _by_unit_of_distance(len(program.budgets), mechanism, k, eta, price)

    def proved(e: Arr) -> Array:
        return jnp.asarray(certify_program(worst_program(problem, e, True), start, k, eta, price).lower_bound > 0)

    tried = jnp.maximum(state.best.bound * reduced.factor, 0.0) * (1.0 - jnp.asarray(_LOWERED))
    proofs = jax.vmap(proved)(tried)
    low = jnp.where(proofs.any(), tried[jnp.argmax(proofs)], 0.0)
    better = leak < high
    mechanism, high = jnp.where(better, mechanism, start), jnp.where(better, leak, high)
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


class _LimitSearch(NamedTuple):
    """Where the search stands: the least limit is proved to be at least `low`, and `best` has `high`."""

    low: Arr
    high: Arr
    e: Arr  # the next limit to try
    needed: Arr  # and how near its distance is to be computed, 0: as its sign needs
    f: Arr  # the Lagrangian at the limit before
    slow: Arr  # how many probes in succession were no progress
    best: Arr  # (X, Y)
    outside: Arr  # (X, Y) the last mechanism that exceeded the budgets
    k: Arr  # what proves `low`
    eta: Arr
    price: Arr
    steps: Arr
    probes: Arr
    stuck: Arr


def _searched(
    solver: AbstractSolver, problem: DistortionProblem, goal: Goal, max_steps: ScalarLike
) -> tuple[TracedResult, None]:
    """One distance to the budgets after another, as on the host, until an interval of the distance holds 0."""
    further = limits_of(problem)
    within = as_budgets(distance_program(problem, (), True))

    def allowed(high: Arr) -> Arr:
        return jnp.maximum(goal.tol, goal.rtol * jnp.where(jnp.isfinite(high), high, 0.0))

    def going(at: _LimitSearch) -> Arr:
        return (at.high - at.low > allowed(at.high)) & ~at.stuck & (at.probes < MOST_PROBES)

    def leak_within(mechanism: Arr) -> Arr:
        """What it leaks; inf where it exceeds the budgets or a further limit."""
        met = (violation_of(within, mechanism) == 0) & (traced_excess(problem, further, mechanism) == 0)
        return jnp.where(met, _leak(problem, mechanism), jnp.inf)

    def probed(at: _LimitSearch) -> _LimitSearch:
        program = worst_program(problem, at.e, True)
        program = dataclasses.replace(program, feasible_point=independent_release(program))
        near = Goal(jnp.maximum(at.needed, DISTANCE.tol), DISTANCE.rtol)
        found = best_of(solver, program, near, max_steps)[0]
        below, met = found.bound > 0, (found.value <= 0) & (found.violation == 0)
        rules = found.k, found.eta, found.price
        proved = jnp.maximum(_limit_of_rules(problem, *rules, at.e, at.low, _LOWER * allowed(at.high)), at.low)
        better = proved > at.low
        k, eta, price = (jnp.where(better, new, old) for new, old in zip(rules, (at.k, at.eta, at.price), strict=True))
        outside = jnp.where(below, found.mechanism, at.outside)
        mixed = nearest_mixture(within, outside, jnp.where(met, found.mechanism, at.best))
        tried = jnp.stack([at.best, found.mechanism, mixed])
        leaks = jnp.stack([at.high, *(leak_within(one) for one in (found.mechanism, mixed))])
        best, high = tried[leaks.argmin()], leaks.min()
        again = ~below & ~met & (at.needed > 0)  # it was computed to no more than that
        step = _next_limit(at, proved, high, *_tangent(problem, found, at.e), allowed(high))
        e, needed, f, slow = (
            jnp.where(again, same, new)
            for same, new in zip((at.e, jnp.zeros_like(at.f), at.f, at.slow), step, strict=True)
        )
        stuck = ~below & ~met & ~again
        steps, probes = at.steps + found.steps, at.probes + 1
        return _LimitSearch(proved, high, e, needed, f, slow, best, outside, k, eta, price, steps, probes, stuck)

    start = _start(problem, further, max_steps)
    high = _leak(problem, start)
    first = jnp.minimum(1.0, 0.5 * high)
    zero, nothing = jnp.zeros_like(high), jnp.array(0)
    k, eta, price = (jnp.asarray(part) for part in no_rules(worst_program(problem, first, True)))
    begun = _LimitSearch(
        zero, high, first, zero, jnp.full_like(high, jnp.inf), nothing, start, start, k, eta, price, nothing, nothing,
        jnp.array(False),
    )  # fmt: skip
    end = lax.while_loop(going, probed, begun)
    violation = jnp.maximum(violation_of(within, end.best), traced_excess(problem, further, end.best))
    return TracedResult(end.best, end.k, end.eta, end.price, end.high, end.low, violation, end.steps), None


def _tangent(problem: DistortionProblem, found: TracedResult, e: Arr) -> tuple[Arr, Arr]:
    """The Lagrangian of the distance at the limit e, and its slope there."""

    def at(e: Arr) -> Arr:
        return lagrangian(worst_program(problem, e, True), found.mechanism, found.k, found.eta, found.price)

    return jax.jvp(at, (e,), (jnp.ones_like(e),))


def _next_limit(at: _LimitSearch, low: Arr, high: Arr, f: Arr, slope: Arr, allowed: Arr) -> tuple[Arr, ...]:
    """(the limit to try, how near to compute its distance, f, probes without progress), as on the host."""
    width = high - low
    bounded = jnp.isfinite(width)
    slow = jnp.where((abs(f) <= 0.5 * abs(at.f)) | (width <= 0.5 * (at.high - at.low)), 0, at.slow + 1)
    usable = (slow < SLOW) & (slope < 0)
    margin = jnp.where(bounded, MARGIN * width, 0.0)
    least = jnp.where(f > 0, jnp.minimum(FROM_END * allowed, 0.5 * width), margin)
    root = at.e - f / jnp.where(usable, slope, -1.0) + ABOVE * allowed
    root = jnp.minimum(jnp.maximum(root, low + least), high - margin)
    middle = jnp.where(bounded, low + 0.5 * jnp.where(bounded, width, 0.0), GROWTH * jnp.maximum(low, FIRST))
    needed = jnp.where(usable, NEEDED * allowed * abs(slope), 0.0)
    return jnp.where(usable, root, middle), needed, f, jnp.where(usable, slow, 0)


def _limit_of_rules(
    problem: DistortionProblem, k: Arr, eta: Arr, price: Arr, e: Arr, low: Arr, lower: ScalarLike
) -> Arr:
    """The largest limit that the rules of the distance at e proved where they were tried: at e, and at `lower` less
    than what Newton's method makes of their root; 0 if none.
    """
    anything = jnp.full(problem.shape, 1.0 / problem.shape[1], e.dtype)

    def bound(e: Arr) -> Arr:
        return jnp.asarray(certify_program(worst_program(problem, e, True), anything, k, eta, price).lower_bound)

    def tried(_: int, carry: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
        e, proved = carry
        f, slope = jax.jvp(bound, (e,), (jnp.ones_like(e),))
        known = jnp.isfinite(f) & (slope < 0)
        root = e - jnp.where(known, f, 0.0) / jnp.where(known, slope, 1.0) - lower
        return jnp.where(known & (root > low), root, low), jnp.where(f > 0, jnp.maximum(proved, e), proved)

    return lax.fori_loop(0, _TRIED, tried, (e, jnp.zeros_like(e)))[1]


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
