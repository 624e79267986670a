"""Which problems share a batch, in whose size, and whether NumPy or a compiled program computes it.

Problems of one kind differ in numbers alone. A program for a kind takes seconds to compile, which hundreds to thousands
of small problems are worth; fewer are computed side by side by NumPy, or one by one.
"""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jax.sharding import Mesh

from jaxpriv._runtime.compilation import target_platform
from jaxpriv.data.distortion import AbstractDistortion, Matrix, forbids
from jaxpriv.data.joints import AbstractJoint
from jaxpriv.leakage import MutualInformation
from jaxpriv.leakage.pointwise import AbstractPointwiseLeakage
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.forms import AbstractProblemForm
from jaxpriv.reductions.buckets import Bucket, Measures, bucket_of, grows, numeric
from jaxpriv.solvers import Goal, InteriorPoint
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solving.choice import pick_solver
from jaxpriv.solving.loops import SMALL, WHOLE, compile_setting, step_seconds

# Steps from which a lane that does not end is left to a solve of its own: all others would wait for it.
STEPS_OF_LANES = 48
# Bytes of the factors of all lanes together: what the caches of a processor hold. Larger batches are slower for each.
_BYTES = 2.0**24
# Arrays of the size of its factors that a lane holds.
_ARRAYS = 6
# Fewer lanes than the first share too little to be worth a program of their own; more than the second share no more.
_FEWEST, _MOST = 4, 128
# Predicted seconds in NumPy from which a kind of problems is compiled: about half of what that takes, since the next
# process finds the program kept on disk.
WORTH_COMPILING = 4.0
# Of batches in NumPy: the most lanes and bytes of the factors of all of them, and the fewest lanes that take less time
# together than one after another. Measured at 4 to 32 symbols.
_MOST_UNCOMPILED, _BYTES_UNCOMPILED, _FEWEST_UNCOMPILED = 512, 2.0**27, 6
# The seconds of such a batch beside its lanes, and those of an entry of a mechanism. Measured at the same sizes.
_BATCH_UNCOMPILED, _ENTRY_UNCOMPILED = 0.04, 1e-5
# The same of a batch by a kernel, and about the tables of a problem that it holds at a time.
_BY_KERNEL, _TABLES = (0.01, 2e-6), 12
# About the steps of a solve (compiled, and in NumPy, where a step takes longer), and of those for the least worst
# outcome relative to them; the seconds of a small solve in NumPy; and those of a step that no size explains.
STEPS, _NUMPY_STEPS, _LEAST_WORST, _SMALLEST, _OVERHEAD = 10, 20, 2, 0.01, 2e-4
# Processor seconds that compiling a batch takes, most often.
COMPILE = 8.0
# Entries of a mechanism up to which problems that a kernel solves make fewer mirror steps.
_FEW_MIRROR_STEPS = 24**2
# Entries of all arrays of a problem up to which its kind follows from sizes: memory is not estimated there.
_ALIKE = 2**20


