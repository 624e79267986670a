"""The same problem at many points, in batches of one compiled program."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxpriv.errors import InfeasibleError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.measured import MeasuredProgram
from jaxpriv.problems.terms import is_worst
from jaxpriv.solution import Solution
from jaxpriv.solvers import AbstractSolver, Goal, iterate
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solving.choice import MeasuredSolver
from jaxpriv.solving.execution import on_host
from jaxpriv.solving.measured.one import Solve, Stated, no_measured_solution
from jaxpriv.solving.measured.reduction import Reduced


def sweep_measured(
    asked: list[DistortionProblem],
    name: str,
    solver: MeasuredSolver,
    goal: Goal,
    limit: int,
    throw: bool,
    batch: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[Solution], float]:
    """The same problem at many points, in batches of one compiled program; and the seconds spent compiling.

    The least worst-outcome leakage at a budget is a search of its own at every point.
    """
    solves = [Solve(one, name, solver, limit) for one in asked]
    results: dict[int, Solution] = {}
    waiting: list[tuple[int, Stated, Reduced]] = []
    begun = time.perf_counter()
    for i, solve in enumerate(solves):
        problem = solve.problem
        try:
            if problem.budget is not None and is_worst(problem.leakage):
                results[i] = solve.least_worst_leakage(goal, begun)
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
    if progress and results:
        progress(len(results), len(asked))
    compiling = sum(solve.compiling for solve in solves)
    for start in range(0, len(waiting), batch):
        chunk = waiting[start : start + batch]
        padded = [reduced for _, _, reduced in chunk] + [chunk[-1][2]] * (batch - len(chunk))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *[(one.program, one.goal) for one in padded])
        found, seconds = on_host(_iterate_all, solver, *stacked, np.asarray(limit))
        compiling += seconds
        for lane, (i, stated, reduced) in enumerate(chunk):
            best = jax.tree.map(lambda leaf, lane=lane: leaf[lane], found.best)
            parts = reduced.expanded(best)
            answer = solves[i].certified(stated.program, stated.limits, *parts, int(found.steps[lane]), name)
            results[i] = solves[i].conclude(stated, answer, goal, begun)
        if progress:
            progress(len(results), len(asked))
    return [results[i] for i in range(len(asked))], compiling


def _iterate_all(solver: AbstractSolver, programs: MeasuredProgram, goals: Goal, limit: Any) -> Any:
    return jax.vmap(lambda program, goal: iterate(solver, program, goal, limit))(programs, goals)
