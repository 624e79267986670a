"""Funnel and bottleneck problems: the choice of a solver, and the release of its result."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from jaxpriv._runtime.validation import mechanism_array
from jaxpriv.errors import InputError
from jaxpriv.funnels import (
    AbstractFunnelSolver,
    FunnelGoal,
    FunnelSolution,
    PosteriorMeasure,
)
from jaxpriv.funnels.actions import VertexGeneration
from jaxpriv.funnels.atoms import ColumnGeneration
from jaxpriv.funnels.gains import gains_of
from jaxpriv.funnels.greedy import Greedy, GreedyBottleneck
from jaxpriv.funnels.local import Alternating, BottleneckIteration, DifferenceOfConvex
from jaxpriv.funnels.release import closed_form, release
from jaxpriv.funnels.worst import PosteriorLimit
from jaxpriv.leakage import MutualInformation
from jaxpriv.leakage.evaluation import table_of
from jaxpriv.problems.funnel import FunnelOrBottleneck

Find: TypeAlias = Callable[[FunnelOrBottleneck, FunnelGoal], PosteriorMeasure]

# Solvers by the names of the command line.
FUNNEL_SOLVERS: Mapping[str, AbstractFunnelSolver] = {
    "column-generation": ColumnGeneration(),
    "vertex-generation": VertexGeneration(),
    "posterior-limit": PosteriorLimit(),
    "greedy": Greedy(),
    "greedy-bottleneck": GreedyBottleneck(),
    "greedy-ratio": Greedy(ratio=True),
    "difference-of-convex": DifferenceOfConvex(),
    "alternating": Alternating(),
    "bottleneck-iteration": BottleneckIteration(),
}


def pick_funnel_solver(solver: object, problem: FunnelOrBottleneck) -> tuple[str, AbstractFunnelSolver]:
    """(name, solver) meant by a name, by a solver object, or by `auto`: column generation for I(S;Y), vertex generation
    for measures of finitely many actions and smooth ones, limits on posteriors for pointwise ones, which prove their
    bounds; a local method for other measures.
    """
    if isinstance(solver, AbstractFunnelSolver):
        return _fitting(type(solver).__name__, solver, problem)
    name = solver
    if isinstance(solver, str) and solver == "auto":
        name = _proving(problem) or "difference-of-convex"
    if not isinstance(name, str) or name not in FUNNEL_SOLVERS:
        raise InputError(f"solver {solver!r} is unknown for funnels; known: auto, {', '.join(FUNNEL_SOLVERS)}")
    return _fitting(name, FUNNEL_SOLVERS[name], problem)


def _fitting(name: str, method: AbstractFunnelSolver, problem: FunnelOrBottleneck) -> tuple[str, AbstractFunnelSolver]:
    if problem.leakage.worst_outcome and not isinstance(method, PosteriorLimit):
        raise InputError(f"solver: {name} takes average measures, not {type(problem.leakage).__name__}")
    return name, method


def _proving(problem: FunnelOrBottleneck) -> str | None:
    """The solver that proves its bound for this problem, if there is one."""
    if isinstance(problem.leakage, MutualInformation):
        return "column-generation"
    if problem.leakage.worst_outcome:
        return "posterior-limit"
    return None if gains_of(problem) is None else "vertex-generation"


def solve_funnel(problem: FunnelOrBottleneck, solver: object, goal: FunnelGoal, start: object = None) -> FunnelSolution:
    """The best release the solver finds, measured again, with its proved interval; `start`: the caller's mechanism."""
    name, method = pick_funnel_solver(solver, problem)
    if start is not None:
        if not method.takes_start:
            raise InputError(f"start: {name} has none")
        whole = mechanism_array(table_of(start), "start", inputs=problem.joint.shape[1])
        goal = dataclasses.replace(goal, start=whole[problem.useful])
    return solve_with(problem, name, method.find, goal)


def solve_with(
    problem: FunnelOrBottleneck, name: str, find: Find, goal: FunnelGoal, kept_atoms: bool = False
) -> FunnelSolution:
    """The same with the method that does the finding.

    Once the time limit has expired only column generation runs, which returns the best release of its atoms.
    """
    begun = time.perf_counter()
    candidate = closed_form(problem)
    if candidate is None and goal.clock.expired() and not kept_atoms:
        source = problem.reduction.source
        # An independent release, which is mixed with X until the target is met.
        candidate, name = PosteriorMeasure(source[None], np.ones(1)), "none"
    if candidate is None:
        candidate = find(problem, goal)
    solution = release(problem, candidate, goal, name)
    seconds = {"compile": candidate.compiling, "solve": time.perf_counter() - begun - candidate.compiling}
    return dataclasses.replace(solution, seconds=seconds)
