"""Problems with any measures inside jit, vmap and grad: the program with all its rows, iterated on and certified there.

What the host decides by values (closed forms, faces of budgets without room, symbols to leave out, equal rows to merge)
has no place here. Where a limit leaves no room the result is a mechanism that meets the limits, and its interval may
stay open.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpriv._validation import is_traced
from jaxpriv.certificates import Certificate, certify_measured, interval_of, violation_of
from jaxpriv.certificates.lagrangian import lagrangian
from jaxpriv.errors import InputError
from jaxpriv.leakage.rule_sets import Term
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.measured import MeasuredProgram
from jaxpriv.problems.statement import (
    Limits,
    as_budgets,
    distance_program,
    finite_limits,
    least_worst_program,
    limits_of,
    measured_program,
    measured_values,
    reading,
    worst_program,
)
from jaxpriv.problems.terms import linear_limit
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import Goal, InteriorPoint, iterate
from jaxpriv.solving.dense import distortion_of, own_goal
from jaxpriv.solving.measured.known import ROUNDING_SHARES, independent_release, no_rules
from jaxpriv.solving.measured.next_limit import MOST_PROBES, next_limit
from jaxpriv.solving.measured.one import inner_goal
from jaxpriv.solving.measured.reduction import Reduced

# What a measure may exceed its limit by, relative to 1 + limit.
_ROUNDING = 1e-10
# A limit that rules prove is lowered by the first of these shares that the rounding of the certificate allows.
_LOWERED = (0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6)

NO_DERIVATIVE = (
    "solve has no derivative: the iteration stops where it is good enough. Differentiate optimal_value(problem) or "
    "optimal_mechanism(problem); outside of grad, sensitivity(problem, solution)"
)


class Found(NamedTuple):
    """The best of a program: `value` and `bound` of its total, certified, and the certificate's `violation`."""

    mechanism: Any  # (X, Y)
    k: Any  # (Y, T)
    eta: Any  # (Y, W)
    price: Any  # (B,)
    value: Any
    bound: Any
    violation: Any
    steps: Any


def solve_measured_traced(problem: DistortionProblem, name: str, solver: Any, goal: Goal, max_steps: Any) -> Solution:
    """Solve and certify within one trace."""
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


# ------------------------------------------------------------------------------ one program


@dataclasses.dataclass(frozen=True)
class Posed:
    """A problem that one program states, and how its value reads as one of the measure."""

    problem: DistortionProblem
    limits: Limits
    program: MeasuredProgram
    away: MeasuredProgram | None  # whose solution is the anchor of the program

    @staticmethod
    def of(problem: DistortionProblem) -> "Posed":
        limits = limits_of(problem)
        program = measured_program(problem, limits, True)
        return Posed(problem, limits, program, _toward_limits(problem, limits))

    def inner(self, goal: Goal) -> Goal:
        """The goal in units of the program's total."""
        return inner_goal(goal, reading(self.problem)[0], self.problem)

    def certified(self, found: Found) -> tuple[Any, Any, Any]:
        """(value, lower bound, violation) in the unit of the problem."""
        scale, shift = reading(self.problem)
        value, bound = interval_of(self.problem, scale, shift, found.value, found.bound)
        return value, bound, jnp.maximum(found.violation, _excess(self.problem, self.limits, found.mechanism))


def _toward_limits(problem: DistortionProblem, limits: Limits) -> MeasuredProgram | None:
    """How far from its budgets a problem must stay under its limits; None where what meets both is known."""
    if problem.budget is None:
        return None
    away = distance_program(problem, limits, True)
    if away.terms:
        return away
    return dataclasses.replace(away, terms=(_idle(away.mass),)) if len(away.budgets) > 1 else None


def _idle(mass: Any) -> Term:
    """A limit that always holds, P(y) >= 0: the method needs one row."""
    return linear_limit(-mass[None], np.zeros(1), mass)


def _excess(problem: DistortionProblem, limits: Limits, mechanism: Any) -> Any:
    """By how much the measures themselves exceed their limits, relative to 1 + limit; 0 up to rounding."""
    over = jnp.zeros(())
    for measure, value in finite_limits(limits):
        relative = (measured_values(measure, problem.joints, mechanism).max() - value) / (1.0 + value)
        over = jnp.maximum(over, jnp.where(relative <= _ROUNDING, 0.0, relative))
    return over


def _best(solver: InteriorPoint, program: MeasuredProgram, goal: Goal, max_steps: Any) -> Found:
    """The solver's best for a program that holds an anchor, moved inside the limits and certified."""
    reduced = Reduced.of(jax.tree.map(jnp.asarray, program), goal)
    ran = iterate(solver, reduced.program, reduced.goal, max_steps)
    mechanism, k, eta, price = reduced.expanded(ran.best)
    mechanism = _inside(program, mechanism)
    certificate = certify_measured(program, mechanism, k, eta, price)
    return Found(mechanism, k, eta, price, certificate.value, certificate.lower_bound, certificate.violation, ran.steps)


