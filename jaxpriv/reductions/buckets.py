"""Problems padded to a common shape (a bucket), so that one compiled program takes all of them; and the way back.

A program is compiled for one shape, which takes seconds. So alphabets are rounded up to a grid, and what is added
changes no optimal value:

* S: symbols without mass, rows of zeros of the joint;
* X: symbols without mass, columns of zeros of the joint, with cost 0 for every release;
* Y: copies of real outputs, y + |Y| with the costs of y, and so on. An output may be split into copies at will: every
  measure is homogeneous in the columns w_y, so that the leakage stays the same, and convex: copies gain nothing.

On the way back the copies of a column are summed, and the rows and scores of what was added are left out. The scores of
the first |Y| outputs prove the bound of the original problem, whose outputs they are. No certificate relies on any of
this: it is computed from the original problem.
"""

import dataclasses
from collections.abc import Hashable, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple

import jax
import numpy as np

from jaxpriv._runtime.types import Arr
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.forms import AbstractProblemForm
from jaxpriv.program.lower import ProblemStack, stacked, tables_of, terms_of

# Alphabets are rounded up to multiples of the second number up to the first. Larger ones stay as they are: a step takes
# most of the time there, and a few symbols more cost as much as compiling.
_GRID = ((24, 4), (64, 8))


class Bucket(NamedTuple):
    """The sizes (|S|, |X|, |Y|) that problems are padded to."""

    private: int
    inputs: int
    outputs: int


