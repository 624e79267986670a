"""How a funnel or bottleneck problem is brought to a solver, and its release back."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from jaxpriv.errors import InputError
from jaxpriv.funnels import AbstractFunnelSolver, FunnelGoal, FunnelSolution, PosteriorMeasure
from jaxpriv.funnels.atoms import ColumnGeneration
from jaxpriv.funnels.greedy import Greedy, GreedyBottleneck
from jaxpriv.funnels.local import Alternating, BottleneckIteration, DifferenceOfConvex
from jaxpriv.funnels.release import closed_form, release
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem

Find: TypeAlias = Callable[[FunnelProblem | BottleneckProblem, FunnelGoal], PosteriorMeasure]

# Solvers by the names of the command line.
FUNNEL_SOLVERS: Mapping[str, AbstractFunnelSolver] = {
    "column-generation": ColumnGeneration(),
    "greedy": Greedy(),
    "greedy-bottleneck": GreedyBottleneck(),
    "greedy-ratio": Greedy(ratio=True),
    "difference-of-convex": DifferenceOfConvex(),
    "alternating": Alternating(),
    "bottleneck-iteration": BottleneckIteration(),
}


def pick_funnel_solver(solver: object, problem: FunnelProblem | BottleneckProblem) -> tuple[str, AbstractFunnelSolver]:
    """(name, solver) meant by a name, by a solver object, or by `auto`: column generation for I(S;Y), which proves
    its bound; a local method for other measures.
    """
    if isinstance(solver, AbstractFunnelSolver):
        return type(solver).__name__, solver
    name = solver
    if isinstance(solver, str) and solver == "auto":
        name = "column-generation" if isinstance(problem.leakage, MutualInformation) else "difference-of-convex"
    if not isinstance(name, str) or name not in FUNNEL_SOLVERS:
        raise InputError(f"solver {solver!r} is unknown for funnels; known: auto, {', '.join(FUNNEL_SOLVERS)}")
    return name, FUNNEL_SOLVERS[name]


def solve_funnel(problem: FunnelProblem | BottleneckProblem, solver: object, goal: FunnelGoal) -> FunnelSolution:
    """The best release the solver finds, measured afresh, with its proved interval."""
    name, method = pick_funnel_solver(solver, problem)
    return solve_with(problem, name, method.find, goal)


def solve_with(
    problem: FunnelProblem | BottleneckProblem, name: str, find: Find, goal: FunnelGoal, kept_atoms: bool = False
) -> FunnelSolution:
    """The same with the method that does the finding.

    Once the clock has expired only column generation is asked, for the best release of the atoms that it has.
    """
    begun = time.perf_counter()
    found = closed_form(problem)
    if found is None and goal.clock.expired() and not kept_atoms:
        source = problem.reduction.source
        # An independent release, which is mixed with X until the target is met.
        found, name = PosteriorMeasure(source[None], np.ones(1)), "none"
    if found is None:
        found = find(problem, goal)
    solution = release(problem, found, goal, name)
    seconds = {"compile": found.compiling, "solve": time.perf_counter() - begun - found.compiling}
    return dataclasses.replace(solution, seconds=seconds)
