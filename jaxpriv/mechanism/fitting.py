"""From a table of records to a mechanism: design on one part of the records, audit on the other."""

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from jaxpriv._clock import Clock, ProgressLike, clock_of
from jaxpriv._module import Shown, summary
from jaxpriv._validation import scalar, whole
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.estimation.audit import MechanismAudit, SampleKind, audit_mechanism, sample_bounds
from jaxpriv.estimation.tables import Codebook, Rule, Source
from jaxpriv.estimation.tables.rules import Prices, column_distortion
from jaxpriv.funnels import FunnelSolution, proved_line
from jaxpriv.leakage import AbstractAverageLeakage, AbstractLeakage, MutualInformation, by_name
from jaxpriv.mechanism.counting import CountedParts, check_symbols, count_parts, read_parts
from jaxpriv.mechanism.mechanism import Asked, Evidence, Labels, Mechanism
from jaxpriv.mechanism.table import (
    certified_groups,
    least_distortion,
    least_leakage,
    quantise,
    within_distortion,
    within_leakage,
    without_rare,
)
from jaxpriv.problems import DistortionProblem, FunnelProblem
from jaxpriv.program.lower import distance_scale
from jaxpriv.solvers import Goal
from jaxpriv.solving.solve import solve_within
from jaxpriv.verifier.claims import ONE, Claim, Measure, lower, upper
from jaxpriv.verifier.records import UNSEEN

# Targets in equal steps, fixed in advance and tried up to the first that fails: one level holds for all.
_RUNGS = 12
_CAUSES = 3  # of what a watchdog withholds: so many are stated
# The status of a design that meets its target, where nothing is known of the best one.
FEASIBLE = "feasible"
# How much lower the price is of a useful symbol that the solver left out: entropies are of the order of 1.
_FAR = 80.0
UNCHANGED = "Every record is released as it is, which meets the target"
# Masses of an output below which it is tried to merge it, for a measure of the worst outcome.
_RARE = (0.0, 2.0**-24, 2.0**-16, 2.0**-12)

# Claims of which the lower end is what is proved.
_AT_LEAST = ("disclosure", "lower_bound", "solver_bound")

# A table with the names, labels and codes of its outputs; what proves the bound, by the fields of `Evidence`.
_Drawn: TypeAlias = tuple[np.ndarray, tuple[str, ...], Labels, np.ndarray]
_Duals: TypeAlias = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Fitted(Shown):
    """What `fit` found.

    Attributes:
        mechanism: what may be published.
        evidence: counts and certificate, which may not.
        claims: every number of the mechanism on the records of its design, computed again from the integer table.
        status: of the solution: `optimal`, `not_certified`, `best_known` or `stationary`; `feasible` for a watchdog,
            which meets its target, and of which nothing is proved about better ones.
        audit: bounds for the population from the records that were held out; None without a split, and where these
            records chose the mechanism.
        limit: what they certify then.
        statements: what the numbers stand on, sentences.
        unchanged: whether every record of the design is released as it is, because X itself meets the target.
        codebook: all classes, those of the private columns too, which the mechanism does not name; for the owner.
    """

    mechanism: Mechanism
    evidence: Evidence
    claims: Mapping[str, Claim]
    status: str
    audit: MechanismAudit | None
    limit: "PopulationLimit | None"
    statements: tuple[str, ...]
    unchanged: bool
    codebook: Codebook

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        rows = {"status": self.status, **self.mechanism._shown()}
        for name, claim in self.claims.items():
            end, rounded = (claim.lower, lower) if name in _AT_LEAST else (claim.upper, upper)
            unit = "" if claim.unit == name else claim.unit
            rows[f"{name.replace('_', ' ')}, these records"] = f"{rounded(float(end or 'inf'))} {unit}"
        if self.limit is not None:
            rows[f"leakage, population, confidence {self.limit.confidence:g}"] = upper(self.limit.upper)
        return rows


@dataclass(frozen=True)
class PopulationLimit:
    """The leakage of the mechanism in the population is at most `limit`, with this confidence.

    Attributes:
        upper: the bound that the held-out records give for the chosen mechanism, at most `limit`.
        rung, rungs: the mechanism is number `rung` of a sequence of `rungs` that was fixed before.
    """

    confidence: float
    limit: float
    upper: float
    rung: int
    rungs: int


