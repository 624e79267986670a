"""From a sample to the population: bounds on the leakage of a release from a finite number of records.

Audits that are never mixed. The mechanism is known exactly and (S, X) was counted: `audit_mechanism`, or
`leakage_bounds` for sweeps. A black box of which only pairs (s, y) were seen: `audit_pairs`. A table of records as it
is, whose quasi-identifiers say something about a private column: `audit_attributes`. `conformity` tests whether a
release comes from the mechanism that was audited, `drift` whether it is about the same population.

An audit has for every measure four numbers that are never mixed, and the assumptions they stand on.

    fitted   the value on the frequencies of the sample: exact for them, no statement about the population
    gap      how far the mechanism is from the optimum of its design problem at most (certified), where one was given:
             computed again from the problem or from counts and dual scores; what a file only states is `stated_gap`
    upper    an upper bound for the population, all of them together with the stated confidence
    cap      a bound that holds for every population: it needs the mechanism and the alphabets, no data

Beside them `bootstrap`, an estimate of how large the population's value may be, without any guarantee. A number that
does not exist is None, and `why` has the reason.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.counts import count_array, failure
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import (
    flag,
    host_only,
    joint_array,
    listed,
    mechanism_array,
    nonnegative,
    real_array,
    scalar,
    texts,
    whole,
)
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, Row
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.solution import Solution
from jaxpriv.statistics.audit._information import mutual_information
from jaxpriv.statistics.audit.attributes import AttributeRow, attribute_rows
from jaxpriv.statistics.audit.estimates import InformationEstimate, estimate_information
from jaxpriv.statistics.audit.evidence import SampleLowerBounds, split
from jaxpriv.statistics.audit.independence import PermutationTest, g_test, holm, permutation_test
from jaxpriv.statistics.audit.optimality import CertifiedGap, ReleaseExcess, StatedSolution, certified_gap, excess
from jaxpriv.statistics.audit.population_drift import Drift, drift
from jaxpriv.statistics.audit.populations import (
    NO_BOUND,
    Bound,
    SampleKind,
    bounds_on_sets,
    leakage_bounds,
    least_utility,
    sample_bounds,
)
from jaxpriv.statistics.audit.release_conformity import Conformity, conformity
from jaxpriv.statistics.audit.sample_values import BOOTSTRAP, measured, resampled
from jaxpriv.statistics.confidence import population
from jaxpriv.statistics.confidence.sets import possible_array

__all__ = [
    "Assumptions",
    "AttributeAudit",
    "AttributeRow",
    "AuditRow",
    "Bound",
    "Conformity",
    "Drift",
    "InformationEstimate",
    "MechanismAudit",
    "PairsAudit",
    "PermutationTest",
    "ReleaseExcess",
    "SampleKind",
    "SampleLowerBounds",
    "StatedSolution",
    "Utility",
    "audit_attributes",
    "audit_mechanism",
    "audit_pairs",
    "conformity",
    "drift",
    "estimate_information",
    "excess",
    "g_test",
    "holm",
    "leakage_bounds",
    "least_utility",
    "permutation_test",
    "sample_bounds",
    "split",
]
__dir__ = names_of(__name__)


_MOST_SETS = 4096  # each has a table of counts, and a share of the confidence

NO_DATA = "the joint was given, not counted: nothing is known of how far it is from the population"
NO_DESIGN = "no certified solution of a design problem for this measure was given"
NOT_VERIFIED = "the gap is what the solution states; without its problem or its certificate it was not verified"
NO_RESAMPLES = "no resampling was asked for"
NOT_FINITE = "a resample has an infinite value"
BLACK_BOX = "the mechanism is not known"
UNDERSAMPLED = "undersampled: fewer than five pairs for each cell of the table, so plug-in values are mostly noise"


@dataclass(frozen=True)
class AuditRow:
    """One measure. `lower` is for black boxes: what the release leaks at least, with the stated confidence.

    `bootstrap` is an estimate: 2 fitted - q, q the quantile of the values on resampled records that belongs to the
    confidence. It is often below the population's value, and never a bound. `stated_gap` was not verified.
    `route` names the argument that gave `upper`; `why` has the reason for each number that is None.
    """

    name: str
    form: str
    order: float | None
    divergence: str | None
    units: str
    fitted: float | None
    gap: float | None
    upper: float | None
    cap: float | None
    lower: float | None
    bootstrap: float | None
    stated_gap: float | None
    route: str | None
    why: Mapping[str, str]


@dataclass(frozen=True)
class Utility:
    """I(X;Y): the value on the frequencies and a lower bound for the population (together with every `upper`)."""

    fitted: float
    lower: float | None


@dataclass(frozen=True)
class Assumptions:
    """What the numbers stand on: facts of the sample, and statements that no data can check.

    Attributes:
        records: n; None where the joint was given.
        private, useful, released: sizes of the alphabets (useful: None for a black box).
        least_private: the smallest number of records of a private symbol.
        unseen_private: private symbols without a record.
        empty_cells: possible cells of the table without a record.
        cells: possible cells of the table.
        statements: sentences, always printed.
    """

    records: int | None
    private: int
    useful: int | None
    released: int
    least_private: int | None
    unseen_private: tuple[int, ...]
    empty_cells: int | None
    cells: int
    statements: tuple[str, ...]


@dataclass(frozen=True)
class MechanismAudit:
    """The audit of a known mechanism. `rows` hold together with the confidence, `holds_for` is for which mechanisms:

    "all mechanisms" (the mechanism may have been fitted on the counts), "this mechanism" (it was not: held-out
    counts) or "no sample". `conformity` has the tests of releases, None without any.
    """

    confidence: float | None
    holds_for: str
    rows: tuple[AuditRow, ...]
    utility: Utility
    assumptions: Assumptions
    conformity: Conformity | None = None


@dataclass(frozen=True)
class PairsAudit:
    """The audit of a black box: estimates, tests and bounds are different things and stand apart.

    The values of `upper` hold together with the confidence, and so do those of `lower` (from the second half of
    the records, the first having chosen what to count). `estimate` is none of these.
    """

    confidence: float
    rows: tuple[AuditRow, ...]
    estimate: InformationEstimate
    permutation: PermutationTest
    g_test: float | None
    assumptions: Assumptions


@dataclass(frozen=True)
class AttributeAudit:
    """The audit of quasi-identifiers: one of `rows` for each set of them.

    The values of `upper` hold together with the confidence, and so do those of `lower` (from the second half of the
    records, the first having chosen the guesses). The other numbers are of these records.
    """

    confidence: float
    rows: tuple[AttributeRow, ...]
    assumptions: Assumptions


_COMMON = (
    "The records are independent draws from one population (a record for each person: none twice).",
    "What is released later is about the same population; after a drift the numbers are about another one.",
    "The alphabets are fixed: classes, bins and the symbols that were looked at were not chosen on these records.",
)
_COMPOSITION = (
    "Nothing else is released about the same people. Two releases can reveal together what neither reveals alone: "
    "the caps of releases that are drawn independently given X add up, while mutual information and maximal leakage "
    "add up only where the releases are independent given S.",
)
_KNOWN = ("The adversary knows the mechanism; records are released by it exactly, with fresh and true randomness.",)
_UNIFORM = (
    "The bounds hold for all mechanisms at once: this one may have been fitted on, or chosen by, the same records."
)
_HELD_OUT = "The mechanism was fixed without these records (fitted on others); otherwise the bounds mean nothing."


def audit_mechanism(
    mechanism: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    joint: ArrayLike | None = None,
    confidence: float = 0.95,
    possible: ArrayLike | None = None,
    held_out: bool = False,
    solution: Solution | StatedSolution | str | os.PathLike[str] | None = None,
    problem: DistortionProblem | None = None,
    gap: float | None = None,
    objective: AbstractLeakage | str | None = None,
    orders: Sequence[float] = (),
    measures: Sequence[str] | None = None,
    bootstrap: int = BOOTSTRAP,
    seed: int = 0,
    releases: ArrayLike | None = None,
    again: Sequence[ArrayLike] = (),
    statements: Sequence[str] = (),
) -> MechanismAudit:
    """Audit a mechanism (X, Y) on counts of (S, X), or on a joint that is taken as it is.

    Args:
        mechanism: P(y|x), rows sum to one.
        counts: (S, X) whole numbers of records; or
        joint: (S, X) a distribution. Then there are no bounds for a population.
        confidence: the probability with which all values of `upper` hold together, at least.
        possible: (S, X) truth values, pairs that can occur at all, known without the data.
        held_out: the mechanism does not depend on these counts.
        solution: what `jaxpriv.solve` returned for it; or what states value, leakage and gap, which are not verified
            then: a `StatedSolution`, or the JSON file of `jaxpriv solve`.
        problem: the `DistortionProblem` of the solution: its gap is computed again by `jaxpriv.certify`.
        gap: a gap that was computed again already, from the counts and dual scores of a design (`Evidence.claims`).
        objective: the measure that was minimised (mutual information), or its text, such as "sibson:2".
        orders: further orders of Sibson's and Arimoto's measures.
        measures: texts such as "mutual-information" or "sibson:2", the only measures to be bounded: they share the
            confidence, and bounds of fewer measures are tighter. By default all of `jaxpriv.leakage.report`.
        bootstrap: how often the records are resampled for the estimates; 0: none.
        seed: of the resamples, and of the simulation of releases.
        releases: (X, Y) counts of pairs that the mechanism released, which are tested: `conformity`.
        again: further mechanisms (X, Y'), whose draws for the same records are independent of it given x: what all
            of them disclose together is audited.
        statements: further sentences of the assumptions, such as what was chosen on these records.

    Raises:
        InputError: bad arrays (argument and position named); both or neither of counts and joint; counts that are
            all zero; a solution whose objective is not the leakage on these frequencies (unless they are held out),
            or that does not agree with its problem; a solution or a gap, which is of one draw, with `again`.
        ResourceError: all draws together have more outputs than fit into memory.
    """
    if (counts is None) == (joint is None):
        raise InputError("give either counts or joint")
    level, held_out = failure(confidence, "confidence"), flag(held_out, "held_out")
    failure_probability = failure(1 - level, "1 - confidence")
    if counts is not None:
        table = count_array(counts)
        if not table.any():
            raise InputError("counts has no record")
        fitted, allowed = table / table.sum(), possible_array(possible, table)
        cells = int(allowed.sum())
    else:
        if possible is not None or held_out:
            raise InputError("possible and held_out are about counts; a joint was given")
        table, allowed, fitted = None, None, joint_array(joint)
        cells = fitted.size
    single = mechanism_array(mechanism, inputs=fitted.shape[1])
    again = listed(again, "again")
    channel, together = _drawn_together(np.asarray(mechanism), again) if again else (single, ())
    if together and not (solution is None and gap is None):
        raise InputError("again: the gap of a solution is of one draw: give `again` without solution and gap")
    _need(*channel.shape)
    rows, asked = measured(fitted, channel, orders, measures)
    certified = certified_gap(solution, problem, gap, objective, channel, rows, asked, held_out=held_out)
    estimates: Sequence[float | None] = [None] * len(rows)
    least = None
    if table is None:
        # The caps are those of an empty table: whatever the population is.
        bounds = leakage_bounds(population(np.zeros(fitted.shape, np.int64), failure_probability), channel, asked)
    else:
        kind = SampleKind.HELD_OUT if held_out else SampleKind.ALL
        bounds, sets = bounds_on_sets(table, channel, asked, failure_probability, kind=kind, possible=allowed)
        least = float(least_utility(sets, channel)[0, 0])
        estimates = resampled(table, channel, rows, asked, failure_probability, bootstrap, seed)
    utility = float(mutual_information(fitted.sum(axis=0)[:, None] * channel))
    return MechanismAudit(
        confidence=None if table is None else level,
        holds_for="no sample" if table is None else "this mechanism" if held_out else "all mechanisms",
        rows=tuple(
            _known_row(row, bound, estimate, certified, sampled=table is not None, bootstrap=bool(bootstrap))
            for row, bound, estimate in zip(rows, bounds, estimates, strict=True)
        ),
        utility=Utility(utility, least),
        assumptions=_assumptions(
            table,
            fitted.shape,
            channel.shape[1],
            cells,
            (*_KNOWN, *(() if table is None else (_HELD_OUT if held_out else _UNIFORM,))),
            [*texts(statements, "statements"), *together],
            black_box=False,
        ),
        conformity=None if releases is None else conformity(releases, single, seed=seed),
    )


def _drawn_together(channel: np.ndarray, again: Sequence[ArrayLike]) -> tuple[np.ndarray, tuple[str, ...]]:
    """P(y, y', ... | x) of an output of `channel` (X, Y) and those of others, independent given x, and a sentence.

    The rows are normalised once, as a whole.
    """
    for place, mechanism in enumerate(again):
        other = mechanism_array(mechanism, f"again[{place}]", inputs=len(channel))
        need_memory(8.0 * channel.size * other.shape[1], "the outputs of all draws together", "audit fewer draws")
        channel = (channel[:, :, None] * other[:, None, :]).reshape(len(channel), -1)
    draws = f"The outputs are {1 + len(again)} draws for each record, independent given x, seen together."
    return mechanism_array(channel), (draws,)


def audit_pairs(
    counts: ArrayLike,
    *,
    confidence: float = 0.95,
    permutations: int = 9999,
    seed: int = 0,
    orders: Sequence[float] = (),
    measures: Sequence[str] | None = None,
    bootstrap: int = BOOTSTRAP,
    statements: Sequence[str] = (),
) -> PairsAudit:
    """Audit a black box by counts (S, Y) of pairs of private and released symbols.

    Args:
        counts: (S, Y) whole numbers.
        confidence: of the upper bounds together, and of the lower bounds together.
        permutations: of the test of independence.
        seed: of the permutations, of the halves for the lower bounds and of the resamples.
        orders: further orders of Sibson's and Arimoto's measures.
        measures: the only measures to be bounded: see `audit_mechanism`.
        bootstrap: how often the pairs are resampled for the estimates; 0: none.
        statements: further sentences of the assumptions.

    Raises:
        InputError: bad counts, or fewer than two pairs.
    """
    table = count_array(counts)
    if not table.sum() >= 2:
        raise InputError("counts has fewer than two pairs")
    level = failure(confidence, "confidence")
    beta = failure(1 - level, "1 - confidence")
    _need(table.shape[1], table.shape[1])
    identity = np.eye(table.shape[1])  # the release is what is seen: X = Y
    rows, asked = measured(table / table.sum(), identity, orders, measures)
    bounds = sample_bounds(table, identity, asked, beta, kind=SampleKind.PAIRS)
    estimates = resampled(table, identity, rows, asked, beta, bootstrap, seed)
    lower = SampleLowerBounds(*split(table, seed), beta)
    estimate = estimate_information(table, beta)
    return PairsAudit(
        confidence=level,
        rows=tuple(
            _black_box_row(row, bound, measure.lower_bound(lower), bootstrapped, estimate.undersampled, bool(bootstrap))
            for row, bound, measure, bootstrapped in zip(rows, bounds, asked, estimates, strict=True)
        ),
        estimate=estimate,
        permutation=permutation_test(table, permutations=permutations, seed=seed),
        g_test=g_test(table),
        assumptions=_assumptions(table, table.shape, table.shape[1], table.size, (), statements, black_box=True),
    )


@host_only
def audit_attributes(
    counts: ArrayLike,
    attributes: ArrayLike,
    *,
    most: int | None = None,
    confidence: float = 0.95,
    optimum: float | None = None,
    seed: int = 0,
    names: Sequence[str] | None = None,
    statements: Sequence[str] = (),
) -> AttributeAudit:
    """Audit a table of records: what sets of its quasi-identifiers say about a private attribute.

    Args:
        counts: (S, X) whole numbers of records.
        attributes: (X, k) whole numbers >= 0, the class of each of k quasi-identifiers of every x: those of a `Dataset`
            are its `useful_attributes`.
        most: the most columns of a set; by default all. At most 4096 sets.
        confidence: of the upper bounds together, and of the lower bounds together.
        optimum: seconds for the certified least probability of a correct guess of any release with the same I(X;Y), for
            each set; by default it is not computed.
        seed: of the halves for lower bounds.
        names: of the k quasi-identifiers, which the rows then have in place of their numbers.
        statements: further sentences of the assumptions.

    Raises:
        InputError: bad arrays, fewer than two records, another number of names, or too many sets.
    """
    table = count_array(counts)
    if not table.sum() >= 2:
        raise InputError("counts has fewer than two records")
    codes = nonnegative(real_array(attributes, "attributes", ndim=2), "attributes")
    if len(codes) != table.shape[1] or not (codes == np.round(codes)).all():
        raise InputError(f"attributes must hold whole numbers, a row for each of the {table.shape[1]} symbols x")
    columns = codes.shape[1]
    names = None if names is None else texts(names, "names")
    if names is not None and len(names) != columns:
        raise InputError(f"names has {len(names)} entries; attributes has {columns} columns")
    size = columns if most is None else min(whole(most, "most", low=0.0), columns)
    if sum(math.comb(columns, count) for count in range(size + 1)) > _MOST_SETS:
        raise InputError(f"most: more than {_MOST_SETS} sets of {columns} columns; allow fewer columns in a set")
    level = failure(confidence, "confidence")
    seconds = None if optimum is None else scalar(optimum, "optimum", low=0.0)
    seen = table.any(axis=0)
    halves = split(table[:, seen], seed)
    rows = attribute_rows(*halves, codes[seen].astype(np.int64), size, failure(1 - level, "1 - confidence"), seconds)
    if names is not None:
        rows = (replace(row, columns=tuple(names[int(column)] for column in row.columns)) for row in rows)
    assumptions = _assumptions(table, table.shape, table.shape[1], table.size, (), statements, black_box=True)
    return AttributeAudit(level, tuple(rows), assumptions)


def _need(useful: int, released: int) -> None:
    """The work goes through some tables of the size of the mechanism at a time."""
    need_memory(5 * 8.0 * useful * released, f"an audit of {useful} x {released} symbols", "merge symbols into classes")


def _row(row: Row, bound: Bound | None, reasons: Mapping[str, str], **numbers: float | None) -> AuditRow:
    """A measure with its bound for a population and further numbers; `reasons` for those that are absent."""
    # Rounding may leave a bound below the frequencies, which are one of the populations.
    upper = None if bound is None else max(float(bound.upper[0, 0]), row.value)
    values: dict[str, Any] = dict.fromkeys(("gap", "cap", "lower", "bootstrap", "stated_gap"))
    values |= {"fitted": row.value, "upper": upper, **numbers}
    measure: dict[str, Any] = {name: getattr(row, name) for name in ("name", "form", "order", "divergence", "units")}
    return AuditRow(
        **measure,
        **values,
        route=None if bound is None else str(bound.route[0, 0]),
        why={name: reasons[name] for name, number in values.items() if number is None and name in reasons},
    )


def _known_row(
    row: Row,
    bound: Bound | None,
    estimate: float | None,
    certified: CertifiedGap | None,
    *,
    sampled: bool,
    bootstrap: bool,
) -> AuditRow:
    certificate = certified if certified is not None and certified.row is row else None
    gap = {} if certificate is None else {"gap" if certificate.verified else "stated_gap": certificate.gap}
    reasons = {
        "gap": NO_DESIGN if certificate is None else NOT_VERIFIED,
        "upper": NO_BOUND if bound is None else NO_DATA,
        "cap": NO_BOUND,
        "bootstrap": _no_estimate(bootstrap) if sampled else NO_DATA,
        "lower": "lower bounds are for black boxes: of a known mechanism the value is known",
    }
    cap = None if bound is None else max(float(bound.cap[0]), row.value)
    return _row(row, bound if sampled else None, reasons, cap=cap, bootstrap=estimate, **gap)


def _no_estimate(bootstrap: bool) -> str:
    return NOT_FINITE if bootstrap else NO_RESAMPLES


def _black_box_row(
    row: Row, bound: Bound | None, lower: float | None, estimate: float | None, undersampled: bool, bootstrap: bool
) -> AuditRow:
    reasons = {
        "gap": BLACK_BOX,
        "cap": BLACK_BOX,
        "fitted": UNDERSAMPLED,
        "bootstrap": UNDERSAMPLED if undersampled else _no_estimate(bootstrap),
        "upper": NO_BOUND,
        "lower": "no lower bound is known for this measure",
    }
    further = {"fitted": None} if undersampled else {"bootstrap": estimate}
    return _row(row, bound, reasons, lower=lower, **further)


def _assumptions(
    table: np.ndarray | None,
    shape: tuple[int, ...],
    released: int,
    cells: int,
    statements: tuple[str, ...],
    further: Sequence[str],
    *,
    black_box: bool,
) -> Assumptions:
    by_private = None if table is None else table.sum(axis=1)
    return Assumptions(
        records=None if table is None else int(table.sum()),
        private=shape[0],
        useful=None if black_box else shape[1],
        released=released,
        least_private=None if by_private is None else int(by_private.min()),
        unseen_private=() if by_private is None else tuple(int(s) for s in np.flatnonzero(by_private == 0)),
        empty_cells=None if table is None else cells - int(np.count_nonzero(table)),
        cells=cells,
        statements=(*(() if table is None else _COMMON), *statements, *_COMPOSITION, *texts(further, "statements")),
    )
