"""Many problems side by side, each certified on its own afterwards: in one compiled program, or by NumPy.

The program is `solve` itself under vmap, on problems padded to a bucket (`buckets`). It does not use the presolve
that a single solve begins with, so a few problems (budgets without room, tables near rank one) end there without a
proof. Its results are candidates: the certificate of each is computed on the host from the original problem, and what
does not meet the goal there is left to a solve of its own.

Compiling takes seconds, so problems of a kind that are fewer than that is worth are iterated on by NumPy, all of them
in every operation (`_lanes`): the same steps of the same program, from a first start only.
"""

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from jaxpriv._compile import compiled, own_settings
from jaxpriv._lanes import spread, with_lanes
from jaxpriv.certificates.verification import StackProof, certify, certify_stack
from jaxpriv.joints import AbstractJoint
from jaxpriv.presolve.buckets import Bucket, Lanes, Measures, bucket_of, form_of, grows, numeric, restored
from jaxpriv.presolve.closed_forms import cheapest_release, independent_release
from jaxpriv.presolve.reduction import Reduced
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.convex import in_lanes
from jaxpriv.program.lower import Limits, ProblemStack, measured_program, reading, tables_of
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import Goal, InteriorPoint
from jaxpriv.solving.choice import pick_solver, step_limit
from jaxpriv.solving.loops import compile_setting, iterate_lanes, spend, step_seconds
from jaxpriv.solving.solve import solve
from jaxpriv.solving.stages import inner_goal, own_goal

