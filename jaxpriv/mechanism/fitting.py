"""From a table of records to a mechanism: design on one part of the records, audit on the other."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxpriv._repr import summary
from jaxpriv._validation import scalar
from jaxpriv.datasets._layout import distinct_rows
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.estimation.audit import MechanismAudit, audit_mechanism
from jaxpriv.estimation.tables import Codebook, Quantiles, Source, fit_codebook
from jaxpriv.estimation.tables.border import read_columns
from jaxpriv.estimation.tables.costs import column_distortion
from jaxpriv.leakage import by_name
from jaxpriv.mechanism.evidence import Evidence
from jaxpriv.mechanism.mechanism import Asked, Labels, Mechanism
from jaxpriv.mechanism.table import quantise, within_distortion, within_leakage
from jaxpriv.problems import DistortionProblem, FunnelProblem
from jaxpriv.solution import Solution
from jaxpriv.solving.solve import solve
from jaxpriv.verifier.claims import Claim
from jaxpriv.verifier.designs import UNSEEN

# A table of this many entries is a file of 128 MiB, and the verifier goes through it entry by entry.
_LARGEST = 2**24
_ROWS_PER_SYMBOL = 5


@dataclass(frozen=True, eq=False)
class Fitted:
    """What `fit` found.

    Attributes:
        mechanism: what may be published.
        evidence: counts and certificate, which may not.
        claims: every number of the mechanism on the records of its design, computed again from the integer table.
        status: of the solution: `optimal`, `not_certified`, `best_known` or `stationary`.
        audit: bounds for the population from the records that were held out; None without a split.
        left_out: held-out records without a symbol, which the audit does not count.
        statements: what the numbers stand on, sentences.
    """

    mechanism: Mechanism
    evidence: Evidence
    claims: Mapping[str, Claim]
    status: str
    audit: MechanismAudit | None
    statements: tuple[str, ...]

    __repr__ = summary


@dataclass(frozen=True, eq=False)
class _Counted:
    """The records of a table as counts: those of the design, and those held out."""

    codebook: Codebook
    private: np.ndarray
    useful: np.ndarray
    design: np.ndarray
    held_out: np.ndarray | None


def fit(
    source: Source,
    *,
    private: Any = (),
    useful: Any = (),
    rules: Any = None,
    shared: Any = (),
    codebook: Codebook | None = None,
    budget: float | None = None,
    leakage_budget: float | None = None,
    disclosure: float | None = None,
    target_leakage: float | None = None,
    leakage: str = "mutual-information",
    form: str | None = None,
    order: float | None = None,
    divergence: str | None = None,
    gamma: float | None = None,
    distortion: Mapping[str, Any] | None = None,
    weights: Mapping[str, Any] | None = None,
    split: float = 0.5,
    seed: int = 0,
    confidence: float = 0.95,
    unseen: str = "refuse",
    resolution: int = 32,
    tol: float = 1e-6,
    sparse: bool = False,
) -> Fitted:
    """Design a mechanism for the records of a table.

    Args:
        source, private, useful, rules, shared, codebook, sparse: as for `jaxpriv.estimation.tables.count_table`.
        budget: least leakage with a mean distortion of at most this; or
        leakage_budget: least mean distortion with at most this leakage; or
        disclosure: least leakage with I(X;Y) of at least this (nats); or
        target_leakage: the watchdog with at most this lift leakage (nats). Exactly one of the four.
        leakage, form, order, divergence, gamma: the measure, as for `jaxpriv.leakage.by_name`.
        distortion, weights: as `kinds` and `weights` of `column_distortion`; by default the number of changed columns.
        split: the share of the records that the mechanism is designed on; the others are for its audit. 1: no audit.
        seed: of the split.
        confidence: of the bounds for the population.
        unseen: what a later record comes to whose classes combine as in no record of the table: see `Mechanism`.
        resolution: bits of the probabilities.
        tol: the certified gap that counts as optimal.

    The classes are those of all records, except for quantiles, which are those of the design's; so is the alphabet X
    of the combinations that occur. A combination that no record of the design has gets the row of the nearest one that
    has.

    Raises `InputError` for bad columns, numbers and options, `InfeasibleError` if no mechanism meets the target,
    `ResourceError` for a table that is too large.
    """
    targets = {"budget": budget, "leakage-budget": leakage_budget, "disclosure": disclosure, "watchdog": target_leakage}
    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) != 1:
        raise InputError("give exactly one of budget, leakage_budget, disclosure and target_leakage")
    problem, target = next(iter(given.items()))
    names = {"watchdog": "target_leakage"}
    target = scalar(target, names.get(problem, problem.replace("-", "_")), low=0.0)
    share = scalar(split, "split", low=0.0, high=1.0, open_low=True)
    if unseen not in UNSEEN:
        raise InputError(f"unseen must be one of {', '.join(UNSEEN)}")
    if problem == "watchdog" and leakage not in ("mutual-information", "lift"):
        raise InputError("target_leakage is about lift leakage; leave out leakage")
    if problem in ("disclosure", "watchdog") and (distortion or weights):
        raise InputError("distortion and weights go with budget and leakage_budget")
    name = "lift" if problem == "watchdog" else leakage
    measure = by_name(name, form=form, order=order, divergence=divergence, gamma=gamma)
    asked = Asked(
        problem, target, {"name": name, "form": form, "order": order, "divergence": divergence, "gamma": gamma}
    )

    records = _counted(source, private, useful, rules, shared, codebook, share, seed, sparse)
    size = len(records.useful)
    if size * size > _LARGEST:
        raise ResourceError(
            f"{size} useful symbols make a table of {size}^2 probabilities: use fewer classes or columns"
        )
    seen = records.design.any(axis=0)
    joint = records.design[:, seen] / records.design.sum()
    costs = None
    if problem in ("budget", "leakage-budget"):
        costs = column_distortion(records.codebook, records.useful, kinds=distortion, weights=weights)
    goal = _goal(joint, target, resolution) if problem == "disclosure" else target
    matrix, duals, status = _designed(problem, goal, joint, None if costs is None else costs[seen], measure, tol)
    columns, labels, released, matrix = _alphabet(problem, records, seen, matrix)
    table = np.zeros((size, matrix.shape[1]), dtype=np.uint64)
    table[seen] = quantise(
        matrix,
        resolution=resolution,
        costs=None if costs is None else costs[seen],
        support=name != "mutual-information" and problem != "watchdog",
    )
    if problem == "budget" and costs is not None:
        table[seen] = within_distortion(table[seen], records.design[:, seen], costs[seen], target)
    if problem == "leakage-budget" and order is divergence is gamma is None:
        table[seen] = within_leakage(table[seen], records.design[:, seen], name, target)
    for x in np.flatnonzero(~seen):
        apart = (records.useful[seen] != records.useful[x]).sum(axis=1)
        table[x] = table[seen][int(apart.argmin())]

    evidence = Evidence(records.private, records.design, records.held_out, *duals, key=os.urandom(32).hex())
    mechanism = Mechanism(
        table=table,
        codebook=records.codebook,
        useful=records.useful,
        released_columns=columns,
        released_labels=labels,
        released=released,
        asked=asked,
        distortion=costs,
        unseen=unseen,
        commitment=evidence.commitment(),
    )
    audit = None
    if records.held_out is not None:
        audit = audit_mechanism(mechanism.matrix(), counts=records.held_out, confidence=confidence, held_out=True)
    return Fitted(mechanism, evidence, evidence.claims(mechanism), status, audit, _statements(records, seen))


def _counted(
    source: Source,
    private: Any,
    useful: Any,
    rules: Any,
    shared: Any,
    codebook: Codebook | None,
    share: float,
    seed: int,
    sparse: bool,
) -> _Counted:
    if codebook is not None:
        if private or useful or rules or shared:
            raise InputError("a codebook has its own columns and rules: give either a codebook or columns")
        columns = read_columns(source, codebook.columns)
    else:
        names = [*_names(private), *_names(useful)]
        if not names:
            raise InputError("name the private and the useful columns, or give a codebook")
        columns = read_columns(source, list(dict.fromkeys(names)))
    total = len(next(iter(columns.values())).values)
    first = np.ones(total, dtype=bool)
    if share < 1.0:
        order = np.random.default_rng(seed).permutation(total)
        first[order[max(1, round(share * total)) :]] = False
        if first.all():
            raise InputError(f"split: {total} records are too few for two parts")
    if codebook is None:
        fitted = dict(rules or {})
        for name, rule in fitted.items():
            if isinstance(rule, Quantiles) and name in columns:
                fitted[name] = rule.fit(columns[name].part(first))
        codebook = fit_codebook(columns, private=private, useful=useful, rules=fitted, shared=shared)
    codes = codebook.encode(columns)
    sides = []
    for names, own in ((codebook.private, codes.private), (codebook.useful, codes.useful)):
        sides.append(distinct_rows(own, [len(codebook.rules[name].labels) for name in names]))
    (private_codes, s), (useful_codes, x) = sides
    if first.sum() < _ROWS_PER_SYMBOL * len(useful_codes) and not sparse:
        raise InputError(
            f"{first.sum()} records for the design make {len(useful_codes)} useful symbols, fewer than "
            f"{_ROWS_PER_SYMBOL} records each: use fewer classes or columns, or declare that this is meant (sparse)"
        )
    counts = []
    for part in (first, ~first):
        table = np.zeros((len(private_codes), len(useful_codes)), dtype=np.int64)
        np.add.at(table, (s[part], x[part]), 1)
        counts.append(table)
    return _Counted(codebook, private_codes, useful_codes, counts[0], None if first.all() else counts[1])


def _names(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _designed(
    problem: str, target: float, joint: np.ndarray, costs: np.ndarray | None, measure: Any, tol: float
) -> tuple[np.ndarray, tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None], str]:
    """(the mechanism (X, Y), the duals, the status); private symbols without a record stay in the duals."""
    if problem == "watchdog":
        from jaxpriv.watchdog import watchdog

        return watchdog(joint, target_leakage=target).mechanism(), (None, None, None), "optimal"
    if problem == "disclosure":
        found = solve(FunnelProblem(joint, disclosure=target, leakage=measure), tol=tol)
        return np.asarray(found.mechanism), (None, None, None), found.status
    limit = {"budget": target} if problem == "budget" else {"leakage_budget": target}
    solution = solve(DistortionProblem(joint, costs, leakage=measure, **limit), tol=tol)
    assert isinstance(solution, Solution)
    scores = np.asarray(solution.scores, dtype=np.float64)
    duals = (
        scores,
        np.atleast_2d(np.asarray(solution.weights, np.float64)),
        np.asarray(solution.multipliers, np.float64),
    )
    return np.asarray(solution.mechanism), duals, str(solution.status)


def _goal(joint: np.ndarray, target: float, resolution: int) -> float:
    """A little more disclosure than asked for, where there is room: rounding to whole numbers may cost some."""
    mass = joint.sum(axis=0)
    room = -float(mass @ np.log(mass)) - target
    return target + max(min(len(mass) * 2.0 ** (4 - resolution), room / 2), 0.0)


def _alphabet(
    problem: str, records: _Counted, seen: np.ndarray, matrix: np.ndarray
) -> tuple[tuple[str, ...], Labels, np.ndarray, np.ndarray]:
    """(names, labels, codes (Y, c), mechanism): useful symbols, or for a funnel numbered symbols of one column."""
    book = records.codebook
    labels = tuple(book.rules[name].labels for name in book.useful)
    if problem in ("budget", "leakage-budget"):  # the bound is about all outputs: none is left out
        return book.useful, labels, records.useful, matrix
    used = matrix.any(axis=0)
    if problem == "watchdog":
        return book.useful, labels, records.useful[seen][used], matrix[:, used]
    size = int(used.sum())
    return ("released",), (tuple(map(str, range(size))),), np.arange(size)[:, None], matrix[:, used]


def _statements(records: _Counted, seen: np.ndarray) -> tuple[str, ...]:
    found = ["The classes and the alphabet of combinations were taken from all records, those held out too."]
    if not seen.all():
        found.append(
            f"{int((~seen).sum())} of {len(seen)} combinations have no record in the design: each is released as the "
            "combination that differs from it in the fewest columns."
        )
    return tuple(found)
