"""What a worker does: the rows of one chunk, from plain data to the bytes of a file. It touches no folder."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxpriv._clock import ENDLESS
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.solution import Solution
from jaxpriv.solving.batches import kind_of, solve_together
from jaxpriv.solving.buckets import Bucket
from jaxpriv.solving.many import solve_or_say_why
from jaxpriv.solving.uncompiled import repeatable
from jaxpriv.sweeps import rows
from jaxpriv.sweeps.declaration import Config, problem_of
from jaxpriv.sweeps.planning import goal_of


@dataclass(frozen=True)
class Work:
    """One chunk, with all that computing it takes: it can be pickled and sent to any process."""

    positions: tuple[int, ...]
    cases: tuple[Config, ...]
    width: int
    bucket: tuple[int, ...]
    tables: Mapping[str, np.ndarray]


def compute(work: Work) -> bytes:
    """The Parquet file of a chunk. The same on every call: nothing in it depends on what was computed before."""
    problems = [problem_of(case, work.tables) for case in work.cases]
    with repeatable():
        solutions = _solutions(problems, work)
    table = [
        {**rows.asked(i, case), **rows.found(one)}
        for i, case, one in zip(work.positions, work.cases, solutions, strict=True)
    ]
    return rows.encoded(rows.frame(table))


def _solutions(problems: list[DistortionProblem], work: Work) -> list[Solution]:
    """The solution of every problem; those of a batch have the goal, the solver and the steps of the first."""
    cases, width = work.cases, work.width
    case, goal = cases[0], goal_of(cases[0])
    solver, steps = case["solver"], case["max_steps"]
    found: list[Solution | None] = [None] * len(problems)
    if width:
        kind = kind_of(problems[0], solver, goal)
        assert kind is not None  # the plan has a width for those only
        kind = kind._replace(bucket=Bucket(*work.bucket))
        for start in range(0, len(problems), width):
            found[start : start + width] = solve_together(problems[start : start + width], kind, goal, steps, width)
    return [
        solve_or_say_why(ENDLESS, problem, own["solver"], goal_of(own), own["max_steps"]) if one is None else one
        for problem, own, one in zip(problems, cases, found, strict=True)
    ]