# Bytes of the factors of all lanes together: what the caches of a processor hold. Larger batches are slower for each.
_BYTES = 2.0**24
# Arrays of the size of its factors that a lane holds.
_ARRAYS = 6
# Fewer lanes than the first share too little to be worth a program of their own; more than the second share no more.
_FEWEST, _MOST = 4, 128
# Predicted seconds in NumPy from which a kind of problems is compiled: about half of what that takes, since the next
# process finds the program kept on disk.
_WORTH_COMPILING = 4.0
# Of batches in NumPy: the most lanes and bytes of the factors of all of them, and the fewest lanes that take less time
# together than one after another. Measured at 4 to 32 symbols.
_MOST_UNCOMPILED, _BYTES_UNCOMPILED, _FEWEST_UNCOMPILED = 512, 2.0**27, 6
# The seconds of such a batch beside its lanes, and those of an entry of a mechanism. Measured at the same sizes.
_BATCH_UNCOMPILED, _ENTRY_UNCOMPILED = 0.04, 1e-5
# About the steps of a solve (compiled, and in NumPy, where a step takes longer), and of the search for the least worst
# outcome relative to those; the seconds of a small solve in NumPy; and those of a step that no size explains.
STEPS, _NUMPY_STEPS, _SEARCH, _SMALLEST, _OVERHEAD = 10, 20, 4, 0.01, 2e-4
# Processor seconds that compiling a batch takes, most often.
COMPILE = 8.0
# Steps from which a lane that does not end is left to a solve of its own: all others would wait for it.
_STEPS_OF_LANES = 48
# Entries of a mechanism up to which lanes of an average make fewer mirror steps and corrections.
_SMALL_TABLE = 12**2
# Entries of all arrays of a problem up to which its kind follows from sizes: nothing about memory is asked there.
_ALIKE = 2**20
# Limits up to this are met by independent outputs alone, whose certificates are computed one by one.
_NOTHING = 1e-12
# The status and the stop reason of lanes that need nothing more, as arrays of theirs have them.
_OPTIMAL, _COMPLETE = np.int32(Status.OPTIMAL), np.int32(0)


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
    def stacks(self) -> bool:
        """Whether one pass certifies a batch of problems of equal sizes: of one measure, and where that is limited one
        that independent outputs leak nothing of.
        """
        measure, *limits = self.measures.values
        limited = self.form == "leakage_budget" or measure.worst_outcome
        return not limits and (not limited or measure.least == 0.0)

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
        return _SEARCH if self.searches else 1.0

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

    @property
    def searches(self) -> bool:
        """Whether the least worst outcome is asked for, which may be more than one program."""
        return self.form == "budget" and self.measures.values[0].worst_outcome

    @property
    def lanes_uncompiled(self) -> int:
        """How many lanes a batch in NumPy has at most; 0: there are none.

        Problems too large for a compiled batch are soon compiled one by one, and take less time then.
        """
        if self.lanes < _FEWEST or len(self.measures.values) > 1 or self.searches or not numeric(self.measures):
            return 0
        return int(min(_MOST_UNCOMPILED, _BYTES_UNCOMPILED // self.lane_bytes))

    def uncompiled_seconds(self, count: int) -> float:
        """About what `count` problems take in NumPy."""
        together = self.width_uncompiled(count)
        if not together:
            return count * self.single_seconds
        entries = self.bucket.inputs * self.bucket.outputs
        return -(-count // together) * _BATCH_UNCOMPILED + count * entries * _ENTRY_UNCOMPILED

    def width_uncompiled(self, count: int) -> int:
        """The lanes of the batches in NumPy for `count` problems, about as many in each. 0: one by one."""
        most = self.lanes_uncompiled
        if min(most, count) < _FEWEST_UNCOMPILED or compile_setting() == "always" or jax.default_backend() != "cpu":
            return 0
        return -(-count // -(-count // most))

    def width(self, count: int, spent: float = 0.0) -> int:
        """The lanes of the program for `count` problems: a power of two, or as many as there may be.

        So another number of problems seldom compiles another program. 0: they are not worth one. `spent`: the seconds
        that NumPy has taken for batches of the kind before; a kind that comes again and again has one program.
        """
        if count < 2 or self.lanes < _FEWEST or compile_setting() == "never":
            return 0
        seconds = self.uncompiled_seconds(count)
        if seconds >= _WORTH_COMPILING or compile_setting() == "always":
            return min(self.lanes, 1 << (count - 1).bit_length())
        return self.lanes if self.width_uncompiled(count) and spent + seconds >= _WORTH_COMPILING else 0

    @property
    def small(self) -> bool:
        """Whether single solves may stay in NumPy for a whole call: more of them would be a batch instead."""
        return self.lanes >= _FEWEST

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
        if kind.lanes_uncompiled and not target.width(total[target] + count):
            extra = target.uncompiled_seconds(total[target] + count) - target.uncompiled_seconds(total[target])
        if extra < (COMPILE if own else kind.uncompiled_seconds(count)):
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
    count, bucket = len(problem.distortions), bucket_of(problem)
    if not isinstance(solver, InteriorPoint):
        method = _in_lanes(method, form, measures, bucket)
    return Kind(bucket, problem.sizes[0], count, form, measures, name, method)


def _in_lanes(method: InteriorPoint, form: str, measures: Measures, bucket: Bucket) -> InteriorPoint:
    """The method with the numbers of correctors and mirror steps that take the least time in a batch, where every lane
    waits for those of any other.

    A trial point of a program with limits on smooth measures asks for their boundaries, many times in a step, and costs
    more than the factors that correctors save. Measured at 8 and 16 symbols. Small averages take more steps with fewer
    correctors and mirror steps, but less time: measured at 4 to 12 symbols; at 16 it makes no difference.
    """
    measure, *limits = measures.values
    if measure.linear or any(one.linear for one in limits):
        return method
    if form == "leakage_budget":
        return dataclasses.replace(method, correctors=0)
    if measure.worst_outcome:
        return dataclasses.replace(method, correctors=1)
    small = bucket.inputs * bucket.outputs <= _SMALL_TABLE
    return dataclasses.replace(method, correctors=1, warm_steps=25) if small else method


class Kinds:
    """`kind_of` for many problems: asked once for all that it cannot tell apart."""

    def __init__(self, solver: object, goal: Goal) -> None:
        self._solver, self._goal = solver, goal
        self._known: dict[Hashable, Kind | None] = {}

    def of(self, problem: object) -> Kind | None:
        """The same, and the same errors."""
        key = _likeness(problem) if isinstance(problem, DistortionProblem) else None
        if key is None:
            return kind_of(problem, self._solver, self._goal)
        if key not in self._known:
            self._known[key] = kind_of(problem, self._solver, self._goal)
        return self._known[key]


def _likeness(problem: DistortionProblem) -> Hashable:
    """All that the kind of a problem depends on; None where that is more than its form, measures and sizes."""
    measures = (problem.leakage, *(measure for measure, _ in problem.limits))
    if not isinstance(problem.data, np.ndarray) or math.prod(problem.sizes) > _ALIKE:
        return None
    parameters: list[object] = []
    for measure in measures:
        parameters.append(type(measure))
        for value in vars(measure).values():
            if not (value is None or (isinstance(value, (np.ndarray, float)) and np.ndim(value) == 0)):
                return None
            parameters.append(value if value is None else float(value))
    form = form_of(problem)
    finite = np.isfinite(getattr(problem, form)).all() and all(np.isfinite(value) for _, value in problem.limits)
    return (problem.sizes, len(problem.distortions), form, finite, *parameters)


def in_order(problems: Sequence[DistortionProblem], places: Iterable[int]) -> list[int]:
    """Places of problems of one kind, by sizes, since one pass certifies those of a batch that have equal ones, then
    so that those of a batch take about as many steps.

    That is by budgets as shares of the way from the least distortion to that of the best constant release, and by
    prices and leakage budgets as they are.
    """
    alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for i in places:
        alike[problems[i].sizes].append(i)
    ordered = []
    for _, own in sorted(alike.items()):
        parts = [own[start : start + _MOST] for start in range(0, len(own), _MOST)]
        slacks = np.concatenate([_slacks([problems[i] for i in part]) for part in parts])
        ordered += [own[j] for j in np.lexsort(slacks.T[::-1])]
    return ordered


def _slacks(problems: Sequence[DistortionProblem]) -> np.ndarray:
    """The numbers that problems of equal sizes are ordered by, (N, M)."""
    form = form_of(problems[0])
    target = np.array([getattr(problem, form) for problem in problems], dtype=np.float64).reshape(len(problems), -1)
    if form != "budget":
        return target
    masses = np.stack([problem.joints for problem in problems]).sum(axis=2).mean(axis=1)
    weighted = masses[:, None, :, None] * tables_of(problems)
    least, idle = weighted.min(axis=3).sum(axis=2), weighted.sum(axis=2).min(axis=2)
    return (target - least) / np.where(idle > least, idle - least, 1.0)


def solve_together(
    batches: Iterable[Sequence[DistortionProblem]], kind: Kind, goal: Goal, max_steps: int | None, width: int
) -> Iterator[list[Solution | None]]:
    """The certified solutions of every batch of up to `width` problems of one kind, None where one is left to a solve
    of its own: where the goal is not proved, and where the device refused the batch. `width` 0: batches in NumPy, of
    any number.

    The device computes a batch while the one before it is certified. The seconds of a solution are its share of those
    that its batch added.
    """
    ahead: _Running | None = None
    begun = time.perf_counter()
    for problems in batches:
        running = _Running.of(problems, kind, goal, max_steps, width)
        if ahead is not None:
            yield ahead.certified(begun)
            begun = time.perf_counter()
        ahead = running
    if ahead is not None:
        yield ahead.certified(begun)


@dataclasses.dataclass(frozen=True, eq=False)
class _Running:
    """A batch that the device computes."""

    problems: Sequence[DistortionProblem]
    kind: Kind
    goal: Goal
    found: Solution | None  # None: the device refused it
    compiling: float

    @staticmethod
    def of(
        problems: Sequence[DistortionProblem], kind: Kind, goal: Goal, max_steps: int | None, width: int
    ) -> "_Running":
        limit = min(step_limit(kind.solver, max_steps), _STEPS_OF_LANES)
        if not width:
            began = time.thread_time()
            found = _uncompiled(problems, kind, goal, limit)
            spend(kind, time.thread_time() - began)
            return _Running(problems, kind, goal, found, 0.0)
        lanes = Lanes.of([*problems, *[problems[-1]] * (width - len(problems))], kind.bucket)
        numbers = np.asarray(goal.tol, np.float64), np.asarray(goal.rtol, np.float64)
        try:
            with own_settings():
                spend(kind, _WORTH_COMPILING)  # its program is at hand from now on
                run, compiling = compiled(_solve_all, kind.solver, lanes, *numbers, np.asarray(limit))
                return _Running(problems, kind, goal, run(), compiling)
        except jax.errors.JaxRuntimeError:
            return _Running(problems, kind, goal, None, 0.0)

    def certified(self, begun: float) -> list[Solution | None]:
        """What was found, with the numbers that it proves for each problem itself; None where these miss the goal."""
        results: list[Solution | None] = [None] * len(self.problems)
        try:
            found = None if self.found is None else jax.tree.map(np.asarray, self.found)
        except jax.errors.JaxRuntimeError:
            found = None
        if found is None:
            return results
        alike: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for i in np.flatnonzero(found.code[: len(results)] == Status.OPTIMAL).tolist():
            alike[self.problems[i].sizes].append(i)
        proved = [_proved([self.problems[i] for i in places], places, found, self.kind) for places in alike.values()]
        spent = max(time.perf_counter() - begun - self.compiling, 0.0)
        seconds = {"compile": self.compiling / len(results), "solve": spent / len(results)}
        for one in proved:
            for j in np.flatnonzero(one.met(self.goal)).tolist():
                results[one.lanes[j]] = one.solution(j, self.kind.name, seconds)
        return results


@dataclasses.dataclass(frozen=True, eq=False)
class _Proved:
    """Candidates for problems of equal sizes along a leading axis, and what they prove."""

    problems: Sequence[DistortionProblem]
    lanes: list[int]
    mechanism: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    multipliers: np.ndarray
    steps: np.ndarray
    proof: StackProof

    def met(self, goal: Goal) -> np.ndarray:
        """Which meet the goal."""
        if self.problems[0].leakage_budget is None:
            return np.asarray(goal.proved(self.proof))
        tolerances = np.array([own_goal(problem, goal).tol for problem in self.problems])
        return np.asarray(dataclasses.replace(goal, tol=tolerances).proved(self.proof))

    def solution(self, j: int, name: str, seconds: dict[str, float]) -> Solution:
        """That of one of them."""
        return Solution(
            value=self.proof.value[j],
            lower_bound=self.proof.lower_bound[j],
            mechanism=self.mechanism[j],
            leakage=self.proof.leakage[j],
            distortion=self.proof.distortion[j],
            scores=self.scores[j],
            weights=self.weights[j],
            multipliers=self.multipliers[j],
            code=_OPTIMAL,
            steps=self.steps[j],
            solver=name,
            seconds=seconds,
            stopped=_COMPLETE,
        )


def _proved(problems: Sequence[DistortionProblem], lanes: list[int], found: Solution, kind: Kind) -> _Proved:
    """What lanes found for problems of equal sizes, with the certificates of the problems themselves."""
    stack = ProblemStack.of(problems) if kind.stacks else None
    if stack is not None and stack.leakage_budget is not None and (stack.leakage_budget <= _NOTHING).any():
        stack = None
    joints = np.stack([problem.joints for problem in problems]) if stack is None else stack.joints
    taken = jax.tree.map(lambda leaf: leaf[lanes], found)
    outputs = problems[0].shape[1]
    mechanism, scores, weights = restored(joints, outputs, kind.bucket, taken.mechanism, taken.scores, taken.weights)
    rest = weights, taken.multipliers
    if stack is not None:
        proof = certify_stack(stack, mechanism, scores[:, 0], *rest, taken.lower_bound)
    else:
        padded = dataclasses.replace(taken, mechanism=mechanism, scores=scores, weights=weights)
        proof = StackProof.of([certify(problem, padded[j]) for j, problem in enumerate(problems)])
    return _Proved(problems, lanes, mechanism, scores, *rest, taken.steps.astype(np.int32), proof)


def _uncompiled(problems: Sequence[DistortionProblem], kind: Kind, goal: Goal, limit: int) -> Solution:
    """Candidates by NumPy, with a leading axis; what they prove is not among them."""
    stack = Lanes.of(problems, kind.bucket).stack()
    limits: Limits = ()
    if stack.leakage_budget is not None:
        limits = ((stack.leakage, stack.leakage_budget),)
        goal = dataclasses.replace(
            goal, tol=with_lanes(np.array([own_goal(problem, goal).tol for problem in problems]))
        )
    program = in_lanes(measured_program(stack, limits))
    start = cheapest_release if len(program.budgets) and not program.shares else independent_release
    program = dataclasses.replace(program, feasible_point=start(program))
    reduced = Reduced.of(program, inner_goal(goal, reading(stack)[0], stack))
    best, steps = iterate_lanes(kind.solver, reduced.program, reduced.goal, limit)
    count, unknown = len(problems), np.full(len(problems), np.nan)
    mechanism, k, eta, price = (spread(part, count) for part in reduced.expanded(jax.tree.map(with_lanes, best)))
    return Solution(
        value=unknown,
        lower_bound=unknown,
        mechanism=mechanism,
        leakage=unknown,
        distortion=np.full((count, len(problems[0].distortions)), np.nan),
        scores=k[:, None],
        weights=eta,
        multipliers=price,
        code=np.full(count, int(Status.OPTIMAL)),
        steps=steps,
        stopped=np.zeros(count, dtype=np.int32),
    )


def _solve_all(solver: InteriorPoint, lanes: Lanes, tol: Array, rtol: Array, limit: int) -> Solution:
    def one(lane: Lanes) -> Solution:
        return solve(lane.problem(), solver, tol=tol, rtol=rtol, max_steps=limit)

    return jax.vmap(one)(lanes)
