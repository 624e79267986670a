"""Many useful columns: groups of them with one mechanism each, and what the releases reveal together."""

import math
import os
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import TypeAlias, TypeVar

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.validation import scalar
from jaxpriv.data.datasets._layout import distinct_rows
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.problems import DistortionProblem
from jaxpriv.release.counting import (
    MOST_IN_GROUP,
    CountedParts,
    check_records,
    check_symbols,
    read_parts,
)
from jaxpriv.release.fitting import FEASIBLE, UNCHANGED, FitRequest, Fitted, audited, fit_within
from jaxpriv.release.grouped import GroupedEvidence, GroupedMechanism, side_by_side
from jaxpriv.release.joint_leakage import joint_leakage
from jaxpriv.release.requests import DesignRequest, requested
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import Request
from jaxpriv.solving.frontier import frontier_within
from jaxpriv.solving.solve import solve_within
from jaxpriv.statistics.audit.populations import from_fitted_information
from jaxpriv.statistics.tables import ROWS_PER_SYMBOL, Codebook, Source
from jaxpriv.statistics.tables.readers import read_columns
from jaxpriv.statistics.tables.rules import Prices, column_distortion, need_useful
from jaxpriv.verifier import archive
from jaxpriv.verifier.claims import Claim
from jaxpriv.verifier.csv_text import column_names
from jaxpriv.verifier.logarithms import down, lower, up, upper

# Pairs of combinations x and y of one design for comparison: the square of this.
_COMPARED = 256
# Budgets of the curves by which a total is split, as shares of the least distortion that reveals nothing: denser where
# the curves are steeper. Chords of 17 points are a few percent above a curve.
_SHARES = np.linspace(0.0, 1.0, 17) ** 1.5
# A split decides how a budget is used, not whether it is met: its curves need not be exact.
_ROUGH = 1e-4
# Mixed are designs that reveal nothing by themselves: mixtures of designs that change less changed more in the end, by
# 14 to 113 % of the distortion (six columns, two budgets).
# Mixtures with a constant release have shares in whole 1/1024, so that the tables stay whole numbers.
_SHARE_BITS = 10
# A leakage budget is used up to this share, in at most so many rounds.
_USED, _ROUNDS = 0.98, 10

# Arguments that the design of every group has from the request.
_ALIKE = ("split", "seed", "confidence", "unseen", "resolution", "tol", "sparse")

T = TypeVar("T")
_Together: TypeAlias = Callable[[Sequence[np.ndarray]], tuple[Claim, bool]]