def _inside(program: MeasuredProgram, mechanism: Any) -> Any:
    """The mechanism, or the least of a few mixtures with releases that meet the limits, the last of them the anchor."""
    return _least_mixture(program.mass, program.anchor, mechanism, lambda one: violation_of(program, one) == 0)


def _least_mixture(mass: Any, anchor: Any, mechanism: Any, met: Callable[[Any], Any]) -> Any:
    marginal = jnp.broadcast_to(mass @ mechanism / mass.sum(), mechanism.shape)
    safe = 0.5 * (marginal + anchor)
    mixed = [(1.0 - share) * mechanism + share * safe for share in (0.0, *ROUNDING_SHARES)]
    tried = jnp.stack([*mixed, anchor])
    return tried[jnp.argmax(jax.vmap(met)(tried))]


def _anchored(solver: InteriorPoint, program: MeasuredProgram, away: Any, max_steps: Any) -> MeasuredProgram:
    """The program with a mechanism that meets its limits, if there is one."""
    if away is not None:
        start = dataclasses.replace(away, anchor=independent_release(away))
        anchor = _best(solver, start, Goal(1e-9, 0.3), max_steps).mechanism
    elif len(program.budgets) and not program.shares:
        anchor = jax.nn.one_hot(program.constraints[0].argmin(axis=1), program.cost.shape[1], dtype=program.cost.dtype)
    else:
        anchor = independent_release(program)
    return dataclasses.replace(program, anchor=anchor)


@partial(jax.jit, static_argnums=0)
def optimum(
    solver: InteriorPoint, program: MeasuredProgram, away: MeasuredProgram | None, goal: Goal, max_steps: Any
) -> Found:
    """The best of a program without an anchor. `away`: the program whose solution is one, if none is known."""
    return _best(solver, _anchored(solver, program, away, max_steps), goal, max_steps)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def undifferentiated_optimum(
    solver: InteriorPoint, program: MeasuredProgram, away: Any, goal: Goal, max_steps: Any
) -> Found:
    """`optimum`; an attempt to differentiate it is refused."""
    return optimum(solver, program, away, goal, max_steps)


@undifferentiated_optimum.defjvp
def _refused(solver: InteriorPoint, primals: Any, tangents: Any) -> Any:
    raise InputError(NO_DERIVATIVE)


# ------------------------------------------------------------------------------ the least worst outcome


@dataclasses.dataclass(frozen=True)
class LeastWorst:
    """The least limit on a worst-outcome measure that the budgets allow, as a function of tracers."""

    parts: Any  # what is traced of the problem, the goal and the steps
    joined: Callable[[Any], tuple[DistortionProblem, Goal, Any]]  # the three again
    solver: InteriorPoint

    @staticmethod
    def of(problem: DistortionProblem, solver: InteriorPoint, goal: Goal, max_steps: Any) -> "LeastWorst":
        leaves, tree = jax.tree.flatten((problem, goal, max_steps))
        places = [i for i, leaf in enumerate(leaves) if is_traced(leaf)]

        def joined(parts: Any) -> Any:
            values = dict(zip(places, parts, strict=True))
            return jax.tree.unflatten(tree, [values.get(i, leaf) for i, leaf in enumerate(leaves)])

        return LeastWorst([leaves[i] for i in places], joined, solver)

    def found(self, parts: Any) -> Found:
        """It, certified; an attempt to differentiate it is refused. Values are those of the measure."""

        @jax.custom_jvp
        @jax.jit
        def without_derivative(parts: Any) -> Found:
            problem, goal, max_steps = self.joined(parts)
            found = _searched if problem.leakage.linear else _from_one_program
            return found(self.solver, problem, goal, max_steps)

        @without_derivative.defjvp
        def _refused(primals: Any, tangents: Any) -> Any:
            raise InputError(NO_DERIVATIVE)

        with jax.numpy_rank_promotion("allow"):
            return without_derivative(parts)

    def slope(self, parts: Any, change: Any, at: Found) -> Any:
        """How the least limit e moves: it is the root of the distance to the budgets, whose Lagrangian is known."""

        def distance(parts: Any, e: Any) -> Any:
            program = worst_program(self.joined(parts)[0], e, True)
            return lagrangian(program, at.mechanism, at.k, at.eta, at.price)

        moved = jax.jvp(lambda parts: distance(parts, at.value), (parts,), (change,))[1]
        falls = -jax.jvp(lambda e: distance(parts, e), (at.value,), (jnp.ones_like(at.value),))[1]
        return jnp.where(at.value > 0, moved / jnp.where(falls > 0, falls, jnp.nan), 0.0)