@dataclasses.dataclass(frozen=True, eq=False)
class Measures:
    """The measures of a problem, compared by their parameters: these are part of a program, not arguments of it."""

    values: tuple[AbstractLeakage, ...]

    @staticmethod
    def of(problem: DistortionProblem) -> "Measures":
        """Its own measure, then those of its further limits."""
        return Measures((problem.leakage, *(measure for measure, _ in problem.limits)))

    @cached_property
    def _key(self) -> Hashable:
        leaves, structure = jax.tree.flatten(self.values)
        arrays = map(np.asarray, leaves)
        return structure, tuple((array.shape, str(array.dtype), array.tobytes()) for array in arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measures) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def bucket_size(symbols: int) -> int:
    """The size of an alphabet, rounded up: to multiples of 4 up to 24, of 8 up to 64, and exact above."""
    for largest, grid in _GRID:
        if symbols <= largest:
            return -(-symbols // grid) * grid
    return symbols


def bucket_of(problem: DistortionProblem) -> Bucket:
    """The bucket of a problem; |S| stays as it is where a measure's rules are not one row for each private symbol."""
    _, private, inputs, outputs = problem.sizes
    rounded = bucket_size(private) if grows(Measures.of(problem)) else private
    return Bucket(rounded, bucket_size(inputs), bucket_size(outputs))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Lanes:
    """Problems of one kind, padded to one bucket and stacked along a leading axis; or one of them, without that axis.

    Of one kind: the same form, as many joints, distortions and limits, the same measures.
    """

    joints: Arr  # (N, K, S, X)
    tables: Arr  # (N, M, X, Y)
    form: AbstractProblemForm  # its target is (N, M), or (N,) of a limit on the leakage
    limits: Arr  # (N, L)
    measures: Measures = dataclasses.field(metadata={"static": True})

    @staticmethod
    def of(problems: Sequence[DistortionProblem], bucket: Bucket) -> "Lanes":
        """The problems, padded to a bucket that none of them exceeds."""
        first = problems[0]
        groups, count = first.sizes[0], len(first.distortions)
        joints = np.zeros((len(problems), groups, bucket.private, bucket.inputs))
        tables = np.zeros((len(problems), count, bucket.inputs, bucket.outputs))
        start = 0
        for (_, private, inputs, outputs), part in groupby(problems, key=lambda problem: problem.sizes):
            alike = list(part)
            lanes = slice(start, start + len(alike))
            joints[lanes, :, :private, :inputs] = np.stack([problem.joints for problem in alike])
            copies = np.arange(bucket.outputs) % outputs
            tables[lanes, :, :inputs] = tables_of(alike)[..., copies]
            start = lanes.stop
        limits = np.array([[value for _, value in problem.limits] for problem in problems], dtype=np.float64)
        return Lanes(joints, tables, stacked(problems), limits, Measures.of(first))

    def stack(self) -> ProblemStack:
        """All problems, of one measure."""
        (leakage,) = self.measures.values
        joints, tables = np.asarray(self.joints), np.asarray(self.tables)
        return ProblemStack(joints, tables, leakage, self.form)

    def problem(self) -> DistortionProblem:
        """The problem of one lane."""
        leakage, *limited = self.measures.values
        limits = [(measure, self.limits[i]) for i, measure in enumerate(limited)]
        target = {self.form.name: self.form.target}
        return DistortionProblem(self.joints, self.tables, leakage=leakage, limits=limits, **target)


def restored(
    joints: np.ndarray, outputs: int, bucket: Bucket, wide: np.ndarray, scores: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mechanism, scores, weights) of padded problems, read as candidates for the problems, still to be certified.

    All arrays have a leading axis: `joints` (N, K, S, X) are those of the problems, which have equal sizes. Rows of
    useful symbols without mass become the marginal of Y, as in every solution.
    """
    private, inputs = joints.shape[-2:]
    mechanism = wide[:, :inputs, :outputs]
    if wide.shape[-1] > outputs:
        mechanism = mechanism.copy()
        for start in range(outputs, wide.shape[-1], outputs):
            part = wide[:, :inputs, start : start + outputs]
            mechanism[..., : part.shape[-1]] += part
    masses = joints.sum(axis=(1, 2))  # (N, X)
    if not masses.all():
        marginal = (masses[:, None, :] @ mechanism)[:, 0]
        marginal = marginal / marginal.sum(axis=-1, keepdims=True)
        mechanism = np.where(masses[..., None] > 0, mechanism, marginal[:, None, :])
    scores = scores[:, :, :outputs]
    if bucket.private > private:  # every term has one row for each private symbol
        lead = scores.shape[:3]
        scores = scores.reshape(*lead, -1, bucket.private)[..., :private].reshape(*lead, -1)
    return mechanism, scores, weights[:, :outputs]


@lru_cache(maxsize=256)
def numeric(measures: Measures) -> bool:
    """Whether NumPy computes the sets of rules of each measure for all lanes at once: none is a function or a class of
    the user's, which may be written for arrays of JAX, or call what arrays with lanes do not have.
    """
    joint = np.array([[0.3, 0.2], [0.1, 0.4]])
    for measure in measures.values:
        if measure.untraceable is not None or any(np.ndim(leaf) for leaf in jax.tree.leaves(measure)):
            return False
        role = Role.WORST if measure.worst_outcome else Role.AVERAGE
        sets = [term.rule_set for term in terms_of(measure, joint, role, _LIMIT, True)]
        parts = [getattr(rule_set, field.name) for rule_set in sets for field in dataclasses.fields(rule_set)]
        if any(rule_set.users for rule_set in sets) or not all(_known(part) for part in (measure, *sets, *parts)):
            return False
    return True


def _known(thing: object) -> bool:
    """Whether its class is the library's, or Python's."""
    return type(thing).__module__.partition(".")[0] in ("jaxpriv", "builtins")


@lru_cache(maxsize=256)
def grows(measures: Measures) -> bool:
    """Whether a private symbol without mass adds nothing but a row of zeros to the rules of each measure.

    Seen in the terms of two joints, of which one has such a symbol more.
    """
    joint = np.array([[0.3, 0.2], [0.1, 0.4]])
    padded = np.vstack([joint, np.zeros((1, 2))])
    for measure in measures.values:
        if not measure.designable or measure.untraceable is not None:
            return False
        if any(np.ndim(leaf) for leaf in jax.tree.leaves(measure)):  # a parameter for each private symbol
            return False
        role = Role.WORST if measure.worst_outcome else Role.AVERAGE
        (small,), (large,) = (terms_of(measure, table, role, _LIMIT, True) for table in (joint, padded))
        if not np.array_equal(large.rows, np.vstack([small.rows, np.zeros((1, 2))])):
            return False
    return True


# The limit at which rules are compared.
_LIMIT = 0.1
