"""What `auto` does where a method on tables stops far from its goal: the next method, and the best of both."""

import dataclasses
import math

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.errors import NotCertifiedError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates import certify_program
from jaxpriv.program.solution import Solution, Status
from jaxpriv.reductions.faces import off_face
from jaxpriv.solvers import (
    AcceleratedMirrorDescent,
    InteriorPoint,
    MirrorDescent,
    PrimalDualHybridGradient,
)
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solving.choice import Request, not_by_products, step_limit
from jaxpriv.solving.cutting_planes import cut
from jaxpriv.solving.least_worst import least_worst_leakage
from jaxpriv.solving.stages import Stages, solve_dense
from jaxpriv.solving.streamed import Unsuited, solve_streamed
from jaxpriv.solving.streamed_runs import PRODUCTS

# A first-order method is of use where the gap is above this share of the value: it reaches little less.
_LARGE_GAP = 1e-4
# The first method's share of a time limit where there is time for the next one: the first may stall, and the next one
# takes seconds then.
FIRST_SHARE = 0.6
# Processor seconds of a first-order method before its first step (surveys, compiling, certificates), and the passes
# until it is of use.
_BEFORE, _USEFUL = 12.0, 30
# Processor seconds of HiGHS for so many products |S| |X| |Y|, and how they grow: maximal leakage and total variation,
# |S| = 16, 32 to 256 symbols (0.06, 0.27, 2.3, 19 s). Max-lift takes up to six times as long, the interior point takes
# a tenth at the largest size. In a large program HiGHS exceeds its time limit several times.
_HIGHS = 19.0, 2**20, 1.4
# Entries of a mechanism up to which cutting planes take seconds.
_CUTTABLE = 200
# Most steps of mirror descent as a fallback, whose first ones close most of what it can close, and of the hybrid
# gradient: 10,000 iterations.
_FEW_STEPS, _FEW_LOOKS = 2000, 400


def has_next_method(problem: DistortionProblem) -> bool:
    """Whether there is a method to go on with."""
    return problem.of_information or problem.linear or _cuttable(problem) or not_by_products(problem) is None


def first_share(problem: DistortionProblem, clock: Clock) -> float:
    """The first method's share of the time that is left: all of it where the rest is too short for the next one, or
    there is none.
    """
    return FIRST_SHARE if has_next_method(problem) and _seconds(problem) <= (1.0 - FIRST_SHARE) * clock.left else 1.0


def _seconds_of_first_order(problem: DistortionProblem) -> float:
    """The seconds that a first-order method takes until it is of use."""
    return _BEFORE + _USEFUL * math.prod(problem.sizes) / PRODUCTS


def _seconds(problem: DistortionProblem) -> float:
    """What the next method takes at least."""
    of_first_order = _seconds_of_first_order(problem)
    if problem.of_information:
        return of_first_order
    if problem.linear:
        return min(_seconds_of_highs(problem), of_first_order if not_by_products(problem) is None else math.inf)
    return 0.0 if _cuttable(problem) else of_first_order


def _seconds_of_highs(problem: DistortionProblem) -> float:
    """The seconds that HiGHS takes at least for a linear program."""
    seconds, size, power = _HIGHS
    return seconds * (math.prod(problem.sizes) / size) ** power


def _cuttable(problem: DistortionProblem) -> bool:
    """Whether cutting planes take it: one convex program, small."""
    return not problem.form.minimax and math.prod(problem.shape) <= _CUTTABLE