def _from_one_program(solver: InteriorPoint, problem: DistortionProblem, goal: Goal, max_steps: Any) -> Found:
    """The minimax program, as on the host (`worst_outcome`)."""
    further = limits_of(problem)
    limits = as_budgets(distance_program(problem, further, True))

    def violation(mechanism: Any) -> Any:
        return jnp.maximum(violation_of(limits, mechanism), _excess(problem, further, mechanism))

    start = _start(solver, problem, further, max_steps)
    high = _leak(problem, start)
    program = dataclasses.replace(least_worst_program(problem, True), anchor=start)
    reduced = Reduced.of(jax.tree.map(jnp.asarray, program), goal)
    ran = iterate(solver, reduced.program, reduced.goal, jnp.where(high > goal.tol, max_steps, 0))
    mechanism, k, eta, price = reduced.expanded(ran.best)
    mechanism = _least_mixture(program.mass, start, mechanism, lambda one: violation(one) == 0)
    leak = _leak(problem, mechanism)
    total = price[: len(program.budgets)].sum()
    total = jnp.where(total > 0, total, 1.0)
    duals = k / total, eta / total, price / total

    def proved(e: Any) -> Any:
        return certify_measured(worst_program(problem, e, True), start, *duals).lower_bound > 0

    tried = jnp.maximum(ran.best.bound * reduced.factor, 0.0) * (1.0 - jnp.asarray(_LOWERED))
    proofs = jax.vmap(proved)(tried)
    low = jnp.where(proofs.any(), tried[jnp.argmax(proofs)], 0.0)
    better = leak < high
    mechanism, high = jnp.where(better, mechanism, start), jnp.where(better, leak, high)
    return Found(mechanism, *duals, high, low, violation(mechanism), ran.steps)


def _leak(problem: DistortionProblem, mechanism: Any) -> Any:
    return measured_values(problem.leakage, problem.joints, mechanism).max()


def _start(solver: InteriorPoint, problem: DistortionProblem, further: Limits, max_steps: Any) -> Any:
    """A mechanism that meets the budgets and the further limits, if there is one: nothing is told where possible."""
    within = as_budgets(distance_program(problem, (), True))
    start = _anchored(solver, within, _toward_limits(problem, further), max_steps).anchor
    free = (within.constraints.sum(axis=1) <= within.budgets[:, None]).all(axis=0)
    symbol = jax.nn.one_hot(free.argmax(), len(free), dtype=start.dtype)
    return jnp.where(free.any(), jnp.broadcast_to(symbol, start.shape), start)


class _Search(NamedTuple):
    """Where the search stands: the least limit is proved to be at least `low`, and `best` has `high`."""

    low: Any
    high: Any
    f_low: Any  # the distances to the budgets at both
    f_high: Any
    last: Any  # which end moved last: -1, 1
    e: Any  # the next limit to try
    best: Any  # (X, Y)
    k: Any  # what proves `low`
    eta: Any
    price: Any
    steps: Any
    probes: Any
    stuck: Any


def _searched(solver: InteriorPoint, problem: DistortionProblem, goal: Goal, max_steps: Any) -> Found:
    """One distance to the budgets after another, as on the host, until an interval of the distance holds 0."""
    further = limits_of(problem)
    within = as_budgets(distance_program(problem, (), True))

    def going(at: _Search) -> Any:
        size = jnp.where(jnp.isfinite(at.high), at.high, 0.0)
        wide = at.high - at.low > jnp.maximum(goal.tol, goal.rtol * size)
        return wide & ~at.stuck & (at.probes < MOST_PROBES)

    def probed(at: _Search) -> _Search:
        program = worst_program(problem, at.e, True)
        program = dataclasses.replace(program, anchor=independent_release(program))
        found = _best(solver, program, Goal(1e-10, 0.1), max_steps)
        below = found.bound > 0
        limits = ((problem.leakage, at.e), *further)
        met = (found.violation == 0) & (_excess(problem, limits, found.mechanism) == 0)
        above = ~below & (found.value <= 0) & met
        low, high = (
            jnp.where(below, at.e, at.low),
            jnp.where(above, jnp.minimum(at.e, _leak(problem, found.mechanism)), at.high),
        )
        f_low, f_high = jnp.where(below, found.bound, at.f_low), jnp.where(above, found.value, at.f_high)
        last = jnp.where(below, -1, jnp.where(above, 1, at.last))
        k, eta, price = (
            jnp.where(below, new, old) for new, old in zip(found[1:4], (at.k, at.eta, at.price), strict=True)
        )
        best = jnp.where(above, found.mechanism, at.best)
        e = next_limit(low, high, f_low, f_high, last, goal.tol)
        steps, probes = at.steps + found.steps, at.probes + 1
        return _Search(low, high, f_low, f_high, last, e, best, k, eta, price, steps, probes, ~(below | above))

    start = _start(solver, problem, further, max_steps)
    high = _leak(problem, start)
    first = jnp.minimum(1.0, 0.5 * high)
    zero, unknown = jnp.zeros_like(high), jnp.full_like(high, jnp.nan)
    k, eta, price = (jnp.asarray(part) for part in no_rules(worst_program(problem, first, True)))
    nothing = jnp.array(0)
    begun = _Search(
        zero, high, unknown, unknown, nothing, first, start, k, eta, price, nothing, nothing, jnp.array(False)
    )
    end = lax.while_loop(going, probed, begun)
    violation = jnp.maximum(violation_of(within, end.best), _excess(problem, further, end.best))
    return Found(end.best, end.k, end.eta, end.price, end.high, end.low, violation, end.steps)