class Kind(NamedTuple):
    """What problems of one batch have in common: all that the program is compiled for, but the number of lanes."""

    bucket: Bucket
    groups: int
    distortions: int
    form: type[AbstractProblemForm]
    measures: Measures
    name: str
    solver: InteriorPoint

    @property
    def stacks(self) -> bool:
        """Whether one pass certifies a batch of problems of equal sizes: of one measure, and where that is limited one
        that independent outputs leak nothing of.
        """
        measure, *limits = self.measures.values
        return not limits and (self.form.sums_leakage or measure.least == 0.0)

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
        return _LEAST_WORST if self.form.minimax else 1.0

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
    def by_kernel(self) -> bool:
        """Whether a kernel computes all steps of the problems of a batch.

        It does of the least mutual information or under a limit on it, and of the least worst outcome of a measure of
        log-ratios or of a relative entropy, under one joint, as small as what NumPy iterates on.
        """
        measure, *limits = self.measures.values
        average = isinstance(measure, MutualInformation)
        worst = self.form.minimax and (isinstance(measure, AbstractPointwiseLeakage) or measure.entropic)
        mine = (average or worst) and not limits and self.groups == 1
        most = SMALL if target_platform() == "cpu" else WHOLE  # an accelerator takes batches of others
        small = self._step_seconds <= most and self.distortions <= whole.MOST_BUDGETS
        return mine and small and compile_setting() != "always" and whole.has_kernels()

    @property
    def lanes_uncompiled(self) -> int:
        """How many lanes a batch in NumPy has at most; 0: there are none.

        Problems too large for a compiled batch are soon compiled one by one, and take less time then.
        """
        if self.by_kernel:
            tables = 8.0 * (self.distortions + _TABLES) * self.bucket.inputs * max(self._rows, self.bucket.outputs)
            return int(min(_MOST_UNCOMPILED, _BYTES_UNCOMPILED // tables))
        if self.lanes < _FEWEST or len(self.measures.values) > 1 or not numeric(self.measures):
            return 0
        return int(min(_MOST_UNCOMPILED, _BYTES_UNCOMPILED // self.lane_bytes))

    def uncompiled_seconds(self, count: int) -> float:
        """About what `count` problems take in NumPy."""
        together = self.width_uncompiled(count)
        if not together:
            return count * self.single_seconds
        entries = self.bucket.inputs * self.bucket.outputs
        batch, entry = _BY_KERNEL if self.by_kernel else (_BATCH_UNCOMPILED, _ENTRY_UNCOMPILED)
        return -(-count // together) * batch + count * entries * entry

    def width_uncompiled(self, count: int) -> int:
        """The lanes of the batches in NumPy for `count` problems, about as many in each. 0: one by one."""
        most = self.lanes_uncompiled
        if min(most, count) < _FEWEST_UNCOMPILED or compile_setting() == "always":
            return 0
        if target_platform() != "cpu" and not self.by_kernel:
            return 0
        return -(-count // -(-count // most))

    def width(self, count: int, spent: float = 0.0, mesh: Mesh | None = None) -> int:
        """The lanes of the program for `count` problems: a power of two, or as many as there may be.

        So another number of problems seldom compiles another program. 0: they are not worth one. `spent`: the seconds
        that NumPy has taken for batches of the kind before; a kind that comes again and again has one program. `mesh`:
        devices that share the lanes, as many each; they are used.
        """
        if mesh is not None and self.lanes >= _FEWEST:
            each = -(-count // mesh.size)
            return mesh.size * min(self.lanes, 1 << (each - 1).bit_length())
        if count < 2 or self.lanes < _FEWEST or compile_setting() == "never" or self.by_kernel:
            return 0
        seconds = self.uncompiled_seconds(count)
        if seconds >= WORTH_COMPILING or compile_setting() == "always":
            return min(self.lanes, 1 << (count - 1).bit_length())
        return self.lanes if self.width_uncompiled(count) and spent + seconds >= WORTH_COMPILING else 0

    @property
    def small(self) -> bool:
        """Whether single solves may stay in NumPy for a whole call: more of them would be a batch instead."""
        return self.lanes >= _FEWEST

    def covers(self, other: "Kind") -> bool:
        """Whether problems of the other kind can be padded to this bucket."""
        if self._replace(bucket=other.bucket) != other:
            return False
        private = self.bucket.private == other.bucket.private or grows(self.measures)
        return private and all(most >= size for most, size in zip(self.bucket, other.bucket, strict=True))


def merged_kinds(places: Mapping[Kind, Sequence[int]]) -> dict[Kind, list[int]]:
    """The positions of problems by the kind in whose bucket they are computed, from those by their own kinds.

    Kinds that are too few for a program of their own are padded on to the next larger bucket that there is, as long as
    that takes no longer than solving them one by one; others where it takes less time than compiling would.
    """
    together = {kind: list(positions) for kind, positions in places.items()}
    for kind in sorted(places, key=lambda place: (np.prod(place.bucket), place.bucket)):
        count = len(together[kind])
        width = kind.width(count)
        larger = [other for other in together if other != kind and other.covers(kind) and other.lanes >= _FEWEST]
        if width:
            larger = [other for other in larger if other.width(len(together[other]))]
        if not larger:
            continue
        target = min(larger, key=lambda other: (other.lane_seconds, other.bucket))
        others = len(together[target])
        extra = count * (target.lane_seconds - kind.lane_seconds)
        if kind.lanes_uncompiled and not target.width(others + count):
            extra = target.uncompiled_seconds(others + count) - target.uncompiled_seconds(others)
        if extra < (COMPILE if width else kind.uncompiled_seconds(count)):
            together[target] += together.pop(kind)
    return together


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
    bounds = [problem.form.target, *(value for _, value in problem.limits)]
    if not all(np.all(np.isfinite(bound)) for bound in bounds):  # an infinite limit has no rules
        return None
    count, bucket = len(problem.distortions), bucket_of(problem)
    kind = Kind(bucket, problem.sizes[0], count, type(problem.form), measures, name, method)
    return kind if isinstance(solver, InteriorPoint) else kind._replace(solver=_in_lanes(kind))


def _in_lanes(kind: Kind) -> InteriorPoint:
    """The method with the numbers of correctors and mirror steps that take the least time in a batch, where every lane
    waits for those of any other, but not where a kernel solves one after another.

    A trial point of a program with limits on smooth measures asks for their boundaries, many times in a step, and costs
    more than the factors that correctors save. Measured at 8 and 16 symbols. Averages take more steps with fewer
    correctors and mirror steps, but less time: measured at 4 to 24 symbols. Two correctors in place of three take a
    sixth less for the least log-ratios of 8 symbols. Those of the kernel: measured at 8, 16, 32 and 64.
    """
    method, form, bucket = kind.solver, kind.form, kind.bucket
    measure, *limits = kind.measures.values
    if kind.by_kernel:
        few = bucket.inputs * bucket.outputs <= _FEW_MIRROR_STEPS
        return dataclasses.replace(method, correctors=2, warm_steps=12 if few else 25)
    if form.minimax and measure.linear:
        return dataclasses.replace(method, correctors=2)
    if measure.linear or any(limited.linear for limited in limits):
        return method
    return dataclasses.replace(method, correctors=0 if form.limits_leakage else 1, warm_steps=25)


class Kinds:
    """`kind_of` for many problems: computed once for all of equal structure and sizes."""

    def __init__(self, solver: object, goal: Goal) -> None:
        self._solver, self._goal = solver, goal
        self._known: dict[Hashable, Kind | None] = {}
        self._forbid: dict[int, tuple[AbstractDistortion, bool]] = {}

    def of(self, problem: object) -> Kind | None:
        """The same, and the same errors; None where pairs are forbidden, too."""
        if not isinstance(problem, DistortionProblem):
            return None
        key = _likeness(problem)
        kind = self._known[key] if key in self._known else kind_of(problem, self._solver, self._goal)
        if key is not None:
            self._known[key] = kind
        return None if kind is not None and any(map(self._forbids, problem.distortions)) else kind

    def _forbids(self, distortion: AbstractDistortion) -> bool:
        """Computed once for an operator."""
        if isinstance(distortion, Matrix):
            return forbids(distortion)
        if id(distortion) not in self._forbid:
            self._forbid[id(distortion)] = distortion, forbids(distortion)
        return self._forbid[id(distortion)][1]


def _likeness(problem: DistortionProblem) -> Hashable:
    """All that the kind of a problem depends on; None where that is more than its form, measures and sizes."""
    measures = (problem.leakage, *(measure for measure, _ in problem.limits))
    if not isinstance(problem.data, np.ndarray) or math.prod(problem.sizes) > _ALIKE:
        return None
    parameters: list[object] = []
    for measure in measures:
        parameters.append(type(measure))
        for value in (getattr(measure, parameter.name) for parameter in dataclasses.fields(measure)):
            if not (value is None or (isinstance(value, (np.ndarray, float)) and np.ndim(value) == 0)):
                return None
            parameters.append(value if value is None else float(value))
    targets = (problem.form.target, *(value for _, value in problem.limits))
    finite = all(np.isfinite(target).all() for target in targets)
    return (problem.sizes, len(problem.distortions), type(problem.form), finite, *parameters)
