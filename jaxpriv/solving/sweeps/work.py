"""What a worker does: the rows of one chunk, from plain data to the bytes of a file. It touches no folder."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.clock import ENDLESS
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.solution import Solution
from jaxpriv.reductions.buckets import Bucket, bucket_of
from jaxpriv.solving.choice import Request
from jaxpriv.solving.kinds import kind_of
from jaxpriv.solving.loops import repeatable
from jaxpriv.solving.many import solve_or_say_why, solve_together
from jaxpriv.solving.sweeps.declaration import CaseParts, Config
from jaxpriv.solving.sweeps.planning import Chunk, goal_of
from jaxpriv.solving.sweeps.store import (
    asked_columns,
    encoded,
    found_columns,
    frame,
)


@dataclass(frozen=True)
class Work:
    """One chunk, with all that computing it takes: it can be pickled and sent to any process."""

    chunk: Chunk
    cases: tuple[Config, ...]
    tables: Mapping[str, np.ndarray]


def compute(work: Work) -> bytes:
    """The Parquet file of a chunk. The same on every call: nothing in it depends on what was computed before."""
    parts = CaseParts(work.tables)
    problems = [parts.problem(case) for case in work.cases]
    with repeatable():
        solutions = _solutions(problems, work)
    table = [
        {**asked_columns(i, case), **found_columns(solution)}
        for i, case, solution in zip(work.chunk.positions, work.cases, solutions, strict=True)
    ]
    return encoded(frame(table))


def _solutions(problems: list[DistortionProblem], work: Work) -> list[Solution]:
    """The solution of every problem; those of a batch have the goal, the solver and the steps of the first."""
    cases, width = work.cases, work.chunk.width
    case, goal = cases[0], goal_of(cases[0])
    solver, steps = case["solver"], case["max_steps"]
    solutions: list[Solution | None] = [None] * len(problems)
    kind = kind_of(problems[0], solver, goal)
    if kind is not None:
        sizes = (
            work.chunk.bucket if width else tuple(np.max([bucket_of(problem) for problem in problems], axis=0).tolist())
        )
        kind = kind._replace(bucket=Bucket(*sizes))
        size = width or kind.width_uncompiled(len(problems))
        parts = (problems[start : start + size] for start in range(0, len(problems), size)) if size else ()
        solutions = [
            solution for part in solve_together(parts, kind, goal, steps, width) for solution in part
        ] or solutions
    return [
        solve_or_say_why(problem, Request(ENDLESS, goal_of(case), case["solver"], case["max_steps"]))
        if solution is None
        else solution
        for problem, case, solution in zip(problems, cases, solutions, strict=True)
    ]