def with_next_method(problem: DistortionProblem, first: Solution, request: Request) -> Solution:
    """`first`; where it is far from the goal the better mechanism, with the better bound, of it and of the next method.

    Next is, of a problem on mutual information, the accelerated method where it streams, otherwise mirror descent; of a
    linear program, HiGHS where it has the time, and then the hybrid gradient; of another small program, linear programs
    over rules, which go on from what `first` has, however near it is, and then the hybrid gradient; of another large
    one, the hybrid gradient. Mechanism and proof are certified together; of HiGHS and the hybrid gradient the result
    with the smaller gap is taken whole.
    """
    clock, goal, missed = request.clock, request.goal, first.code == Status.NOT_CERTIFIED
    stalled = missed and first.gap > _LARGE_GAP * abs(first.value)
    if not has_next_method(problem) or clock.expired():
        return first
    if not (stalled or first.stopped or (missed and not problem.of_information)):
        return first
    name = "accelerated" if problem.streams else "mirror-descent"
    try:
        if not problem.of_information:
            name, further = "hybrid-gradient", stalled or bool(first.stopped)
            if not problem.linear and _cuttable(problem):
                first = _or_by_cutting_planes(problem, first, request)
                further = first.code == Status.NOT_CERTIFIED and first.gap > _LARGE_GAP * abs(first.value)
            elif problem.linear and further and _seconds_of_highs(problem) <= clock.left:
                first = _or_whole(first, Stages(problem, "linear-program", LinearProgram(), goal, 0, clock))
                further = first.code == Status.NOT_CERTIFIED
            if not further or clock.expired() or not_by_products(problem) is not None:
                return first
        if clock.left < _seconds_of_first_order(problem):
            return first
        if not problem.of_information:
            few = min(_FEW_LOOKS, request.max_steps or _FEW_LOOKS)
            return _or_whole(first, Stages(problem, name, PrimalDualHybridGradient(), goal, few, clock))
        if problem.streams:
            alone = dataclasses.replace(request, throw=False)
            second = solve_streamed(problem, name, AcceleratedMirrorDescent(), alone, ())
            second = dataclasses.replace(second, mechanism=second.mechanism.matrix())
        else:
            few = min(_FEW_STEPS, request.max_steps or _FEW_STEPS)
            second = solve_dense(Stages(problem, name, MirrorDescent(), goal, few, clock), False)
    except (Unsuited, NotCertifiedError) as reason:
        return dataclasses.replace(first, notes=(*first.notes, f"auto: {name} not tried, because {reason}"))
    best = first if first.value <= second.value else second
    proof = first if first.lower_bound >= second.lower_bound else second
    steps = int(first.steps + second.steps)
    stages = Stages(problem, f"{first.solver}, {name}", MirrorDescent(), goal, 0, clock, steps)
    return _noted(first, name, stages.combined(np.asarray(best.mechanism), proof), second.seconds)


def _noted(first: Solution, name: str, result: Solution, seconds: dict[str, float] | None = None) -> Solution:
    """`result` with a note on the method that came after `first`, and its `seconds` with those of `first`."""
    note = f"auto: {name} next, {first.solver} ended at a gap of {first.gap:.2e}"
    if first.seconds and seconds:
        result = dataclasses.replace(result, seconds={key: took + seconds[key] for key, took in first.seconds.items()})
    return dataclasses.replace(result, notes=(*first.notes, note))


def _or_by_cutting_planes(problem: DistortionProblem, first: Solution, request: Request) -> Solution:
    """`first`, improved by linear programs over rules."""
    name, method, clock = "cutting-planes", InteriorPoint(), request.clock
    stages = Stages(problem, name, method, request.goal, step_limit(method, None), clock, int(first.steps))
    lowered = stages.with_feasible_point(stages.lower())
    if not lowered.program.terms:  # nothing is limited: what is left is rounding
        return first
    duals = np.asarray(first.scores)[0], np.asarray(first.weights), np.asarray(first.multipliers)
    program, face = lowered.program, lowered.face
    on = program if face is None else face.restricted(program)
    mechanism = np.asarray(first.mechanism)

    def proved(k: np.ndarray, eta: np.ndarray, price: np.ndarray) -> float:
        duals_of_program = (k, eta, price) if face is None else off_face(program, face, mechanism, k, eta, price)[1:]
        return float(certify_program(program, mechanism, *duals_of_program).lower_bound)

    best, rounds = cut(on, mechanism, duals, proved, float(lowered.goal.tol), request.max_steps, clock)
    parts = np.asarray(best.mechanism), np.asarray(best.k), np.asarray(best.eta), np.asarray(best.price)
    if face is not None:
        parts = off_face(program, face, *parts)
    stages.steps += rounds
    answer = stages.certified(lowered, f"{first.solver}, {name}", *parts)
    second = stages.conclude(lowered, answer)
    if answer.violation > 0 or not second.gap < first.gap:
        return _noted(first, name, first)
    return _noted(first, name, second, second.seconds)


def _or_whole(first: Solution, stages: Stages) -> Solution:
    """`first`, or what another method gives where its gap is smaller."""
    second = solve_dense(stages, False, least_worst_leakage if stages.problem.form.minimax else Stages.solved)
    # A value below its bound exceeds a limit.
    best = min(first, second, key=lambda solution: (solution.gap < 0, solution.gap))
    return _noted(first, stages.name, best)
