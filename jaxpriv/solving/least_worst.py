"""The least worst-outcome leakage within budgets: one program, and a search where that does not reach the goal.

At a fixed limit e on the measure the distance to the budgets is one convex program, and it is positive exactly where
no mechanism within the budgets has that limit (Calmon and Fawaz 2012, Theorem 2). The limits are affine in e, or in
its exponential: the largest ratio of an output is minimised at once (`least_worst_program`), by rules and prices that
are multiples of those of the distance at the limit they prove (`of_distance`). Linear rows on a face of the budgets,
the solvers of linear programs, and rows of another kind take one distance after another, until an interval of the
distance holds 0; so it is where the one program stalls. Either way the ends of the interval are proved: at the upper
one a mechanism meets the budgets, at the lower one the certified distance to the budgets is positive.
"""

import dataclasses
import math

import numpy as np

from jaxpriv._runtime.types import Arr
from jaxpriv.leakage import AbstractPointwiseLeakage
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates import certify_program, least_limit, violation_of
from jaxpriv.program.certificates.lagrangian import lagrangian
from jaxpriv.program.convex import CertifiedCandidate, Program
from jaxpriv.program.lower import (
    as_budgets,
    distance_program,
    least_worst_program,
    of_distance,
    worst_program,
)
from jaxpriv.program.solution import Solution
from jaxpriv.reductions.closed_forms import independent, independent_release, mixtures, no_rules
from jaxpriv.reductions.faces import Face, moved_onto
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Candidate, Goal, PrimalDualHybridGradient
from jaxpriv.solving.choice import BY_DISTANCES
from jaxpriv.solving.loops import LastState
from jaxpriv.solving.stages import Lowered, Stages, check_limits

# Probes of the search over limits: it needs five or six as a rule, bisection from 1 to 1e-9 thirty.
MOST_PROBES = 60
# Limits to try, in tolerances: so far above the root of a distance, and at least so far from the ends of the interval;
# those ends in shares of the interval where the root is outside of it. Without an interval the limit grows fourfold,
# from 1 at first. After so many probes that are no progress the interval is halved. Choices: they change the number of
# probes.
ABOVE, FROM_END, MARGIN, GROWTH, FIRST, SLOW = 0.2, 0.3, 0.1, 4.0, 0.25, 2
# A distance is computed to its sign, to a tenth of itself (from 1e-10 on: well below the rounding of budgets of order
# one), or to this share of what the tolerance of the limit makes of it.
NEEDED, DISTANCE = 0.2, Goal(1e-10, 0.1)
# Step of the slope of a Lagrangian, relative to the limit: the error of the difference is of its square.
_STEP = 1e-5


# How far from the limits whose distance is undecided to the nearer end the next probe goes, as a share of the way.
_CLOSER = 0.1
# What the differences of rows at three limits, of a size of one, may differ by where they are affine in the limit.
_ROUNDING = 1e-13
# The least share of the prices of budgets in those of budgets and forbidden pairs: of none the quotient is infinite.
_LEAST_SHARE = 1e-10


def least_worst_leakage(stages: Stages) -> Solution:
    """The least limit on a worst-outcome measure that the budgets allow."""
    problem, goal = stages.problem, stages.goal
    check_limits(problem, stages.further)
    within = as_budgets(distance_program(problem, ()))
    unrelated = independent(within)
    if unrelated is not None:
        nothing = no_rules(worst_program(problem, 0.0))
        answer = CertifiedCandidate(np.asarray(unrelated), nothing, 0.0, 0.0, 0.0, "closed-form")
        return stages.finish(answer, 0.0, 0.0)
    start, face = stages.feasible_point(within)
    # On a face of the budgets the mechanisms that have a finite ratio may have no interior.
    on_edge = face is not None and face.held.any() and problem.leakage.linear
    alone = isinstance(stages.solver, BY_DISTANCES) or on_edge or not _affine(problem)
    answer, high, low = (searched if alone else from_one_program)(stages, start, face)
    low = least_limit(problem, *answer.duals, low, high)
    if not alone and high - low > max(goal.tol, goal.rtol * high) and not stages.clock.expired():
        # The one program stalled: where outputs exclude symbols the search may come nearer, in ten times the steps.
        second, lower, raised = searched(stages, answer.mechanism, face)
        raised = least_limit(problem, *second.duals, raised, lower)
        if lower < high:
            answer, high = dataclasses.replace(answer, mechanism=second.mechanism), lower
        if raised > low:
            answer, low = dataclasses.replace(answer, duals=second.duals), raised
    over = max(float(violation_of(within, answer.mechanism)), stages.excess(answer.mechanism))
    return stages.finish(dataclasses.replace(answer, violation=over), high, low)


