"""How far a mechanism or a release is from the certified optimum, on the records alone: its gap, and its excess.

The gap of an audited mechanism is computed again where that is possible, and labelled where it is not.

The excess of a release is counted from triples (s, x, y): what is private, what is useful, and what was released. On
the frequencies of these records the release is the mapping W = P^(y|x); its leakage I(S;Y), distortion E d(X,Y) and
disclosure I(X;Y) are exact for them. The optimum is that of the design problem for the same P^(s,x): least I(S;Y) of
any mapping of X to the same Y with at most that distortion, or to any outputs with at least that disclosure. The excess
lies between I(S;Y) less the value of the best mapping that was found and I(S;Y) less the certified lower bound. A
mapping that was fitted on few records looks more informative than it is, to the release and the optimum alike;
`audit_pairs` bounds the population.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.counts import count_array
from jaxpriv._runtime.validation import nonnegative, real_array, scalar
from jaxpriv.errors import InputError, JaxprivError
from jaxpriv.leakage import AbstractLeakage, MutualInformation, Row, by_name, parameters_of
from jaxpriv.problems import DistortionProblem, FunnelProblem
from jaxpriv.program.solution import Solution
from jaxpriv.solving.solve import solve
from jaxpriv.statistics.audit._information import mutual_information
from jaxpriv.verifier.archive import read_file, strict

# A solution belongs to the audit if its leakage is the fitted value to this accuracy.
_SAME = 1e-6
# A solution as JSON has a few hundred bytes.
_LARGEST_JSON = 2**24


@dataclass(frozen=True)
class CertifiedGap:
    """The gap of one row, and whether it was computed again."""

    row: Row
    gap: float
    verified: bool


@dataclass(frozen=True)
class StatedSolution:
    """Value, leakage and gap of a solution, as somebody states them."""

    value: float
    leakage: float
    gap: float

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "StatedSolution":
        """Those of a JSON file of `jaxpriv solve`.

        Raises `InputError` if there is no such file, or one of these is no finite number, `IntegrityError` if it is not
        strict JSON, and `ResourceError` if it cannot be read.
        """
        try:
            record: Any = strict(read_file(path, _LARGEST_JSON), str(path), plain=False)
        except JaxprivError as error:
            raise type(error)(f"solution: {error}") from error
        numbers: list[Any] = [record.get(part) if isinstance(record, dict) else None for part in cls.__annotations__]
        if not all(type(number) in (int, float) for number in numbers):
            raise InputError(f"solution: {path} has no finite numbers value, leakage and gap")
        return cls(*numbers)


def certified_gap(
    solution: Solution | StatedSolution | str | os.PathLike[str] | None,
    problem: DistortionProblem | None,
    gap: float | None,
    objective: AbstractLeakage | str | None,
    channel: np.ndarray,
    rows: Sequence[Row],
    measures: Sequence[AbstractLeakage],
    *,
    held_out: bool,
) -> CertifiedGap | None:
    """The gap and the row it belongs to, after a check that the solution is about this mechanism and joint."""
    if solution is None and gap is None:
        if objective is not None or problem is not None:
            raise InputError("objective and problem are those of a solution; no solution was given")
        return None
    if solution is not None and gap is not None:
        raise InputError("give either a solution or a gap that was computed again")
    wanted = MutualInformation() if objective is None else objective
    if isinstance(wanted, str):
        try:
            wanted = by_name(**parameters_of(wanted))
        except InputError as error:
            raise InputError(f"objective: {error}") from error
    if isinstance(solution, (str, os.PathLike)):
        solution = StatedSolution.load(solution)
    named = [row for row, measure in zip(rows, measures, strict=True) if eqx.tree_equal(measure, wanted)]
    if not named:
        raise InputError("objective is not among the measures of the audit (name its order in orders)")
    row = named[0]
    if solution is None:
        return CertifiedGap(row, scalar(gap, "gap", low=0.0), verified=True)
    if problem is not None:
        if not isinstance(solution, Solution):
            raise InputError("problem: a solution that only states its gap is not verified by its problem")
        return CertifiedGap(row, _verified(solution, problem, wanted, channel), verified=True)
    value, leakage, stated = (
        scalar(getattr(solution, part, None), f"solution.{part}", low=low)
        for part, low in (("value", -np.inf), ("leakage", -np.inf), ("gap", 0.0))
    )
    if not np.isclose(value, leakage, _SAME, _SAME):
        raise InputError("solution minimised something else than the leakage: its gap is not about a measure")
    if not held_out and not np.isclose(leakage, row.value, _SAME, _SAME):  # its records are other ones then
        raise InputError("solution is about another mechanism, joint or measure: its leakage is not the value here")
    return CertifiedGap(row, stated, verified=False)


def _verified(solution: Solution, problem: DistortionProblem, wanted: AbstractLeakage, channel: np.ndarray) -> float:
    """The gap of a solution computed again from its problem, mechanism and duals."""
    from jaxpriv.program.certificates.verification import certify  # most audits have no problem to check

    if not isinstance(problem, DistortionProblem):
        raise InputError("problem must be the DistortionProblem of the solution")
    checked = certify(problem, solution)
    if not problem.form.limits_distortion:
        raise InputError("problem minimises something else than the leakage: its gap is not about a measure")
    if not eqx.tree_equal(problem.leakage, wanted):
        raise InputError("problem is about another measure: name it in objective")
    if not checked.valid:
        raise InputError(f"solution does not solve problem: {checked.message}")
    mechanism = np.asarray(solution.mechanism)
    if mechanism.shape != channel.shape or not np.allclose(mechanism, channel, rtol=0, atol=1e-12):
        raise InputError("solution is about another mechanism")
    return float(checked.gap)


At = Literal["distortion", "disclosure"]


@dataclass(frozen=True)
class ReleaseExcess:
    """A release beside the optimum, nats, on the frequencies of the records.

    Attributes:
        records: n.
        leakage: I(S;Y) of the pairs.
        direct: I(S;Y|X), the information of Y about S beyond X; 0 for a mapping of X.
        distortion: E d(X,Y); None without a distortion.
        disclosure: I(X;Y).
        at: what the optimum has in common with the release.
        optimum: I(S;Y) of the best mapping that was found.
        lower_bound: certified: no mapping of X has less; at the same distortion that is about mappings to the Y of the
            counts.
        status: of the optimum: `optimal` if both are within the tolerance.
        least, most: the excess lies between `leakage - optimum` and `leakage - lower_bound`; a negative one is possible
            only where the release used S itself.
    """

    records: int
    leakage: float
    direct: float
    distortion: float | None
    disclosure: float
    at: At
    optimum: float
    lower_bound: float
    status: str
    least: float
    most: float


def excess(
    counts: ArrayLike,
    *,
    distortion: ArrayLike | None = None,
    at: At | None = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
) -> ReleaseExcess:
    """Compare a release with the certified optimum.

    Args:
        counts: (S, X, Y) whole numbers of records with private s, useful x and released y.
        distortion: d (X, Y), prices of releasing y for x; needed for `at="distortion"`.
        at: "distortion" (the default where one is given) or "disclosure".
        tol: the certified gap that counts as optimal, nats.
        time_limit: seconds for the optimum; at its end the interval is wider.

    Raises:
        InputError: bad arrays, a distortion of another shape, an unknown `at`, or `at="distortion"` without one.
    """
    table = count_array(counts, "counts", ndim=3)
    if not table.any():
        raise InputError("counts has no record")
    if not (at is None or (isinstance(at, str) and at in ("distortion", "disclosure"))):
        raise InputError("at must be 'distortion' or 'disclosure'")
    if at == "distortion" and distortion is None:
        raise InputError("at='distortion' needs a distortion")
    tolerance = scalar(tol, "tol", low=0.0)
    table = table[table.any(axis=(1, 2))][:, table.any(axis=(0, 2))] if distortion is None else table
    n = int(table.sum())
    joint, pairs = table.sum(axis=2) / n, table.sum(axis=1) / n
    useful = table.sum(axis=0) / n
    leakage, disclosure = float(mutual_information(pairs)), float(mutual_information(useful))
    direct = sum(
        float(mutual_information(part / n / (part.sum() / n))) * part.sum() / n
        for part in np.moveaxis(table, 1, 0)
        if part.any()
    )
    spent = None
    if distortion is not None:
        prices = nonnegative(real_array(distortion, "distortion", ndim=2), "distortion")
        if prices.shape != useful.shape:
            raise InputError(f"distortion has shape {prices.shape}; the counts have (X, Y) = {useful.shape}")
        spent = float((useful * prices).sum())
    kind: At = at or ("disclosure" if distortion is None else "distortion")
    if kind == "distortion":
        # The optimum may not be worse for the rounding of a mean.
        problem: object = DistortionProblem(joint, prices, budget=spent * (1 + 1e-12) if spent else 0.0)
    else:
        seen = joint[joint.any(axis=1)][:, joint.any(axis=0)]
        problem = FunnelProblem(seen, disclosure=max(0.0, disclosure * (1 - 1e-9) - 1e-12))
    solution = solve(problem, tol=tolerance, time_limit=time_limit)
    value, bound = float(solution.value), max(float(solution.lower_bound), 0.0)
    return ReleaseExcess(
        records=n,
        leakage=leakage,
        direct=max(direct, 0.0),
        distortion=spent,
        disclosure=disclosure,
        at=kind,
        optimum=value,
        lower_bound=bound,
        status=str(solution.status),
        least=leakage - value,
        most=leakage - bound,
    )
