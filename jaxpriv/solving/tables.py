"""Problems whose tables fit into memory, outside of jit: one convex program each, or the least worst outcome."""

import dataclasses
import itertools
import math
import time

import jax.numpy as jnp
import numpy as np

from jaxpriv._clock import Clock
from jaxpriv._types import Arr, ScalarLike
from jaxpriv._validation import is_traced
from jaxpriv.certificates import least_limit, violation_of
from jaxpriv.errors import InfeasibleError
from jaxpriv.problems import feasibility
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.feasibility import Face
from jaxpriv.problems.program import Program
from jaxpriv.problems.statement import (
    as_budgets,
    distance_program,
    least_worst_program,
    limits_of,
    measured_program,
    worst_program,
)
from jaxpriv.solution import Solution, no_solution
from jaxpriv.solvers import Candidate, Goal
from jaxpriv.solving.choice import Solver
from jaxpriv.solving.closed_forms import ROUNDING_SHARES, independent_release, no_rules
from jaxpriv.solving.host import CertifiedCandidate, Solve, check_limits, on_face, own_goal
from jaxpriv.solving.reduction import Reduced

# The rule by which the search for the least worst-outcome limit goes on, on the host and under a trace.


# Probes of the search over limits: a secant needs about ten, bisection from 1 to 1e-9 thirty.
MOST_PROBES = 60


# How far the root is moved, in tolerances, to the side that did not move last; it stays this share of the interval from
# its ends; without an interval the limit grows fourfold, from 1 at first. Choices: they change the number of probes.
_MOVED, _MARGIN, _GROWTH, _FIRST = 0.3, 0.02, 4.0, 0.25
# How near the budgets the distance to them is computed: well below the rounding of budgets of order one, or a tenth of
# it.
_DISTANCE = Goal(1e-10, 0.1)


def next_limit(
    low: ScalarLike, high: ScalarLike, f_low: ScalarLike, f_high: ScalarLike, last: ScalarLike, tol: ScalarLike
) -> ScalarLike:
    """The next limit to try inside (low, high), where the distance falls from f_low > 0 to f_high <= 0.

    The root of the secant, moved a little to the side that did not move last, so that both ends close in.
    """
    xp = jnp if is_traced(low, high, f_low, f_high, last, tol) else np
    bounded = xp.isfinite(high)
    width = xp.where(bounded, high, low) - low
    fall = f_low - f_high
    known = xp.isfinite(fall) & (fall != 0.0)
    root = low + width * xp.where(known, f_low, 0.0) / xp.where(known, fall, 1.0)
    root = root + xp.where(last < 0, _MOVED, -_MOVED) * tol
    root = xp.minimum(xp.maximum(root, low + _MARGIN * width), high - _MARGIN * width)
    return xp.where(bounded, xp.where(known, root, low + 0.5 * width), _GROWTH * xp.maximum(low, _FIRST))


# The least worst-outcome leakage within budgets: one program where the measure's sets are smooth, otherwise a search.
#
# At a fixed limit e on the measure the distance to the budgets is one convex program, and it is positive exactly where
# no mechanism within the budgets has that limit (Calmon and Fawaz 2012, Theorem 2). Sets of smooth kinds do not depend
# on e: the largest ratio of an output is then minimised at once (`least_worst_program`), by rules and prices that are
# those of the distance at the limit they prove, once the prices of the budgets are divided by their sum. The rows of
# log-ratios contain e^e: there one distance after another is solved, until an interval of the distance holds 0; so it
# is where the one program stalls. Either way the ends of the interval are proved: at the upper one a mechanism meets
# the budgets, at the lower one the certified distance to the budgets is positive.


