"""What `auto` does where a method on tables stops far from its goal: the next method, and the best of both."""

import dataclasses
import math
import time

import numpy as np

from jaxpriv._clock import Clock
from jaxpriv.certificates import certify_program
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.solution import Solution
from jaxpriv.solvers import AcceleratedGradient, Goal, InteriorPoint, MirrorDescent
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solving.choice import is_linear, step_limit
from jaxpriv.solving.cutting_planes import cut
from jaxpriv.solving.host import Solve, off_face, own_goal
from jaxpriv.solving.streamed import Unsuited, solve_streamed
from jaxpriv.solving.tables import solve_tables

# A first-order method is of use where the gap is above this share of the value: it reaches little less.
_FAR = 1e-4
# The first method's share of a time limit: it may stall, where the next one takes seconds.
FIRST_SHARE = 0.6
# Entries of a mechanism up to which cutting planes take seconds.
_CUTTABLE = 200
# Most steps of mirror descent as a fallback: its first ones close most of what it can close.
_FEW_STEPS = 2000


def has_next_method(problem: DistortionProblem) -> bool:
    """Whether there is a method to go on with."""
    return problem.of_information or is_linear(problem) or _cuttable(problem)


def _cuttable(problem: DistortionProblem) -> bool:
    """Whether cutting planes take it: one convex program, small."""
    minimax = problem.budget is not None and problem.leakage.worst_outcome
    return not minimax and math.prod(problem.shape) <= _CUTTABLE


def with_next_method(
    problem: DistortionProblem, first: Solution, goal: Goal, max_steps: int | None, clock: Clock
) -> Solution:
    """`first`; where it is far from the goal the better mechanism, with the better bound, of it and of the next method.

    Next is, of a problem on mutual information, the accelerated method where it streams, otherwise mirror descent; of a
    linear program, the simplex method of HiGHS; of another small program, linear programs over rules, which go on from
    what `first` has, however near it is. Mechanism and proof are certified together; of a linear program the result
    with the smaller gap is taken whole.
    """
    missed = first.status == "not_certified"
    stalled = missed and first.gap > _FAR * abs(first.value)
    if clock.expired() or not (stalled or first.stopped or (missed and not problem.of_information)):
        return first
    if not problem.of_information:
        if not is_linear(problem):
            return _or_by_cutting_planes(problem, first, goal, max_steps, clock)
        return _or_by_simplex(problem, first, goal, clock) if stalled or first.stopped else first
    name = "accelerated" if problem.streams else "mirror-descent"
    note = f"auto: {name} next, {first.solver} ended at a gap of {first.gap:.2e}"
    try:
        if problem.streams:
            solver = AcceleratedGradient()
            steps = step_limit(solver, max_steps)
            second = solve_streamed(problem, name, solver, goal, steps, False, (), clock)
            second = dataclasses.replace(second, mechanism=second.mechanism.matrix())
        else:
            few = min(_FEW_STEPS, max_steps or _FEW_STEPS)
            second = solve_tables(problem, name, MirrorDescent(), goal, few, False, clock)
    except Unsuited as reason:
        return dataclasses.replace(first, notes=(*first.notes, f"auto: {name} not tried, because {reason}"))
    best = first if first.value <= second.value else second
    proof = first if first.lower_bound >= second.lower_bound else second
    begun = time.perf_counter()
    solve = Solve(problem, f"{first.solver}, {name}", MirrorDescent(), 0, clock, int(first.steps + second.steps))
    joined = solve.joined(np.asarray(best.mechanism), proof, solve.name, own_goal(problem, goal), begun)
    if first.seconds and second.seconds:
        seconds = {key: took + second.seconds[key] for key, took in first.seconds.items()}
        joined = dataclasses.replace(joined, seconds=seconds)
    return dataclasses.replace(joined, notes=(*first.notes, note))


def _or_by_cutting_planes(
    problem: DistortionProblem, first: Solution, goal: Goal, most: int | None, clock: Clock
) -> Solution:
    """`first`, improved by linear programs over rules."""
    name, begun = "cutting-planes", time.perf_counter()
    goal = own_goal(problem, goal)
    anchoring = InteriorPoint()
    solve = Solve(problem, name, anchoring, step_limit(anchoring, None), clock, int(first.steps))
    stated = solve.with_anchor(solve.state(goal))
    duals = np.asarray(first.scores)[0], np.asarray(first.weights), np.asarray(first.multipliers)
    program, face = stated.program, stated.face
    on = program if face is None else face.restricted(program)
    mechanism = np.asarray(first.mechanism)

    def proved(k: np.ndarray, eta: np.ndarray, price: np.ndarray) -> float:
        own = (k, eta, price) if face is None else off_face(program, face, mechanism, k, eta, price)[1:]
        return float(certify_program(program, mechanism, *own).lower_bound)

    best, rounds = cut(on, mechanism, duals, proved, float(stated.goal.tol), most, clock)
    found = np.asarray(best.mechanism), np.asarray(best.k), np.asarray(best.eta), np.asarray(best.price)
    if face is not None:
        found = off_face(program, face, *found)
    answer = solve.certified(stated.program, stated.limits, *found, rounds, f"{first.solver}, {name}")
    second = solve.conclude(stated, answer, goal, begun)
    note = f"auto: {name} next, {first.solver} ended at a gap of {first.gap:.2e}"
    if not second.gap < first.gap:
        return dataclasses.replace(first, notes=(*first.notes, note))
    seconds = second.seconds or {}
    if first.seconds and second.seconds:
        seconds = {key: took + second.seconds[key] for key, took in first.seconds.items()}
    return dataclasses.replace(second, seconds=seconds, notes=(*first.notes, note))


def _or_by_simplex(problem: DistortionProblem, first: Solution, goal: Goal, clock: Clock) -> Solution:
    """`first`, or what the simplex method gives where its gap is smaller."""
    name = "linear-program"
    note = f"auto: {name} next, {first.solver} ended at a gap of {first.gap:.2e}"
    second = solve_tables(problem, name, LinearProgram(), goal, 0, False, clock)
    best = second if second.gap < first.gap else first
    return dataclasses.replace(best, notes=(*first.notes, note))
