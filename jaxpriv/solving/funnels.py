"""How a funnel or bottleneck problem is brought to a solver, and its release back."""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from jaxpriv.errors import InputError
from jaxpriv.funnels import AbstractFunnelSolver, FunnelSolution, Goal
from jaxpriv.funnels.local import Alternating, BottleneckIteration, DifferenceOfConvex
from jaxpriv.funnels.release import closed_form, release
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem

# Solvers by the names of the command line; the first one is `auto`.
FUNNEL_SOLVERS: Mapping[str, AbstractFunnelSolver] = {
    "difference-of-convex": DifferenceOfConvex(),
    "alternating": Alternating(),
    "bottleneck-iteration": BottleneckIteration(),
}

_AUTO = "column-generation"


def pick_funnel_solver(solver: Any) -> tuple[str, AbstractFunnelSolver]:
    """(name, solver) meant by a name, by `auto`, or by a solver object."""
    if isinstance(solver, AbstractFunnelSolver):
        return type(solver).__name__, solver
    name = _AUTO if isinstance(solver, str) and solver == "auto" else solver
    if not isinstance(name, str) or name not in FUNNEL_SOLVERS:
        raise InputError(f"solver {solver!r} is unknown for funnels; known: auto, {', '.join(FUNNEL_SOLVERS)}")
    return name, FUNNEL_SOLVERS[name]


def solve_funnel(problem: FunnelProblem | BottleneckProblem, solver: Any, goal: Goal) -> FunnelSolution:
    """The best release the solver finds, measured afresh, with its proved interval."""
    begun = time.perf_counter()
    name, method = pick_funnel_solver(solver)
    found = closed_form(problem)
    if found is None:
        found = method.find(problem, goal)
    solution = release(problem, found, goal, name)
    seconds = {"compile": found.compiling, "solve": time.perf_counter() - begun - found.compiling}
    return dataclasses.replace(solution, seconds=seconds)