# How far from the limits whose distance is undecided to the nearer end the next probe goes, as a share of the way.
_CLOSER = 0.1
# Outputs of less mass than this are left out of a mechanism that is moved onto a face, from none on.
_RARE = (0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


def least_worst_leakage(solve: Solve, goal: Goal, begun: float) -> Solution:
    """The least limit on a worst-outcome measure that the budgets allow."""
    problem = solve.problem
    check_limits(problem, solve.further)
    within = as_budgets(distance_program(problem, ()))
    independent = feasibility.independent(within)
    if independent is not None:
        nothing = no_rules(worst_program(problem, 0.0))
        return solve.finish(
            CertifiedCandidate(np.asarray(independent), *nothing, 0.0, 0.0, 0.0, "closed-form"), 0.0, 0.0, goal, begun
        )
    start, face = solve.anchor(within, solve.further, True)
    if problem.leakage.linear:
        answer, high, low = searched(solve, goal, start, face)
    else:
        answer, high, low = from_one_program(solve, goal, start, face)
    low = least_limit(problem, answer.k, answer.eta, answer.price, low, high)
    if not problem.leakage.linear and high - low > max(goal.tol, goal.rtol * high) and not solve.clock.expired():
        # The one program stalled: where outputs exclude symbols the search may come nearer, in ten times the steps.
        second, lower, raised = searched(solve, goal, answer.mechanism, face)
        raised = least_limit(problem, second.k, second.eta, second.price, raised, lower)
        if lower < high:
            answer, high = dataclasses.replace(answer, mechanism=second.mechanism), lower
        if raised > low:
            answer, low = dataclasses.replace(answer, k=second.k, eta=second.eta, price=second.price), raised
    return solve.finish(answer, high, low, goal, begun)


def from_one_program(
    solve: Solve, goal: Goal, start: np.ndarray, face: Face | None
) -> tuple[CertifiedCandidate, float, float]:
    """(answer, its leakage, the limit that its rules are to prove) of the minimax program.

    `start`: a mechanism that meets every limit; `face`: of budgets that leave no room.
    """
    problem = solve.problem
    high = solve.leak(start)
    best = CertifiedCandidate(start, *no_rules(worst_program(problem, 0.0)), 0.0, 0.0, 0.0, solve.name)
    if high <= goal.tol or solve.clock.expired():
        return best, high, 0.0
    program = dataclasses.replace(least_worst_program(problem), anchor=start)
    reduced = Reduced.of(program if face is None else on_face(program, face), goal)

    def report(candidate: Candidate, steps: Arr) -> None:
        value, bound = (float(one) * reduced.factor for one in (candidate.value, candidate.bound))
        solve.clock.report(solve.name, steps, min(value, high), max(bound, 0.0))

    found = solve.iterated(program, reduced, face, report)
    if found is None:
        return best, high, 0.0
    mechanism, k, eta, price, steps, bound = found
    solve.steps += steps
    total = price[: len(program.budgets)].sum()
    if total > 0:
        best = dataclasses.replace(best, k=k / total, eta=eta / total, price=price / total)
    mechanism = _within(solve, program, mechanism, start)
    if (leak := solve.leak(mechanism)) < high:
        best, high = dataclasses.replace(best, mechanism=mechanism), leak
    return best, high, max(bound * float(reduced.factor), 0.0)


def _within(solve: Solve, program: Program, mechanism: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The mechanism, or the least of a few mixtures with a release inside the limits that meets them; else `start`."""
    limits = as_budgets(distance_program(solve.problem, solve.further))
    marginal = np.broadcast_to(program.mass @ mechanism / program.mass.sum(), mechanism.shape)
    safe = 0.5 * (marginal + start)
    mixtures = ((1.0 - share) * mechanism + share * safe for share in ROUNDING_SHARES)
    met = lambda one: violation_of(limits, one) == 0 and solve.excess(solve.further, one) == 0  # noqa: E731
    return next((one for one in itertools.chain([mechanism], mixtures) if met(one)), start)


def searched(solve: Solve, goal: Goal, start: np.ndarray, face: Face | None) -> tuple[CertifiedCandidate, float, float]:
    """The same by one distance after another."""
    problem = solve.problem
    low, high = 0.0, solve.leak(start)
    f_low, f_high = math.nan, math.nan
    # The mechanism is that of the upper end, the rules and prices are those that prove the lower end.
    nothing = no_rules(worst_program(problem, 0.0))
    best, proof = CertifiedCandidate(start, *nothing, 0.0, 0.0, 0.0, solve.name), nothing
    e, last, near, width = min(1.0, 0.5 * high), 0, False, high
    open_low, open_high = math.inf, -math.inf  # the limits at which the interval of the distance held 0
    for _ in range(MOST_PROBES):
        if high - low <= max(float(goal.tol), float(goal.rtol) * high) or solve.clock.expired():
            break
        found = _distance(solve, e)
        if face is not None and found.bound <= 0:
            found = _on_face(solve, as_budgets(distance_program(problem, ())), face, found)
        if found.bound > 0:
            low, f_low, last, proof = e, found.bound, -1, (found.k, found.eta, found.price)
            if face is not None:
                low = least_limit(problem, *proof, e, high)  # the same rules often prove a little more
        elif found.value <= 0 and found.violation == 0 and (face is None or solve.leak(found.mechanism) < high):
            leak = solve.leak(found.mechanism)  # of a mechanism that was moved onto the face it may be above e
            high, f_high, best, last = leak if face is not None else min(e, leak), found.value, found, 1
        else:
            open_low, open_high = min(open_low, e), max(open_high, e)
        solve.clock.report(solve.name, solve.steps, high, low)
        if open_low <= open_high:  # close in on those limits from both sides, as far as there is something to gain
            above, below = high - open_high, open_low - low
            if face is not None or max(above, below) <= open_high - open_low:
                break
            e = open_high + _CLOSER * above if above > below else open_low - _CLOSER * below
        elif face is None:
            e = float(next_limit(low, high, f_low, f_high, last, goal.tol))
        else:  # the distance is 0 at every limit that can be met: there is no secant
            near, width = last < 0 and (not near or high - low < 0.5 * width), high - low
            e = low + (min(_MOVED * float(goal.tol), 0.5 * width) if near else 0.5 * width)
    k, eta, price = proof
    return dataclasses.replace(best, k=k, eta=eta, price=price), high, low


def _distance(solve: Solve, e: float) -> CertifiedCandidate:
    program = worst_program(solve.problem, e)
    program = dataclasses.replace(program, anchor=independent_release(program))
    return solve.run(program, ((solve.problem.leakage, e), *solve.further), _DISTANCE)


def _on_face(solve: Solve, program: Program, face: Face, found: CertifiedCandidate) -> CertifiedCandidate:
    """The answer at distance 0 that a mechanism near the face of the budgets stands for.

    Outputs of next to no mass may owe their ratios to entries outside the face: they are left out as well.
    """
    best = dataclasses.replace(found, value=np.inf)
    mass = program.mass @ found.mechanism / program.mass.sum()
    for share in _RARE:
        mechanism = face.onto(program, np.where(mass > share, found.mechanism, 0.0))
        violation = max(violation_of(program, mechanism), solve.excess(solve.further, mechanism))
        leak = solve.leak(mechanism)
        if violation == 0 and leak < best.value:
            best = dataclasses.replace(found, mechanism=mechanism, value=leak, violation=0.0)
    return dataclasses.replace(best, value=0.0) if np.isfinite(best.value) else found


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
