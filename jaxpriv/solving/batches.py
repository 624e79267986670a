"""Many problems in one call of one compiled program, each certified on its own afterwards.

The program is `solve` itself under vmap, on problems padded to a bucket (`buckets`). It knows nothing of the presolve
that a single solve begins with, so a few problems (budgets without room, tables near rank one) end there without a
proof. Its results are candidates: the certificate of each is computed on the host from the original problem, and what
does not meet the goal there is left to a solve of its own.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from jaxpriv.certificates.verification import certify
from jaxpriv.joints import AbstractJoint
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import Goal, InteriorPoint
from jaxpriv.solving import uncompiled
from jaxpriv.solving.buckets import Bucket, Lanes, Measures, bucket_of, form_of, grows, restored
from jaxpriv.solving.choice import pick_solver, step_limit
from jaxpriv.solving.execution import on_host, own_settings
from jaxpriv.solving.host import own_goal
from jaxpriv.solving.portions import step_seconds
from jaxpriv.solving.solve import solve

# Bytes of the factors of all lanes together: what the caches of a processor hold. Larger batches are slower for each.
_BYTES = 2.0**24
# Arrays of the size of its factors that a lane holds.
_ARRAYS = 6
# Fewer lanes than the first share too little to be worth a program of their own; more than the second share no more.
_FEWEST, _MOST = 4, 128
# Predicted seconds of single solves in NumPy from which a kind of problems is compiled: about half of what that takes,
# since the next process finds the program kept on disk.
_WORTH = 4.0
# About the steps of a solve (compiled, and in NumPy, where a step takes longer), and of the search for the least worst
# outcome relative to those; the seconds of a small solve in NumPy; and those of a step that no size explains.
STEPS, _NUMPY_STEPS, _SEARCH, _SMALLEST, _OVERHEAD = 10, 20, 8, 0.01, 2e-4
# Processor seconds that compiling a batch takes, most often.
COMPILE = 8.0


class Kind(NamedTuple):
    """What problems of one batch have in common: all that the program is compiled for, but the number of lanes."""

    bucket: Bucket
    groups: int
    distortions: int
    form: str
    measures: Measures
    name: str
    solver: InteriorPoint

    @property
    def _rows(self) -> int:
        """At most so many rows of all measures under all joints."""
        measured = self.measures.values
        each = [measure.row_count(self.bucket.private) for measure in measured]
        return self.groups * sum(each)

    @property
    def lane_bytes(self) -> float:
        """About the memory of one lane."""
        rows, inputs = self._rows, self.bucket.inputs
        return 8.0 * _ARRAYS * self.bucket.outputs * inputs * max(rows, inputs)

    @property
    def lanes(self) -> int:
        """How many lanes a batch has at most."""
        return int(min(_MOST, _BYTES // self.lane_bytes))

    @property
    def _relative_steps(self) -> float:
        return _SEARCH if self.form == "budget" and self.measures.values[0].worst_outcome else 1.0

    @property
    def _step_seconds(self) -> float:
        _, inputs, outputs = self.bucket
        return step_seconds(self.solver, self._rows, inputs, outputs, self.distortions, False)

    @property
    def lane_seconds(self) -> float:
        """About what the iteration of one lane takes."""
        return STEPS * self._relative_steps * max(self._step_seconds - _OVERHEAD, 0.0)

    @property
    def single_seconds(self) -> float:
        """About what one problem takes by itself, in NumPy."""
        return self._relative_steps * (_SMALLEST + _NUMPY_STEPS * self._step_seconds)

    def width(self, count: int) -> int:
        """The lanes of the program for `count` problems: a power of two, or as many as there may be.

        So another number of problems seldom compiles another program. 0: they are better solved one by one.
        """
        worth = (
            count > 1 and count * self.single_seconds >= _WORTH
            if not uncompiled.chosen()
            else uncompiled.chosen() == "always"
        )
        if not worth or self.lanes < _FEWEST:
            return 0
        return min(self.lanes, 1 << (count - 1).bit_length())

    def covers(self, other: "Kind") -> bool:
        """Whether problems of the other kind can be padded to this bucket."""
        if self._replace(bucket=other.bucket) != other:
            return False
        private = self.bucket.private == other.bucket.private or grows(self.measures)
        return private and all(own >= size for own, size in zip(self.bucket, other.bucket, strict=True))


def joined(counts: Mapping[Kind, int]) -> dict[Kind, Kind]:
    """The kind in whose bucket the problems of each kind are computed, for so many of each.

    Kinds that are too few for a program of their own are padded on to the next larger bucket that there is, as long as
    that takes no longer than solving them one by one; others where it takes less time than compiling would.
    """
    members = {kind: [kind] for kind in counts}
    total = dict(counts)
    for kind in sorted(counts, key=lambda one: (np.prod(one.bucket), one.bucket)):
        own, count = kind.width(total[kind]), total[kind]
        larger = [one for one in total if one != kind and one.covers(kind) and one.lanes >= _FEWEST]
        if own:
            larger = [one for one in larger if one.width(total[one])]
        if not larger:
            continue
        target = min(larger, key=lambda one: (one.lane_seconds, one.bucket))
        extra = count * (target.lane_seconds - kind.lane_seconds)
        if extra < (COMPILE if own else count * kind.single_seconds):
            total[target] += total.pop(kind)
            members[target] += members.pop(kind)
    return {one: target for target, ones in members.items() for one in ones}


def kind_of(problem: object, solver: object, goal: Goal) -> Kind | None:
    """The kind of a problem, or None where it cannot be one of a batch.

    Batches take tables, by the interior-point method.

    Raises:
        InputError, ResourceError: as `solve` before it computes anything.
    """
    if not isinstance(problem, DistortionProblem):
        return None
    name, method, _ = pick_solver(solver, problem, goal)
    if not isinstance(method, InteriorPoint) or isinstance(problem.data, AbstractJoint):
        return None
    measures = Measures.of(problem)
    if any(measure.untraceable is not None for measure in measures.values):
        return None
    form = form_of(problem)
    bounds = [getattr(problem, form), *(value for _, value in problem.limits)]
    if not all(np.all(np.isfinite(bound)) for bound in bounds):  # an infinite limit has no rules
        return None
    count = len(problem.distortions)
    return Kind(bucket_of(problem), problem.sizes[0], count, form, measures, name, method)


def slack_of(problem: DistortionProblem) -> tuple[float, ...]:
    """By what problems of one kind are ordered, so that those of a batch take about as many steps.

    Budgets as shares of the way from the least distortion to that of the best constant release; prices and leakage
    budgets as they are.
    """
    form = form_of(problem)
    target = np.ravel(np.asarray(getattr(problem, form), dtype=np.float64))
    if form != "budget":
        return tuple(target.tolist())
    weighted = problem.joints.sum(axis=1).mean(axis=0)[:, None] * problem.tables()
    least, idle = weighted.min(axis=2).sum(axis=1), weighted.sum(axis=1).min(axis=1)
    return tuple(((target - least) / np.where(idle > least, idle - least, 1.0)).tolist())


def solve_together(
    problems: Sequence[DistortionProblem], kind: Kind, goal: Goal, max_steps: int | None, width: int
) -> list[Solution | None]:
    """The certified solutions of up to `width` problems of one kind; None where one is left to a solve of its own.

    That is where the goal is not proved, and where the device refused the batch. The seconds of a solution are its
    share of those of the batch.
    """
    begun = time.perf_counter()
    lanes = Lanes.of([*problems, *[problems[-1]] * (width - len(problems))], kind.bucket)
    numbers = np.asarray(goal.tol, np.float64), np.asarray(goal.rtol, np.float64)
    limit = np.asarray(step_limit(kind.solver, max_steps))
    try:
        with own_settings():
            found, compiling = on_host(_solve_all, kind.solver, lanes, *numbers, limit)
    except jax.errors.JaxRuntimeError:
        return [None] * len(problems)
    certified = [
        _certified(problem, jax.tree.map(lambda leaf, i=i: leaf[i], found), kind, goal)
        for i, problem in enumerate(problems)
    ]
    spent = time.perf_counter() - begun - compiling
    seconds = {"compile": compiling / len(problems), "solve": spent / len(problems)}
    return [None if one is None else dataclasses.replace(one, seconds=seconds) for one in certified]


def _certified(problem: DistortionProblem, lane: Solution, kind: Kind, goal: Goal) -> Solution | None:
    """What a lane found, with the numbers that it proves for the problem itself; None if these do not meet the goal."""
    if int(lane.code) != Status.OPTIMAL:
        return None
    candidate = restored(problem, lane, kind.bucket)
    proved = certify(problem, candidate)
    if not (proved.valid and own_goal(problem, goal).proved(proved)):
        return None
    return dataclasses.replace(
        candidate,
        value=np.float64(proved.value),
        lower_bound=np.float64(proved.lower_bound),
        leakage=np.float64(proved.leakage),
        distortion=proved.distortion,
        code=np.int32(Status.OPTIMAL),
        steps=np.int32(lane.steps),
        solver=kind.name,
        stopped=np.int32(0),
    )


def _solve_all(solver: InteriorPoint, lanes: Lanes, tol: Array, rtol: Array, limit: int) -> Solution:
    def one(lane: Lanes) -> Solution:
        return solve(lane.problem(), solver, tol=tol, rtol=rtol, max_steps=limit)

    return jax.vmap(one)(lanes)