def fit(
    source: Source,
    *,
    private: str | Sequence[str] = (),
    useful: str | Sequence[str] = (),
    rules: Mapping[str, Rule | None] | None = None,
    shared: str | Sequence[str] = (),
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
    distortion: Prices | None = None,
    weights: Prices | None = None,
    split: float = 0.5,
    seed: int = 0,
    confidence: float = 0.95,
    population: bool = False,
    unseen: str = "refuse",
    resolution: int = 32,
    tol: float = 1e-6,
    sparse: bool = False,
    time_limit: float | None = None,
    progress: ProgressLike = None,
    clock: Clock | None = None,
) -> Fitted:
    """Design a mechanism for the records of a table.

    Args:
        source, private, useful, rules, shared, codebook, sparse: as for `jaxpriv.estimation.tables.count_table`.
        budget: least leakage with a mean distortion of at most this; or
        leakage_budget: least mean distortion with at most this leakage; or
        disclosure: least leakage with I(X;Y) of at least this (nats); or
        target_leakage: the watchdog with at most this lift leakage (nats). Exactly one of the four.
        leakage, form, order, divergence, gamma: the measure, as for `jaxpriv.leakage.by_name`; of the library, which
            `jaxpriv verify` knows.
        distortion, weights: as `kinds` and `weights` of `column_distortion`; by default the number of changed columns.
        split: the share of the records that the mechanism is designed on; the others are for its audit. 1: no audit.
        seed: of the split.
        confidence: of the bounds for the population.
        population: `leakage_budget` or `target_leakage` holds for the population, with the confidence. A sequence of
            mechanisms is designed on one part of the records, for 1/12, 2/12, ... of the budget; the other part bounds
            the leakage of one after the other, and the last before the first whose bound is above the budget is taken.
            The sequence is fixed before these records are looked at, so the first mechanism that leaks more than the
            budget is passed with at most the probability 1 - confidence, however many there are (fixed-sequence
            testing). For `target_leakage` the sequence is one of groupings of the symbols, and what is released of a
            record is its group (`jaxpriv.mechanism.table`).
        unseen: what a later record comes to whose classes combine as in no record of the table: see `Mechanism`.
        resolution: bits of the probabilities.
        tol: the certified gap that counts as optimal.
        time_limit: seconds after which the best design so far is taken, with its interval; reading, rounding and the
            exact computation of all numbers are not interrupted. Ctrl-C does the same, as in `jaxpriv.solve`.
        progress: True (lines on stderr), or a function that is called with a `jaxpriv.Progress` at the beginning of
            every stage and after every portion of steps.
        clock: of other work that this is a part of, in place of the two.

    A warning says where X itself meets the target: every record is then released as it is.

    The classes are those of all records, except for quantiles, which are those of the design's. The alphabet X is that
    of the combinations that occur; one that no record of the design has gets the row of the nearest one that has, and
    only those are released that a record of the design has: the mapping is a function of the records of the design.

    Raises `InputError` for bad columns, numbers and options, `InfeasibleError` if no mechanism meets the target,
    `NotCertifiedError` if the records are too few to certify any mechanism for the population, `ResourceError` for a
    table that is too large.
    """
    targets = {"budget": budget, "leakage-budget": leakage_budget, "disclosure": disclosure, "watchdog": target_leakage}
    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) != 1:
        raise InputError("give exactly one of budget, leakage_budget, disclosure and target_leakage")
    problem, target = next(iter(given.items()))
    names = {"watchdog": "target_leakage"}
    target = scalar(target, names.get(problem, problem.replace("-", "_")), low=0.0)
    share = scalar(split, "split", low=0.0, high=1.0, open_low=True)
    seed = whole(seed, "seed", low=0.0)
    if unseen not in UNSEEN:
        raise InputError(f"unseen must be one of {', '.join(UNSEEN)}")
    if problem == "watchdog" and leakage not in ("mutual-information", "lift"):
        raise InputError("target_leakage is about lift leakage; leave out `leakage`")
    if problem in ("disclosure", "watchdog") and (distortion or weights):
        raise InputError("distortion and weights of columns go with `budget` and `leakage_budget`")
    name = "lift" if problem == "watchdog" else leakage
    parameters = {"form": form, "order": order, "divergence": divergence, "gamma": gamma}
    measure = by_name(name, **parameters)
    stated = Measure(name, **parameters)
    if stated.fault is not None:  # a measure, or a divergence, that a user entered
        raise InputError(f"leakage: a design {stated.fault}: no verifier could compute it")
    asked = Asked(problem, target, {"name": name, **parameters})
    alone = clock is None  # otherwise whoever has the clock handles Ctrl-C
    clock = clock_of(time_limit, progress) if clock is None else clock

    clock.begin("reading the records")
    parts = read_parts(source, private, useful, rules, shared, codebook, share, seed)
    records = count_parts(parts, private, useful, rules, shared, codebook, sparse)
    check_symbols(records.codebook, len(records.useful), len(parts.first))
    seen = records.seen
    joint = records.design[:, seen] / records.design.sum()
    costs = None
    if problem in ("budget", "leakage-budget"):
        costs = column_distortion(records.codebook, records.useful, kinds=distortion, weights=weights)
        costs = costs[:, seen]
    computed = stated if stated.computed else None
    # What a measure of ratios compares stays positive.
    support = name != "mutual-information" and problem != "watchdog"

    def designed(goal: float) -> tuple[_Drawn, _Duals, str]:
        asked_of_solver = _goal(joint, goal, resolution) if problem == "disclosure" else goal
        prices = None if costs is None else costs[seen]
        matrix, duals, status = _designed(problem, asked_of_solver, joint, prices, measure, tol, clock)
        columns, labels, released, matrix = _alphabet(problem, records, seen, matrix)
        own = records.design[:, seen]

        def rounded(mapping: np.ndarray) -> np.ndarray:
            found = quantise(mapping, resolution=resolution, costs=prices, support=support)
            if problem == "budget" and prices is not None:
                found = within_distortion(found, own, prices, goal)
            if problem == "leakage-budget" and computed is not None:
                found = within_leakage(found, own, computed, goal)
            return found

        if prices is not None and measure.worst_outcome and computed is not None:
            tables = []
            for least in _RARE:
                try:
                    tables.append(rounded(without_rare(matrix, joint.sum(axis=0), prices, least)))
                except NotCertifiedError:
                    if least == _RARE[-1] and not tables:
                        raise
            by_leakage = problem == "budget"
            table = least_leakage(tables, own, computed) if by_leakage else least_distortion(tables, own, prices)
        else:
            table = rounded(matrix)
        table = table[records.nearest()]
        return (table, columns, labels, released), duals, status

    limit = None
    clock.begin("designing")
    with clock if alone else nullcontext():
        if population and problem == "watchdog":
            limit, drawn = _grouped(records, seen, target, confidence)
            duals, status = {}, FEASIBLE
            records = replace(records, held_out=None)  # they chose the grouping
        elif population:
            limit, goal, found = _certified(records, problem, target, measure, confidence, designed, clock)
            drawn, duals, status = found
            asked = replace(asked, target=goal)
            records = replace(records, held_out=None)  # they chose the mechanism: no audit may take them for held out
        else:
            drawn, duals, status = designed(target)
    table, columns, labels, released = drawn
    clock.begin("computing every number again")
    unchanged = bool(((table[seen] > 0).sum(axis=0) <= 1).all())
    book = records.codebook
    named = tuple(book.rules[name].labels for name in book.private)
    if "prices" in duals:
        duals["prices"] = np.where(seen, np.take(duals["prices"], np.cumsum(seen) - 1, mode="clip"), 0.0)
    key = os.urandom(32).hex()
    evidence = Evidence(records.private, named, records.design, records.held_out, key=key, **duals)
    mechanism = Mechanism(
        table=table,
        codebook=book.without_private_values(),
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
    claims = evidence.claims(mechanism)
    statements = _statements(seen, codebook is None and (population or records.held_out is not None))
    if "solver_bound" in claims:
        statements += (
            "The bound is proved by a branch and bound in float64. In exact arithmetic `jaxpriv verify` proves that no "
            f"mapping leaks less than {claims['lower_bound'].lower} nats.",
        )
    if problem == "watchdog" and not population:
        statements += _withheld(records.design[:, seen], target)
    if unchanged:
        warnings.warn(UNCHANGED, stacklevel=2)
        statements = (f"{UNCHANGED}.", *statements)
    return Fitted(mechanism, evidence, claims, status, audit, limit, statements, unchanged, book)


def _grouped(
    records: CountedParts, seen: np.ndarray, target: float, confidence: float
) -> "tuple[PopulationLimit, _Drawn]":
    """The watchdog whose limit holds for the population: every symbol is released as its group."""
    level = _level(records, confidence)
    assert records.held_out is not None
    nearest = records.nearest()
    held_out = np.zeros_like(records.design[:, seen])
    np.add.at(held_out.T, nearest, records.held_out.T)
    found = certified_groups(records.design[:, seen], held_out, target, 1 - level)
    if found.rung == 0:
        raise NotCertifiedError(
            f"{int(held_out.sum())} held-out records cannot certify a lift of at most {target:.3g} for two groups of "
            f"symbols, whose bound is {found.beyond:.3g}: take more records, fewer private classes or a larger target"
        )
    size = int(found.group.max()) + 1
    table = np.zeros((len(seen), size), dtype=np.uint64)
    table[np.arange(len(seen)), found.group[nearest]] = ONE
    limit = PopulationLimit(level, target, found.upper, found.rung, found.rungs)
    return limit, (table, ("released",), (tuple(map(str, range(size))),), np.arange(size)[:, None])


def _level(records: CountedParts, confidence: float) -> float:
    if records.held_out is None:
        raise InputError("population needs held-out records: give a split below 1")
    level = scalar(confidence, "confidence", low=0.0, high=1.0, open_low=True)
    if not level < 1:
        raise InputError("confidence must be below 1")
    return level


def _certified(
    records: CountedParts,
    problem: str,
    target: float,
    measure: AbstractLeakage,
    confidence: float,
    designed: Callable[[float], tuple[_Drawn, _Duals, str]],
    clock: Clock,
) -> tuple[PopulationLimit, float, tuple[_Drawn, _Duals, str]]:
    """The last of the sequence before the first whose bound is above the target, and its own target."""
    if problem != "leakage-budget":
        raise InputError(
            "population is about `leakage_budget` and `target_leakage`; for other targets the audit bounds the "
            "population"
        )
    level = _level(records, confidence)
    assert records.held_out is not None
    best, upper = None, math.inf
    for rung in range(1, _RUNGS + 1):
        if best is not None and clock.expired():
            break
        clock.begin(f"design {rung} of {_RUNGS}")
        goal = target * rung / _RUNGS
        found = designed(goal)
        (bound,) = sample_bounds(records.held_out, found[0][0] / ONE, (measure,), 1 - level, kind=SampleKind.HELD_OUT)
        if bound is None:
            raise InputError("leakage: no sound bound for a population is known for this measure")
        upper = float(bound.upper[0, 0])
        if not upper <= target:
            break
        best = PopulationLimit(level, target, upper, rung, _RUNGS), goal, found
    if best is None:
        raise NotCertifiedError(
            f"{int(records.held_out.sum())} held-out records cannot certify any mapping but a constant one: the first "
            f"of the sequence leaks {target / _RUNGS:.3g} on the records of the design, is bounded by {upper:.3g} in "
            f"the population, and {target:.3g} is asked for: take more records, fewer classes or a larger budget"
        )
    return best


def _designed(
    problem: str,
    target: float,
    joint: np.ndarray,
    costs: np.ndarray | None,
    measure: AbstractLeakage,
    tol: float,
    clock: Clock,
) -> tuple[np.ndarray, _Duals, str]:
    """(the mechanism (X, Y), the duals, the status); private symbols without a record stay in the duals."""
    if problem == "watchdog":
        from jaxpriv.watchdog import watchdog

        return watchdog(joint, target_leakage=target).mechanism, {}, FEASIBLE
    if problem == "disclosure":
        if not isinstance(measure, AbstractAverageLeakage):
            raise InputError(f"leakage must be an average measure, not {type(measure).__name__}")
        asked_of = FunnelProblem(joint, disclosure=target, leakage=measure)
        found = solve_within(clock, asked_of, "auto", Goal(tol, 0.0))
        assert isinstance(found, FunnelSolution)
        return found.mechanism, _prices(asked_of, found), found.status
    form: dict[str, Any] = {problem.replace("-", "_"): target}
    asked = DistortionProblem(joint, costs, leakage=measure, **form)
    solution = solve_within(clock, asked, "auto", Goal(tol, 0.0))
    parts = solution.scores, solution.weights, solution.multipliers
    if isinstance(measure, MutualInformation):
        # The verifier takes scores and the price of leakage, not their product.
        prices = np.asarray(solution.multipliers)
        price = 1.0 if problem == "budget" else float(prices[-1])
        scores = np.asarray(solution.scores) / price if price > 0 else np.zeros_like(solution.scores)
        parts = scores, np.array([[price]]), prices if problem == "budget" else prices[:-1]
    rules, weights, prices = (np.asarray(part, np.float64) for part in parts)
    if problem == "budget" and measure.worst_outcome and costs is not None:
        # Of distances to the budget; the verifier takes the price of E d itself.
        prices = prices / float(distance_scale(joint.sum(axis=0)[None, :, None] * costs)[0])
    duals = {"scores": rules, "weights": weights, "multipliers": prices}
    return np.asarray(solution.mechanism), duals, str(solution.status)


def _prices(problem: FunnelProblem, found: FunnelSolution) -> _Duals:
    """Prices of all useful symbols with what they prove; nothing where the bound has another reason."""
    if found.proof is None:
        return {}
    known = np.isfinite(found.prices)
    # Rare symbols that the solver left out: with so low a price no posterior that is cheap has them.
    prices = np.where(known, found.prices, found.prices[known].min(initial=0.0) - _FAR)
    return {"prices": prices, "line": np.array([min(found.multiplier, 1.0), proved_line(problem, found.proof)])}


def _goal(joint: np.ndarray, target: float, resolution: int) -> float:
    """A little more disclosure than asked for, where X has that much: rounding to whole numbers may cost some."""
    mass = joint.sum(axis=0)
    left = -float(mass @ np.log(mass)) - target
    return target + max(min(len(mass) * 2.0 ** (4 - resolution), left / 2), 0.0)


def _alphabet(
    problem: str, records: CountedParts, seen: np.ndarray, matrix: np.ndarray
) -> tuple[tuple[str, ...], Labels, np.ndarray, np.ndarray]:
    """(names, labels, codes (Y, c), mechanism): useful symbols, or for a funnel numbered symbols of one column."""
    book = records.codebook
    labels = tuple(book.rules[name].labels for name in book.useful)
    used = matrix.any(axis=0)
    if problem == "disclosure":
        size = int(used.sum())
        return ("released",), (tuple(map(str, range(size))),), np.arange(size)[:, None], matrix[:, used]
    if problem == "watchdog":
        return book.useful, labels, records.useful[seen][used], matrix[:, used]
    # The bound is about all outputs: none is left out.
    return book.useful, labels, records.useful[seen], matrix


def _withheld(counts: np.ndarray, target: float) -> tuple[str, ...]:
    """Why the watchdog withholds symbols: the causes with the largest mass."""
    from jaxpriv.watchdog import explain, watchdog

    found = watchdog(counts / counts.sum(), target_leakage=target)
    causes = explain(found, counts=counts, target_leakage=target)
    return tuple(cause.sentence for cause in causes[:_CAUSES])


def _statements(seen: np.ndarray, learned: bool) -> tuple[str, ...]:
    """`learned`: whether classes were taken from records that were then held out."""
    found = []
    if learned:
        found.append(
            "The classes were taken from all records, those held out too; the mapping from those of the design."
        )
    if not seen.all():
        found.append(
            f"{int((~seen).sum())} of {len(seen)} combinations have no record in the design: each is released as the "
            "combination that differs from it in the fewest columns."
        )
    return tuple(found)
