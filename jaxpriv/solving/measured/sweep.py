"""The same problem at many points, in batches of one compiled program."""

import dataclasses
import time
from typing import Any

import jax
import numpy as np

from jaxpriv._clock import Clock
from jaxpriv.errors import InfeasibleError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.measured import MeasuredProgram
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Goal, begin, iterate, resume
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solving.choice import MeasuredSolver
from jaxpriv.solving.measured.host import no_measured_solution
from jaxpriv.solving.measured.one import Solve, Stated, in_units, seconds_of
from jaxpriv.solving.measured.reduction import Reduced
from jaxpriv.solving.measured.worst_outcome import least_worst_leakage
from jaxpriv.solving.portions import Loop, report_points, run


def sweep_measured(
    asked: list[DistortionProblem],
    name: str,
    solver: MeasuredSolver,
    goal: Goal,
    limit: int,
    throw: bool,
    batch: int,
    clock: Clock,
) -> tuple[list[Solution], float]:
    """The same problem at many points, in batches of one compiled program; and the seconds spent compiling.

    The least worst-outcome leakage at a budget is a solve of its own at every point.
    """
    solves = [Solve(one, name, solver, limit, clock) for one in asked]
    results: dict[int, Solution] = {}
    waiting: list[tuple[int, Stated, Reduced]] = []
    begun = time.perf_counter()
    for i, solve in enumerate(solves):
        problem = solve.problem
        try:
            if problem.budget is not None and problem.leakage.worst_outcome:
                results[i] = least_worst_leakage(solve, goal, begun)
                continue
            stated = solve.state(goal)
        except InfeasibleError:
            if throw:
                raise
            results[i] = no_measured_solution(problem)
            continue
        known = solve.at_the_boundary(stated) or solve.closed_form(stated.program, stated.limits)
        if known is None and (isinstance(solver, LinearProgram) or stated.face is not None):
            known = solve.run(stated.program, stated.limits, stated.goal, stated.face)
        if known is None:
            waiting.append((i, stated, Reduced.of(stated.program, stated.goal)))
        else:
            results[i] = solve.conclude(stated, known, goal, begun)
    report_points(clock, name, list(results.values()), len(results), len(asked))
    compiling = sum(solve.compiling for solve in solves)
    for start in range(0, len(waiting), batch):
        chunk = waiting[start : start + batch]
        padded = [reduced for _, _, reduced in chunk] + [chunk[-1][2]] * (batch - len(chunk))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *[(one.program, one.goal) for one in padded])
        done = len(results)

        def report(best: Any, steps: Any, chunk: Any = chunk, done: int = done) -> None:
            worst = int(np.argmax(best.gap[: len(chunk)]))
            _, stated, reduced = chunk[worst]
            value, bound = in_units(stated, reduced, best.value[worst], best.bound[worst])
            clock.report(name, steps.max(), value, bound, done, len(asked))

        ran = None
        if not clock.expired():
            step = batch * seconds_of(solver, chunk[0][2].program)
            ran = run(clock, _ALL, solver, stacked, stacked[1], limit, step, report, batch - len(chunk))
            compiling += ran.compiling
        for lane, (i, stated, reduced) in enumerate(chunk):
            if ran is None or ran.best is None:
                answer = solves[i].without_steps(stated.program, stated.limits)
            else:
                parts = reduced.expanded(jax.tree.map(lambda leaf, lane=lane: leaf[lane], ran.best))
                answer = solves[i].certified(stated.program, stated.limits, *parts, int(ran.steps[lane]), name)
            results[i] = solves[i].conclude(stated, answer, goal, begun)
        report_points(clock, name, [results[i] for i, _, _ in chunk], len(results), len(asked))
    ordered = [results[i] for i in range(len(asked))]
    return [_with_neighbours(i, asked, ordered, goal) for i in range(len(asked))], compiling


def _with_neighbours(i: int, asked: list[DistortionProblem], found: list[Solution], goal: Goal) -> Solution:
    """Point i; where it was not reached with the best that other budgets prove.

    A mechanism for budgets that are no larger meets these too, and no mechanism for budgets that are no smaller does
    better than theirs. (The prices of a multiplier are in no such order: its points keep their own interval.)
    """
    own = found[i]
    if own.status != "best_known" or asked[i].multiplier is not None:
        return own
    places = [np.asarray(one.budget if one.budget is not None else one.leakage_budget) for one in asked]
    met = [one for one, place in zip(found, places, strict=True) if one.status in _VALID]
    within = [place for one, place in zip(found, places, strict=True) if one.status in _VALID]
    smaller = [one for one, place in zip(met, within, strict=True) if (place <= places[i]).all()]
    larger = [one for one, place in zip(met, within, strict=True) if (place >= places[i]).all()]
    best = min(smaller, key=lambda one: one.value)
    proof = max(larger, key=lambda one: one.lower_bound)
    joined = dataclasses.replace(
        own,
        value=best.value,
        mechanism=best.mechanism,
        leakage=best.leakage,
        distortion=best.distortion,
        lower_bound=proof.lower_bound,
        scores=proof.scores,
        weights=proof.weights,
        multipliers=proof.multipliers,
    )
    return dataclasses.replace(joined, code=np.int32(Status.OPTIMAL)) if goal.met(joined) else joined


# The states of results that hold a mechanism which meets its limits.
_VALID = ("optimal", "best_known")


def _iterate_all(solver: AbstractSolver, programs: MeasuredProgram, goals: Goal, limit: Any) -> Any:
    return jax.vmap(lambda program, goal: iterate(solver, program, goal, limit))(programs, goals)


def _begin_all(solver: AbstractSolver, programs: MeasuredProgram, goals: Goal) -> Any:
    del goals
    return jax.vmap(lambda program: begin(solver, program))(programs)


def _resume_all(solver: AbstractSolver, programs: MeasuredProgram, goals: Goal, course: Any, until: Any) -> Any:
    return jax.vmap(lambda program, goal, course: resume(solver, program, goal, course, until))(programs, goals, course)


def _each(programs: MeasuredProgram, goals: Goal) -> list[tuple[MeasuredProgram, Goal]]:
    return [jax.tree.map(lambda leaf, k=k: leaf[k], (programs, goals)) for k in range(len(programs.mass))]


_ALL = Loop(_iterate_all, _begin_all, _resume_all, _each)
