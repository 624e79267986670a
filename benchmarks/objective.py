"""How a result is judged: by its mechanism alone, in float64, for every solver alike.

Nothing that a solver says about its own value counts. A mechanism is clipped to >= 0, its rows are normalised and,
under a budget, it is mixed with the least-distortion map until the budget holds; under a limit on leakage, with the
least share of a release without information that meets the limit (`limits`). A funnel's mechanism is mixed with a
release of X itself until it discloses enough. What remains is feasible, so its objective is an upper bound on the
optimum. The gap of a result is that value minus the best lower bound certified for the case (`run.py` collects it
over all solvers of the case). A mechanism that cannot be repaired (NaN, wrong shape, a row without mass) is refused
with a reason.
"""

import abc
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.limits import Limit
from jaxpriv.program.certificates import average_leakage

# Mechanisms (operators too) are written out for judging up to this many entries: 1 GiB in float64.
MOST_ENTRIES = 2**27


class Refused(Exception):
    """The candidate is no mechanism, and no repair would make it one."""


@dataclass(frozen=True)
class Score:
    """The judge's view of one candidate.

    Attributes:
        values: objective of the repaired candidate; one number, or one for each point of a curve.
        repair: the largest share of the least-distortion map that the budget made necessary, of a release
            without information that the limit on leakage did, or of X itself that a disclosure did.
    """

    values: tuple[float, ...]
    repair: float


class Objective(abc.ABC):
    """The question of a family of cases, and how an answer to it is judged.

    The one interface between cases and the harness: `run.py`, the results and the report never look
    inside a candidate. Another kind of problem (a non-convex funnel, say) is another subclass; where
    no global bound is known its cases have no bound, and results are compared by value.
    """

    @abc.abstractmethod
    def score(self, candidate: Any) -> Score:
        """Judge whatever the solvers of this family return. Raises `Refused`."""


@dataclass(frozen=True)
class DistortionObjective(Objective):
    """I(S;Y) at a budget, or I(S;Y) + multiplier E d(X,Y); the candidate is P(y|x), shape (X, Y).

    Attributes:
        joint: P(S,X), shape (S, X), float64.
        table: d(x,y), shape (X, Y).
        budget, multiplier: exactly one of them.
    """

    joint: np.ndarray
    table: np.ndarray = field(repr=False)
    budget: float | None = None
    multiplier: float | None = None

    def score(self, candidate: Any) -> Score:
        """Value and repair of one mechanism."""
        mechanism = as_mechanism(candidate, self.table.shape)
        mass = self.joint.sum(axis=0)
        used = float(mass @ (mechanism * self.table).sum(axis=1))
        share = 0.0
        if self.budget is not None and used > self.budget:
            least = float(mass @ self.table.min(axis=1))
            share = min((used - self.budget) / (used - least), 1.0)
            cheapest = np.eye(self.table.shape[1])[self.table.argmin(axis=1)]
            mechanism = (1.0 - share) * mechanism + share * cheapest
        value = float(average_leakage(self.joint, mechanism))
        if self.multiplier is not None:
            value += self.multiplier * used
        return Score((value,), share)


@dataclass(frozen=True)
class LimitObjective(Objective):
    """E d(X,Y) under a limit on leakage; the candidate is P(y|x), shape (X, Y).

    Attributes:
        table: d(x,y), shape (X, Y).
        limit: what may leak; it holds the joint.
    """

    table: np.ndarray = field(repr=False)
    limit: Limit

    def score(self, candidate: Any) -> Score:
        """Value and repair of one mechanism."""
        mechanism = as_mechanism(candidate, self.table.shape)
        weighted = self.limit.joint.sum(axis=0)[:, None] * self.table
        mechanism, share = self.limit.repaired(mechanism, cheapest=int(weighted.sum(axis=0).argmin()))
        return Score((float((weighted * mechanism).sum()),), share)


@dataclass(frozen=True)
class FunnelObjective(Objective):
    """I(S;Y) subject to I(X;Y) >= disclosure (nats); the candidate is P(y|x), shape (X, any number of outputs).

    Attributes:
        joint: P(S,X), shape (S, X).
        disclosure: R.
    """

    joint: np.ndarray
    disclosure: float

    def score(self, candidate: Any) -> Score:
        """The leakage of the mechanism, mixed with the least share of X itself that makes it disclose enough.

        A switch shown with the output chooses between the two, so that disclosures add up in proportion.
        """
        size = self.joint.shape[1]
        outputs = np.shape(candidate)[1] if np.ndim(candidate) == 2 else 0
        mechanism = as_mechanism(candidate, (size, outputs))
        source = np.diag(self.joint.sum(axis=0))
        disclosed, whole = (float(average_leakage(source, one)) for one in (mechanism, np.eye(size)))
        share = (
            float(np.clip((self.disclosure - disclosed) / (whole - disclosed), 0.0, 1.0))
            if disclosed < self.disclosure
            else 0.0
        )
        leaked, most = (float(average_leakage(self.joint, one)) for one in (mechanism, np.eye(size)))
        return Score(((1.0 - share) * leaked + share * most,), share)


@dataclass(frozen=True)
class CurveObjective(Objective):
    """Many budgets of one problem; the candidate is a stack of mechanisms, shape (points, X, Y)."""

    points: tuple[DistortionObjective, ...]

    def score(self, candidate: Any) -> Score:
        """Value of every point, the largest repair."""
        if len(candidate) != len(self.points):
            raise Refused(f"{len(candidate)} mechanisms for {len(self.points)} points")
        scores = [point.score(mechanism) for point, mechanism in zip(self.points, candidate, strict=True)]
        return Score(tuple(s.values[0] for s in scores), max(s.repair for s in scores))


def as_mechanism(candidate: Any, shape: tuple[int, int]) -> np.ndarray:
    """The candidate as rows of probabilities: clipped to >= 0 and normalised; refused if that is impossible."""
    written = candidate.matrix() if hasattr(candidate, "matrix") else candidate
    mechanism = np.asarray(written, dtype=np.float64)
    if mechanism.shape != shape:
        raise Refused(f"shape {mechanism.shape} where {shape} is needed")
    if not np.isfinite(mechanism).all():
        raise Refused("entries that are not finite")
    mechanism = np.maximum(mechanism, 0.0)
    mass = mechanism.sum(axis=1, keepdims=True)
    if not (mass > 0).all():
        raise Refused("a row without mass")
    return mechanism / mass