@dataclass(frozen=True)
class GroupingCost:
    """What separate designs of the groups cost, in nats.

    Attributes:
        apart: the sum of the groups' own leakages, at most.
        joint: of all groups together, at most. It is larger than `apart` where columns of several groups reveal
            together what none of them does, smaller where groups reveal the same.
        optimum: (lower, upper): the least leakage of one mechanism for all columns, to whatever the groups can release,
            with the same mean distortion; None for more than 256^2 pairs of combinations. The grouping costs `joint` -
            `optimum` at the most.
    """

    apart: float
    joint: float
    optimum: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class FittedGroups(Shown):
    """What `fit_groups` found.

    Attributes:
        groups: the useful columns of each design.
        fitted: the designs, one for each group. Each has its own budget, its certificate and its audit.
        mechanism: all of them as one, which may be published and releases all columns.
        evidence: counts and certificates, which may not.
        leakage: I(S; Y_1, ..., Y_k) of all releases together on the records of the design: all of one person's outputs
            are read side by side. An interval, rounded outwards (nats).
        exact: whether it is computed, up to rounding; otherwise its upper end is a bound by the chain rule, and its
            lower end the leakage of some of the groups.
        apart: I(S; Y_g) of each group alone.
        distortion: the sum of the groups' mean distortions.
        cost: what the grouping costs.
        confidence: of `population`.
        population: bound on I(S; Y_1, ..., Y_k) for the population, from the held-out records; None where there are
            none. Its confidence is its own: it does not hold together with the bounds of the groups' audits.
    """

    groups: tuple[tuple[str, ...], ...]
    fitted: tuple[Fitted, ...]
    mechanism: GroupedMechanism
    evidence: GroupedEvidence
    leakage: Claim
    exact: bool
    apart: tuple[Claim, ...]
    distortion: Claim
    cost: GroupingCost
    confidence: float
    population: float | None

    __repr__ = summary

    @property
    def unchanged(self) -> bool:
        """Whether every record of the design is released as it is."""
        return all(group.unchanged for group in self.fitted)

    @property
    def codebook(self) -> Codebook:
        """All classes, those of the private columns too; for the owner."""
        return side_by_side([group.codebook for group in self.fitted])

    def _shown(self) -> dict[str, str]:
        rows = {
            f"group {place}": f"{', '.join(names)}: leakage {claim.end()}"
            for place, (names, claim) in enumerate(zip(self.groups, self.apart, strict=True), 1)
        }
        rows["distortion, these records"] = self.distortion.end()
        rows["leakage together, these records"] = f"{upper(self.cost.joint)} nats"
        if self.cost.optimum is not None:
            rows["one mechanism for all columns, at least"] = f"{lower(self.cost.optimum[0])} nats"
        if self.population is not None:
            rows[f"leakage together, population, confidence {self.confidence:g}"] = f"{upper(self.population)} nats"
        return rows

    @property
    def record(self) -> dict[str, object]:
        """What was found in terms of JSON, with `Fitted.record` of each group; `design` as there."""
        parts = zip(self.groups, self.fitted, strict=True)
        bounded = {"confidence": self.confidence, "leakage": self.population}
        return {
            "design": self.mechanism.sha256,
            "groups": [{"columns": list(names), **group.record} for names, group in parts],
            "on_the_design": {"leakage": self.leakage.record, "distortion": self.distortion.record},
            "computed": self.exact,
            "cost": asdict(self.cost),
            "without_data": {name: claim.record for name, claim in self.mechanism.guarantees.items()},
            "population": None if self.population is None else bounded,
            "units": "nats",
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupsRequest(DesignRequest):
    """What `fit_groups` is asked for: its arguments."""

    groups: Sequence[Sequence[str]] | None = None


@requested(GroupsRequest)
def fit_groups(source: Source, request: GroupsRequest) -> FittedGroups:
    """Design one mechanism for each group of useful columns, for tables with too many combinations for one.

    Every design is optimal for its own columns and its own budget; all of them together are not optimal, and `cost`
    says what that costs. The leakage measure is mutual information.

    Args:
        useful: the columns; which go together is chosen: again and again the two groups whose combination changes what
            is known about S the most, |I(S; X_a, X_b) - I(S; X_a) - I(S; X_b)| (Miller-Madow estimates), while they
            make at most 128 combinations and have five records each (without `sparse`). Or
        groups: the columns of each group. Exactly one of the two.
        budget: the sum of the mean distortions is at most this. It is split so that the sum of the groups' leakages is
            small: all groups have one price, leakage saved per distortion spent; or
        leakage_budget: the leakage of all groups together is at most this (nats), certified. Exactly one of the two.
        confidence: that of each group's audit by itself, and of the bound on the leakage of all groups by itself.
        source, private, rules, shared, distortion, weights, split, seed, unseen, resolution, tol: as for `fit`.
        sparse, time_limit, progress: the same.

    Groups may reveal much together even where each reveals nothing by itself: because columns depend on S in
    combination, which then belong in one group, or because there are few records for so many combinations, so that who
    has the table finds the record. All designs are then mixed with constant releases, as far as `leakage_budget` needs.

    Raises `InputError` for bad columns, groups, numbers and options, `NotCertifiedError` for a `leakage_budget` below
    the rounding errors of float64; other errors are those of `fit`.
    """
    with request.started() as clock:
        return fit_groups_within(source, request, clock)


def fit_groups_within(source: Source, request: GroupsRequest, clock: Clock) -> FittedGroups:
    """`fit_groups` as a part of other work, which has a clock of its own and handles Ctrl-C."""
    by_budget, groups = request.leakage_budget is None, request.groups
    if (request.budget is None) == by_budget:
        raise InputError("give exactly one of budget and leakage_budget")
    target = scalar(
        request.budget if by_budget else request.leakage_budget, "budget" if by_budget else "leakage_budget", low=0.0
    )
    if bool(request.useful) == bool(groups):
        raise InputError("give exactly one of useful and groups")
    private, shared = column_names(request.private), column_names(request.shared)
    names = tuple(name for group in groups for name in group) if groups else column_names(request.useful)
    if len(set(names)) < len(names) or not all(groups or [1]):
        raise InputError("groups must have a column each, and every useful column is named once")
    distortion, weights = request.distortion, request.weights
    need_useful(distortion or {}, weights or {}, names)
    level = failure(request.confidence, "confidence")

    clock.begin("reading the records")
    columns = read_columns(source, list(dict.fromkeys((*private, *names))))
    parts = read_parts(columns, replace(request, useful=names, sparse=True))
    records = parts.counted()
    if groups is None:
        clock.begin("choosing groups")
        most = math.inf if request.sparse else records.design.sum() // ROWS_PER_SYMBOL
        groups = [[names[place] for place in group] for group in _chosen(records, min(most, MOST_IN_GROUP))]
    most = archive.MAX_MEMBERS - 2  # beside a record, and in the audit the records of the design
    if len(groups) > most:
        raise InputError(f"groups: a design has at most {most}, and these are {len(groups)}")
    for group in groups:  # as `fit` does of each, before a curve is computed
        book, different, _ = _combinations(records, group)
        check_records(int(parts.first.sum()), book, len(different), len(records.private), request.sparse)
        check_symbols(book, len(different), len(parts.first))
    sides = [_Side.of(records, group, distortion, weights) for group in groups]
    s, x = np.nonzero(records.design)
    symbols = np.stack([side.symbols for side in sides], axis=1)

    def together(tables: Sequence[np.ndarray]) -> tuple[Claim, bool]:
        clock.begin("the leakage of all groups")
        return joint_leakage(s, symbols[x], records.design[s, x], tables)

    def designed(total: float) -> _Designs:
        fitted = []
        for side, budget in zip(sides, _split(curves, total), strict=True):
            used = (*private, *side.names)
            with warnings.catch_warnings():
                # That one group is released as it is says nothing about all.
                warnings.filterwarnings("ignore", UNCHANGED)
                request_of_group = FitRequest(
                    private=private,
                    useful=side.names,
                    rules=_within(used, request.rules),
                    shared=[name for name in shared if name in side.names],
                    budget=budget,
                    distortion=_within(side.names, distortion),
                    weights=_within(side.names, weights),
                    **{name: getattr(request, name) for name in _ALIKE},
                )
                group = fit_within(columns, request_of_group, clock)
                if group.unchanged:  # the first sentence says so of whole records
                    sentence = f"Every record is released with its own {' and '.join(side.names)}."
                    group = replace(group, statements=(sentence, *group.statements[1:]))
                fitted.append(group)
        return _Designs(fitted, *together([group.mechanism.table for group in fitted]))

    clock.begin("the curves of the groups")
    curves = [_curve(side, clock) for side in sides]
    designs = designed(target) if by_budget else _certified(target, curves, designed, clock)
    if not by_budget and designs.leaked > target:
        designs = _mixed(designs, target, together, request.confidence)
    spent = [group.claims["distortion"] for group in designs.fitted]
    low = sum((Fraction(claim.lower or 0) for claim in spent), Fraction(0))
    high = sum((Fraction(claim.upper or 0) for claim in spent), Fraction(0))
    optimum = None
    seen = records.seen
    if int(seen.sum()) * math.prod(len(side.costs) for side in sides) <= _COMPARED**2:
        clock.begin("one mechanism for all columns")
        joint, costs = records.design[:, seen] / records.design.sum(), _together(sides, seen)
        problem = DistortionProblem(joint, costs, budget=float(high))
        best = solve_within(problem, Request(clock, Goal(request.tol, 0.0)))
        optimum = float(best.lower_bound), float(best.value)
    apart = tuple(group.claims["leakage"] for group in designs.fitted)
    every = records.design if records.held_out is None else records.design + records.held_out
    s, x = np.nonzero(every)
    counts = records.design[s, x], (every - records.design)[s, x]
    parts_evidence = tuple(group.evidence for group in designs.fitted)
    evidence = GroupedEvidence(parts_evidence, np.column_stack([s, symbols[x], *counts]), key=os.urandom(32).hex())
    mechanism = GroupedMechanism(tuple(group.mechanism for group in designs.fitted), evidence.commitment())
    return FittedGroups(
        groups=tuple(side.names for side in sides),
        fitted=tuple(designs.fitted),
        mechanism=mechanism,
        evidence=evidence,
        leakage=designs.leakage,
        exact=designs.exact,
        apart=apart,
        distortion=Claim(down(low), up(high), "distortion"),
        cost=GroupingCost(sum(claim.most for claim in apart), designs.leaked, optimum),
        confidence=request.confidence,
        population=None if records.held_out is None else of_population(mechanism, evidence, 1 - level),
    )


def of_population(mechanism: GroupedMechanism, evidence: GroupedEvidence, beta: float) -> float:
    """A bound on I(S; Y_1, ..., Y_k) for the population with a failure of beta, from the held-out records.

    The release is one mechanism, W = prod_g W_g, that these records did not choose: the bound for such a mechanism
    takes of X the value on the frequencies alone, however many combinations there are. Least and largest entries of W
    are at least and at most the products of those of the W_g.
    """
    private, held_out = evidence.records[:, 0], evidence.records[:, -1]
    by_private = np.zeros(len(evidence.parts[0].counts), dtype=np.int64)
    np.add.at(by_private, private, held_out)
    common = ratio = released = 1.0
    for part in mechanism.parts:
        matrix = part.matrix()
        low, high = matrix.min(axis=0), matrix.max(axis=0)
        used = high > 0
        common, ratio = common * float(low.sum()), ratio * float((low[used] / high[used]).min())
        released *= int(used.sum())
    return from_fitted_information(
        evidence.leakage(mechanism, held_out=True)[0].most,
        by_private,
        released,
        beta,
        common=common,
        least=ratio,
        least_ratio=ratio,
    )


@dataclass(frozen=True, eq=False)
class _Side:
    """One group of columns: x_g (X,) for every combination X of ALL columns, as `fit` numbers them; P(s, x_g) and d of
    those that the records of the design have.
    """

    names: tuple[str, ...]
    symbols: np.ndarray
    joint: np.ndarray
    costs: np.ndarray

    @classmethod
    def of(
        cls, records: CountedParts, names: Sequence[str], distortion: Prices | None, weights: Prices | None
    ) -> "_Side":
        book, different, symbols = _combinations(records, names)
        counts = np.zeros((len(records.private), len(different)))
        np.add.at(counts.T, symbols, records.design.T)
        seen = counts.any(axis=0)
        kinds, factors = _within(names, distortion), _within(names, weights)
        costs = column_distortion(book, different[seen], kinds=kinds, weights=factors)
        return cls(tuple(names), symbols, counts[:, seen] / counts.sum(), costs)


def _together(sides: Sequence[_Side], seen: np.ndarray) -> np.ndarray:
    """d (X, Y) between the combinations of all columns that are seen and what the groups can release: more of them."""
    total = np.zeros((int(seen.sum()), 1))
    for side in sides:
        place = np.unique(side.symbols[seen], return_inverse=True)[1]
        total = (total[:, :, None] + side.costs[place][:, None, :]).reshape(len(total), -1)
    return total


def _combinations(records: CountedParts, names: Sequence[str]) -> tuple[Codebook, np.ndarray, np.ndarray]:
    """The classes of some useful columns, their different combinations, and the place of each X among them."""
    book = replace(records.codebook, useful=tuple(names))
    codes = records.useful[:, [records.codebook.useful.index(name) for name in names]]
    return book, *distinct_rows(codes, [len(book.rules[name].labels) for name in names])


@dataclass(frozen=True)
class _Designs:
    fitted: Sequence[Fitted]
    leakage: Claim
    exact: bool

    @property
    def leaked(self) -> float:
        return self.leakage.most


def _within(names: Sequence[str], given: Mapping[str, T] | None) -> Mapping[str, T] | None:
    return None if given is None else {name: value for name, value in given.items() if name in names}


def _chosen(records: CountedParts, most: float) -> list[tuple[int, ...]]:
    """Groups of places of useful columns, each with at most so many combinations where it has several columns."""
    s, x = np.nonzero(records.design)
    counts, n = records.design[s, x], records.design.sum()
    sizes = [len(records.codebook.rules[name].labels) for name in records.codebook.useful]

    def entropy(rows: np.ndarray, sizes: Sequence[int]) -> float:
        mass = np.bincount(distinct_rows(rows, sizes)[1], counts) / n
        return float(-mass @ np.log(mass)) + (len(mass) - 1) / (2 * n)  # the correction of Miller and Madow

    @cache
    def information(group: tuple[int, ...]) -> float:
        sizes_of_group = [sizes[place] for place in group]
        rows = records.useful[x][:, group]
        joint = np.column_stack([s, rows])
        return private + entropy(rows, sizes_of_group) - entropy(joint, [len(records.private), *sizes_of_group])

    @cache
    def size(group: tuple[int, ...]) -> int:
        return len(distinct_rows(records.useful[:, group], [sizes[place] for place in group])[0])

    private = entropy(s[:, None], [len(records.private)])
    groups = [(place,) for place in range(len(sizes))]
    while True:
        pairs = [
            (abs(information(union) - information(a) - information(b)), a, b, union)
            for a, b in combinations(groups, 2)
            for union in [tuple(sorted(a + b))]
            if size(union) <= most
        ]
        if not pairs:
            return sorted(groups)
        _, a, b, union = max(pairs)
        groups = [group for group in groups if group not in (a, b)] + [union]


def _curve(side: _Side, clock: Clock) -> np.ndarray:
    """Distortions and least leakages (2, m), from no distortion to the least one that reveals nothing."""
    free = solve_within(
        DistortionProblem(side.joint, side.costs, leakage_budget=0.0), Request(clock, Goal(_ROUGH, 0.0))
    )
    most = float(free.value)
    if not most > 0:
        return np.zeros((2, 1))
    problem = DistortionProblem(side.joint, side.costs, budget=most)
    how = Request(clock, Goal(_ROUGH, 0.0), throw=False)
    curve = frontier_within(problem, {"budget": most * _SHARES}, how)
    return np.stack([curve.targets, np.asarray(curve.solutions.value)])


def _split(curves: Sequence[np.ndarray], total: float) -> list[float]:
    """Budgets of the groups that sum to at most `total`: of all chords of the curves the steepest are spent first.

    The curves are convex, so this is the least sum of the chords, and the price of the last one is that of all groups.
    """
    chords = [
        (fall / length, group, length)
        for group, curve in enumerate(curves)
        for length, fall in np.diff(curve).T
        if fall < 0
    ]
    budgets, left = [0.0] * len(curves), total * (1 - 2.0**-40)  # more than sums of floats are off by
    for _, group, length in sorted(chords):
        budgets[group] += min(length, left)
        left -= min(length, left)
    return budgets


def _certified(
    target: float, curves: Sequence[np.ndarray], designed: Callable[[float], _Designs], clock: Clock
) -> _Designs:
    """Designs that together leak at most `target`, and nearly as much: secants from the sum of the curves on.

    Where there are none, those whose groups reveal nothing, each by itself.
    """
    most = sum(float(curve[0, -1]) for curve in curves)
    totals = np.linspace(0.0, most, 1025)  # finer than the curves
    sums = [
        sum(np.interp(share, *curve) for share, curve in zip(_split(curves, at), curves, strict=True)) for at in totals
    ]
    low, high, best = (0.0, sums[0]), (most, 0.0), None
    at = float(np.interp(-target, -np.array(sums), totals))
    designs = designed(at)
    for place in range(_ROUNDS):
        if designs.leaked <= target:
            best, high = designs, (at, designs.leaked)
            if at == 0.0 or designs.leaked >= _USED * target:
                return best
        else:
            low = at, designs.leaked
        if clock.expired() or low[0] >= high[0]:
            break
        aim = target * (1 + _USED) / 2
        if best is None and place:  # there may be none
            share = 1.0
        elif best is None or best.leaked > target / 2:
            share = (low[1] - aim) / (low[1] - high[1]) if low[1] > aim else 0.0
        else:  # the curve bends here, and secants would come nearer in small steps
            share = 0.5
        at = low[0] + share * (high[0] - low[0])
        designs = designed(at)
    return best or designs


def _mixed(designs: _Designs, target: float, together: _Together, confidence: float) -> _Designs:
    """Every record released as a constant with one probability for all groups, the least one that meets the target.

    I(S;Y) is convex in the mapping and 0 for a constant one, so it falls along the mixtures of both.
    """

    def mixed(share: int) -> list[np.ndarray]:
        return [_with_constant(group, share) for group in designs.fitted]

    shares = range(1, 2**_SHARE_BITS + 1)
    place = bisect_left(shares, -target, key=lambda share: -together(mixed(share))[0].most)
    if place == len(shares):
        raise NotCertifiedError(f"leakage_budget {target:.3g} is less than can be computed in float64")
    tables = mixed(shares[place])
    fitted = [_redrawn(group, table, confidence) for group, table in zip(designs.fitted, tables, strict=True)]
    return _Designs(fitted, *together(tables))


def _with_constant(group: Fitted, share: int) -> np.ndarray:
    """The table of a mixture, `share` in 1024 of it the constant release of least distortion."""
    table, costs = group.mechanism.table, group.mechanism.distortion
    assert costs is not None
    taken = table if share == 2**_SHARE_BITS else (table >> np.uint64(_SHARE_BITS)) * np.uint64(share)
    mixed = table - taken
    mixed[:, int((group.evidence.counts.sum(axis=0) @ costs).argmin())] += taken.sum(axis=1)
    return mixed


def _redrawn(group: Fitted, table: np.ndarray, confidence: float) -> Fitted:
    """The design with another table, whose distortion is its budget; every number computed again."""
    spent = group.evidence.claims(replace(group.mechanism, table=table))["distortion"]
    asked = replace(group.mechanism.asked, target=math.nextafter(spent.most, math.inf))
    mechanism = replace(group.mechanism, table=table, asked=asked)
    audit = audited(mechanism, group.evidence, confidence)
    claims = group.evidence.claims(mechanism)
    mixed = "The design was mixed with a constant release, because the groups reveal too much together without it."
    statements = (*group.statements[group.unchanged :], mixed)  # the first sentence of an unchanged one says so
    return replace(
        group, mechanism=mechanism, claims=claims, status=FEASIBLE, audit=audit, statements=statements, unchanged=False
    )