def _affine(problem: DistortionProblem) -> bool:
    """Whether the rows of a linear measure are as `least_worst_program` takes them: a user's own may have any."""
    if not problem.leakage.linear or isinstance(problem.leakage, AbstractPointwiseLeakage):
        return True
    limits = (worst_program(problem, limit).terms[: len(problem.joints)] for limit in (0.0, 1.0, 2.0))
    return all(
        not none.normalised
        and np.allclose(double.rows - single.rows, single.rows - none.rows, rtol=0.0, atol=_ROUNDING)
        for none, single, double in zip(*limits, strict=True)
    )


def from_one_program(stages: Stages, start: np.ndarray, face: Face | None) -> tuple[CertifiedCandidate, float, float]:
    """(answer, its leakage, the limit that its rules are to prove) of the minimax program.

    `start`: a mechanism that meets every limit; `face`: of budgets that have no slack.
    """
    problem = stages.problem
    high = stages.leak(start)
    best = CertifiedCandidate(start, no_rules(worst_program(problem, 0.0)), 0.0, 0.0, 0.0, stages.name)
    if high <= stages.goal.tol or stages.clock.expired():
        return best, high, 0.0
    program = dataclasses.replace(least_worst_program(problem), feasible_point=start)
    reduced = Reduced.of(program, stages.goal, face)

    def report(candidate: Candidate, steps: Arr, length: float | None) -> None:
        if stages.clock.reports:
            value, bound = (float(reduced.limit(distance)) for distance in (candidate.value, candidate.bound))
            numbers = steps, min(value, high), max(bound, 0.0), length
            stages.show(reduced, candidate, numbers)

    ran, parts = stages.iterated(reduced, report)
    if parts is None:
        return best, high, 0.0
    mechanism = _within(stages, program, parts[0], start)
    if (leak := stages.leak(mechanism)) < high:
        best, high = dataclasses.replace(best, mechanism=mechanism), leak
    low = max(float(reduced.limit(float(ran.best.bound))), 0.0)
    duals = of_distance(program, worst_program(problem, low), low, high, *parts[1:])
    return dataclasses.replace(best, duals=duals), high, low


def _within(stages: Stages, program: Program, mechanism: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The mechanism, or the least of a few mixtures with a release inside the limits that meets them; else `start`."""
    limits = as_budgets(distance_program(stages.problem, stages.further))
    return next(
        (
            mixture
            for mixture in mixtures(program, mechanism, start)
            if violation_of(limits, mixture) == 0 and stages.excess(mixture) == 0
        ),
        start,
    )


def searched(stages: Stages, start: np.ndarray, face: Face | None) -> tuple[CertifiedCandidate, float, float]:
    """The same by one distance after another.

    The rules of a distance bound it at every limit, so the root of what they prove is a lower end; a mechanism outside
    the budgets, mixed with the best one within them, is often a better one. The next limit is a little above the root
    of the Lagrangian's tangent: the slope of the Lagrangian is that of the distance (`certificates.lagrangian`), and
    its value has an error of second order.
    """
    problem, goal = stages.problem, stages.goal
    within = as_budgets(distance_program(problem, stages.further))
    low, high = 0.0, stages.leak(start)
    stages.last = LastState() if isinstance(stages.solver, PrimalDualHybridGradient) else None
    # The mechanism is that of the upper end, the rules and prices are those that prove the lower end.
    proof = no_rules(worst_program(problem, 0.0))
    best, outside = CertifiedCandidate(start, proof, 0.0, 0.0, 0.0, stages.name), None
    e, f, needed, slow = min(1.0, 0.5 * high), math.inf, 0.0, 0
    near, below, width = False, False, high
    open_low, open_high = math.inf, -math.inf  # the limits at which the interval of the distance held 0
    for _ in range(MOST_PROBES):
        allowed = max(float(goal.tol), float(goal.rtol) * high if math.isfinite(high) else 0.0)
        if high - low <= allowed or stages.clock.expired():
            break
        nearest = _distance(stages, e, needed)
        if face is not None and nearest.bound <= 0:
            nearest = _on_face(stages, as_budgets(distance_program(problem, ())), face, nearest)
        met = nearest.value <= 0 and nearest.violation == 0
        most = min(high, GROWTH * max(e, FIRST))
        proved = least_limit(problem, *nearest.duals, *((e, most) if nearest.bound > 0 else (low, min(e, most))))
        if proved > low:
            low, proof = proved, nearest.duals
        tried = [nearest.mechanism] if met else []
        if nearest.bound > 0:
            outside = nearest.mechanism
        if outside is not None and face is None:
            tried.append(np.asarray(nearest_mixture(within, outside, nearest.mechanism if met else best.mechanism)))
        tried = [
            mechanism for mechanism in tried if violation_of(within, mechanism) == 0 and stages.excess(mechanism) == 0
        ]
        gained = False
        for mechanism in tried:
            if (leak := stages.leak(mechanism)) < high:
                high, best, gained = leak, dataclasses.replace(nearest, mechanism=mechanism), True
        below = nearest.bound > 0 or (below and not met)
        stages.clock.report(stages.name, stages.steps, high, low)
        # On a face what is met has to be better too.
        if nearest.bound <= 0 and not (met and (face is None or gained)):
            if needed > 0:  # it was computed to no more than that
                needed = 0.0
                continue
            open_low, open_high = min(open_low, e), max(open_high, e)
        before, width = width, high - low
        half = 0.5 * width if math.isfinite(width) else GROWTH * max(low, FIRST) - low
        if open_low <= open_high:  # close in on those limits from both sides, as far as there is something to gain
            over, under = min(high, GROWTH * max(open_high, FIRST)) - open_high, open_low - low
            if face is not None or max(over, under) <= open_high - open_low:
                break
            e = open_high + _CLOSER * over if over > under else open_low - _CLOSER * under
        elif face is None:
            last, (f, slope) = f, _tangent(problem, e, nearest)
            slow = 0 if abs(f) <= 0.5 * abs(last) or width <= 0.5 * before else slow + 1
            if slow < SLOW and slope < 0:
                margin = MARGIN * width if math.isfinite(width) else 0.0
                least = min(FROM_END * allowed, 0.5 * width) if f > 0 else margin
                e = min(max(e - f / slope + ABOVE * allowed, low + least), high - margin)
                needed = NEEDED * allowed * abs(slope)
            else:
                e, needed, slow = low + half, 0.0, 0
        else:  # the distance is 0 at every limit that can be met: there is no slope
            near = below and (not near or width < 0.5 * before)
            e = low + (min(FROM_END * float(goal.tol), half) if near else half)
    return dataclasses.replace(best, duals=proof), high, low


def _tangent(problem: DistortionProblem, e: float, nearest: CertifiedCandidate) -> tuple[float, float]:
    """The Lagrangian of the distance at the limit e, and its slope there."""
    under, over = (
        float(lagrangian(worst_program(problem, limit), nearest.mechanism, *nearest.duals))
        for limit in ((1.0 - _STEP) * e, (1.0 + _STEP) * e)
    )
    return 0.5 * (under + over), 0.5 * (over - under) / (_STEP * e)


def nearest_mixture(within: Program, outside: Arr, inside: Arr) -> Arr:
    """The mixture of both mechanisms that is as near to the first as the budgets allow."""
    used, held = ((within.constraints * mechanism).sum(axis=(1, 2)) for mechanism in (outside, inside))
    over = used > within.budgets
    shares = np.where(over, (within.budgets - held) / np.where(over, used - held, 1.0), 1.0)
    share = np.clip(shares.min(initial=1.0), 0.0, 1.0)
    return share * outside + (1.0 - share) * inside


def _distance(stages: Stages, e: float, needed: float) -> CertifiedCandidate:
    """The distance at the limit e, to `needed` or as near as its sign.

    Where pairs are forbidden the mass on them is one more distance: what ignores the data is a mechanism then, too.
    """
    program = worst_program(stages.problem, e)
    asked = _on_every_pair(program) if program.forbids else program
    asked = dataclasses.replace(asked, feasible_point=independent_release(asked))
    limits, goal = ((stages.problem.leakage, e), *stages.further), Goal(max(needed, DISTANCE.tol), DISTANCE.rtol)
    nearest = stages.run(Lowered(asked, limits, goal))
    if not program.forbids:
        return nearest
    # On the allowed pairs the same rules prove more: what is left of the prices has the sum of one.
    count = len(program.budgets)
    k, eta, price = nearest.duals
    share = max(float(price[:count].sum()), _LEAST_SHARE)
    duals = k / share, eta / share, np.delete(price, count) / share
    bound = float(certify_program(program, nearest.mechanism, *duals).lower_bound)
    return dataclasses.replace(nearest, duals=duals, bound=bound)


def _on_every_pair(program: Program) -> Program:
    """The distance to the budgets and, in shares of the data, to what has no mass on a forbidden pair."""
    mass = np.where(program.support, 0.0, program.mass[:, None])
    return dataclasses.replace(
        program,
        constraints=np.concatenate([program.constraints, mass[None]]),
        budgets=np.append(program.budgets, 0.0),
        marks=np.append(program.marks, 1.0),
        support=np.ones_like(program.support),
        forbids=False,
    )


def _on_face(stages: Stages, program: Program, face: Face, nearest: CertifiedCandidate) -> CertifiedCandidate:
    """The answer at distance 0 that a mechanism near the face of the budgets stands for."""
    best = dataclasses.replace(nearest, value=np.inf)
    for mechanism in moved_onto(face, program, nearest.mechanism):
        violation = max(violation_of(program, mechanism), stages.excess(mechanism))
        leak = stages.leak(mechanism)
        if violation == 0 and leak < best.value:
            best = dataclasses.replace(nearest, mechanism=mechanism, value=leak, violation=0.0)
    return dataclasses.replace(best, value=0.0) if np.isfinite(best.value) else nearest
