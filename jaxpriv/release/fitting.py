"""From a table of records to a mechanism: design on one part of the records, audit on the other."""

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.module.shown import sizes
from jaxpriv._runtime.validation import flag, instance, per_nat, scalar
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.funnels import FunnelSolution, proved_line
from jaxpriv.leakage import AbstractAverageLeakage, AbstractLeakage, MutualInformation, by_name, forms_of
from jaxpriv.problems import DistortionProblem, FunnelProblem, with_marginal
from jaxpriv.program.lower import distance_scale
from jaxpriv.program.solution import Solution
from jaxpriv.release.coalitions import CoalitionRelease, release_within
from jaxpriv.release.counting import CountedParts, check_symbols, read_parts
from jaxpriv.release.following import least_after
from jaxpriv.release.grouped_symbols import certified_groups
from jaxpriv.release.mechanism import MADE_BY_FIT, Asked, Evidence, Labels, Mechanism, shares
from jaxpriv.release.obstacles import MOST_OTHER
from jaxpriv.release.requests import DesignRequest, MeasureRequest, requested
from jaxpriv.release.table import (
    check_resolution,
    leakage_of,
    moved_marginal,
    quantise,
    within_distortion,
    within_limit,
    without_rare,
)
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import Request
from jaxpriv.solving.solve import solve_within
from jaxpriv.statistics import watchdog
from jaxpriv.statistics.audit import MechanismAudit, SampleKind, audit_mechanism, sample_bounds
from jaxpriv.statistics.tables import Codebook, Source
from jaxpriv.statistics.tables.rules import column_distortion, look_alike
from jaxpriv.verifier.claims import ONE, Claim, Measure, measure_label
from jaxpriv.verifier.logarithms import lower, percent, upper
from jaxpriv.verifier.records import UNSEEN
from jaxpriv.verifier.sequences import leakages

# Targets in equal steps, fixed in advance and tried up to the first that fails: one level holds for all.
_RUNGS = 12
_CAUSES = 3  # of what a watchdog withholds: so many are stated
# The status of a design that meets its target, where nothing is known of the best one.
FEASIBLE = "feasible"
# How much lower the price is of a useful symbol that the solver left out: entropies are of the order of 1.
_FAR = 80.0
UNCHANGED = "Every record is released as it is, which meets the target"
# Where a mapping that leaks something could be rounded and one that leaks nothing could not.
_ALIKE = (
    "Every record is released alike, because the best mapping leaks more than the target once its probabilities are "
    "rounded to whole numbers; a target above their rounding has mappings of less distortion."
)
# Minimisations for the limits of two coalitions, at most.
_ROUNDS = 100
# Masses of an output below which it is tried to merge it, for a measure of the worst outcome.
_RARE = (0.0, 2.0**-24, 2.0**-16, 2.0**-12)

# Claims of which the lower end is what is proved.
_AT_LEAST = ("disclosure", "lower_bound", "solver_bound")

# What the numbers of a design are called; after an earlier one the leakage is that of both.
_NAMES = {
    "leakage": "leakage",
    "distortion": "mean distortion",
    "disclosure": "utility I(X;Y)",
    "gap": "certified gap",
    "excess": "excess over the target",
}
_AFTER = {
    "leakage": "leakage, both releases together",
    "leakage_earlier": "leakage, the earlier one",
    "leakage_alone": "leakage, this one alone",
}
_BY_SOLVER = {"lower_bound": "solver_bound", "gap": "solver_gap"}
_CAPS = {"maximal-leakage": "maximal leakage of X, at least I(S;Y)", "ldp": "largest ln P(y|x)/P(y|x')"}

# The argument of `fit` that states the target of each problem.
_TARGETS = {
    "budget": "budget",
    "leakage-budget": "leakage_budget",
    "disclosure": "disclosure",
    "watchdog": "target_leakage",
}


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

    def lines(self, units: str = "nats") -> dict[str, str]:
        """What was found in words, text by name, for the owner: on the records of the design, for every population, and
        for the one of the records that were held out; `statements` belong to it. Logarithms in `units`, "nats" or
        "bits" (`InputError` for others), numbers rounded against the claim.
        """
        release, asked, audit, limit = self.mechanism, self.mechanism.asked, self.audit, self.limit
        measure, per = measure_label(asked.measure), per_nat(units)
        of_target = " nats" if asked.problem != "budget" and self.claims["leakage"].unit == "nats" else ""
        rows = {
            "status": self.status.replace("_", " "),
            "target": f"{asked.problem} {asked.target:g}{of_target}, leakage: {measure}",
            "alphabets": sizes(S=len(self.evidence.counts), X=len(release.useful), Y=len(release.released)),
            f"on the {int(self.evidence.counts.sum())} records of the design": "",
        }
        objective = "distortion" if asked.problem == "leakage-budget" else "leakage"
        outputs = "" if release.distortion is None else " to these Y"
        names = {
            **_NAMES,
            **(_AFTER if release.earlier else {}),
            "lower_bound": f"no mapping{outputs} has less {objective} than",
        }
        for name, claim in self.claims.items():
            # Of a funnel with more than two private symbols what the solver proved; the statements say so.
            best = self.claims.get(_BY_SOLVER.get(name, name), claim)
            if name in names:
                digits = 2 if name == "gap" else 6  # six would differ between machines
                rows[f"  {names[name]}"] = best.end(units, down=name in _AT_LEAST, digits=digits)
        right, of = self.evidence.guesses(release), "both releases" if release.earlier else "the release"
        rows["  best guess of the private class right"] = ""
        rows["    without a release"] = percent(right["without"])
        rows[f"    with {of}"] = f"at most {percent(right['with'], up=True)}"
        rows["    with the useful columns unchanged"] = percent(right["unchanged"])
        rows["whatever the population is"] = ""
        rows |= {f"  {_CAPS[name]}": claim.end(units) for name, claim in release.guarantees.items()}
        if limit is not None:
            rows[f"population, confidence {limit.confidence:g}"] = f"design {limit.rung} of {limit.rungs}"
            rows["target"] += f", so that {limit.limit:g}{of_target} holds for the population"
            rows[f"  {measure} at most"] = upper(limit.upper) + of_target
        if audit is not None and audit.assumptions.records is not None:
            rows[f"population, from {audit.assumptions.records} held-out records"] = f"confidence {audit.confidence:g}"
            stated = asked.measure
            named = (stated.certified_as, stated.form or forms_of(stated.name)[0], stated.order, stated.divergence)
            for row in audit.rows:
                asked_for = (row.name, row.form, row.order, row.divergence) == named
                if row.upper is not None and (asked_for or row.name in ("mutual-information", "maximal-leakage")):
                    most = str(row.upper) if np.isfinite(row.upper) else None
                    rows[f"  {measure_label(row)} at most"] = Claim(None, most, row.units).end(units)
            if audit.utility.lower is not None:
                rows["  utility I(X;Y) at least"] = f"{lower(audit.utility.lower * per)} {units}"
        return rows

    @property
    def record(self) -> dict[str, object]:
        """What was found in terms of JSON, without the design and its counts; `design` is the SHA-256 of its file.

        Numbers that are proved are the texts of a claim (`jaxpriv.verifier`), exact.
        """
        made, counts, held_out, audit = self.mechanism, self.evidence.counts, self.evidence.held_out, self.audit
        return {
            "status": self.status,
            "design": made.sha256,
            "asked": made.asked.record,
            "records": {
                "design": int(counts.sum()),
                "held_out": None if held_out is None else int(held_out.sum()),
            },
            "alphabets": {"private": len(counts), "useful": len(made.useful), "released": len(made.released)},
            "on_the_design": {name: claim.record for name, claim in self.claims.items()},
            "guesses": self.evidence.guesses(made),
            "without_data": {name: claim.record for name, claim in made.guarantees.items()},
            "population_limit": None if self.limit is None else asdict(self.limit),
            "population": None
            if audit is None
            else {
                "confidence": audit.confidence,
                "holds_for": audit.holds_for,
                "measures": [
                    {name: getattr(row, name) for name in ("name", "form", "order", "divergence", "upper", "units")}
                    for row in audit.rows
                ],
                "utility_lower": audit.utility.lower,
                "assumptions": list(audit.assumptions.statements),
            },
            "statements": list(self.statements),
            "units": "nats",
        }


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


@dataclass(frozen=True, kw_only=True, eq=False)
class FitRequest(DesignRequest, MeasureRequest):
    """What `fit` is asked for: its arguments."""

    disclosure: float | None = None
    target_leakage: float | None = None
    leakage_tolerance: float | None = None
    population: bool = False
    after: Mechanism | None = None
    alone: float | None = None
    marginal: float | None = None

    @property
    def asked(self) -> Asked:
        """The target and the measure; `InputError` for what no design can have."""
        given = {problem: getattr(self, name) for problem, name in _TARGETS.items() if getattr(self, name) is not None}
        if len(given) != 1:
            raise InputError("give exactly one of budget, leakage_budget, disclosure and target_leakage")
        ((problem, target),) = given.items()
        target = float(scalar(target, _TARGETS[problem], low=0.0))
        check_resolution(self.resolution)
        flag(self.population, "population")
        if self.leakage_tolerance is not None and (problem != "budget" or self.population):
            raise InputError("leakage_tolerance goes with `budget`, and without `population`")
        if self.leakage_tolerance is not None:
            scalar(self.leakage_tolerance, "leakage_tolerance", low=0.0)
        if self.after is not None:
            instance(self.after, "after", Mechanism, hint=MADE_BY_FIT)
            if (
                problem not in ("budget", "leakage-budget")
                or self.leakage != "mutual-information"
                or self.form == "worst"
                or self.population
                or self.leakage_tolerance is not None
            ):
                raise InputError(
                    "after goes with `budget` or `leakage_budget` and mutual information, and without `population` and "
                    "`leakage_tolerance`"
                )
        if self.alone is not None and (self.after is None or problem != "leakage-budget"):
            raise InputError("alone goes with `after` and `leakage_budget`")
        if self.marginal is not None and (
            problem != "budget" or self.after is not None or self.leakage_tolerance is not None
        ):
            raise InputError("marginal goes with `budget`, and without `after` and `leakage_tolerance`")
        for name in ("alone", "marginal"):
            if getattr(self, name) is not None:
                scalar(getattr(self, name), name, low=0.0)
        if not (isinstance(self.unseen, str) and self.unseen in UNSEEN):
            raise InputError(f"unseen must be one of {', '.join(UNSEEN)}")
        if problem == "watchdog" and self.leakage not in ("mutual-information", "lift"):
            raise InputError("target_leakage is about lift leakage; leave out `leakage`")
        if problem == "watchdog" and self.tol != FitRequest.tol:
            raise InputError("tol is about a certified gap, and a design with `target_leakage` has none; leave it out")
        if problem in ("disclosure", "watchdog") and (self.distortion or self.weights):
            raise InputError("`distortion` and `weights` go with `budget` and `leakage_budget`")
        asked = Asked(problem, target, {"name": "lift" if problem == "watchdog" else self.leakage, **self.parameters})
        by_name(**vars(asked.measure))
        fault = asked.measure.fault
        if fault is not None:  # a measure, or a divergence, that a user entered
            raise InputError(f"leakage: a design {fault}: no verifier could compute it")
        return asked


@requested(FitRequest)
def fit(source: Source, request: FitRequest) -> Fitted:
    """Design a mechanism for the records of a table.

    Args:
        source, private, useful, rules, shared, codebook, sparse: as for `jaxpriv.statistics.tables.count_table`.
        budget: least leakage with a mean distortion of at most this; or
        leakage_budget: least mean distortion with at most this leakage; or
        disclosure: least leakage with I(X;Y) of at least this (nats); or
        target_leakage: the watchdog with at most this lift leakage (nats). Exactly one of the four.
        leakage_tolerance: with `budget`: of the mechanisms whose leakage is within this of the least, the one of least
            mean distortion (`jaxpriv.LexicographicProblem`); the sum of both is then the leakage budget of the design.
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
            record is its group (`jaxpriv.release.table`).
        after: a mechanism that has released these records, or will have: receivers of its draws z may be those of the
            new ones. The mechanism is then P(y | x, z), and the leakage that of both draws together, on the useful
            columns, classes and symbols of `after`; leave out `useful`. For mutual information.
        alone: with `after` and `leakage_budget`: the most that receivers of the new draw alone may have, beside the
            leakage budget, which is about both draws together.
        marginal: with `budget`: the largest total variation between the useful combinations of the records of the
            design and the expected ones of their release; 0: the same but for the rounding of the probabilities, which
            `statements` has.
        unseen: what a later record comes to whose classes combine as in no record of the table: see `Mechanism`.
        resolution: bits of the probabilities.
        tol: the certified gap that counts as optimal.
        time_limit: seconds after which the best design so far is taken, with its interval; reading, rounding and the
            exact computation of all numbers are not interrupted. Ctrl-C does the same, as in `jaxpriv.solve`.
        progress: True (lines on stderr), or a function that is called with a `jaxpriv.Progress` at the beginning of
            every stage and after every portion of steps.

    A warning says where X itself meets the target: every record is then released as it is.

    The classes are those of all records, except for quantiles, which are those of the design's. The alphabet X is that
    of the combinations that occur; one that no record of the design has gets the row of the nearest one that has, with
    `unseen="suppress"` the mean of their rows. Only those are released that a record of the design has: the mapping is
    a function of the records of the design. Its bound is about mappings to these; one that released other combinations
    could leak less.

    Raises `InputError` for bad columns, numbers and options, `InfeasibleError` if no mechanism meets the target,
    `NotCertifiedError` if the records are too few to certify any mechanism for the population, `ResourceError` for a
    table that is too large.
    """
    with request.started() as clock:
        return fit_within(source, request, clock)


def fit_within(source: Source, request: FitRequest, clock: Clock) -> Fitted:
    """`fit` as a part of other work, which has a clock of its own and handles Ctrl-C."""
    asked = request.asked
    clock.begin("reading the records")
    parts = read_parts(source, request, request.after)
    records = parts.counted()
    check_symbols(records.codebook, len(records.useful), len(parts.first))
    costs = None
    if asked.problem in ("budget", "leakage-budget"):
        kinds, weights = request.distortion, request.weights
        costs = column_distortion(records.codebook, records.useful, kinds=kinds, weights=weights)[:, records.seen]
    work, limit, sources = _Work(asked, request, records, costs, clock), None, ()
    if request.leakage_tolerance is not None:
        clock.begin("the least leakage")
        least = work.least_leakage()
        asked = replace(asked, problem="leakage-budget", target=float(least.value) + float(request.leakage_tolerance))
        sources = (
            f"With a mean distortion of at most {request.budget:g} the least leakage on the records of the design is "
            f"between {lower(least.lower_bound)} and {upper(float(least.value))} "
            f"{work.measure.unit}; the leakage budget is the second number plus {request.leakage_tolerance:g}.",
        )
        work = replace(work, asked=asked)
    clock.begin("designing")
    if not request.population:
        design = work.design(asked.target)
    else:
        limit, design = _grouped(work) if asked.problem == "watchdog" else _certified(work)
        # They chose the mechanism: no audit may take them for held out.
        records = replace(records, held_out=None)
    clock.begin("computing every number again")
    book, seen = records.codebook, records.seen
    duals = design.duals
    if "prices" in duals:
        duals["prices"] = np.where(seen, np.take(duals["prices"], np.cumsum(seen) - 1, mode="clip"), 0.0)
    named = tuple(book.rules[name].labels for name in book.private)
    key = os.urandom(32).hex()
    evidence = Evidence(records.private, named, records.design, records.held_out, key, duals)
    mechanism = Mechanism(
        table=records.of_all(design.table, request.unseen, work.earlier),
        codebook=book.without_private_values(),
        useful=records.useful,
        released_columns=design.columns,
        released_labels=design.labels,
        released=design.released,
        asked=replace(asked, target=design.target),
        distortion=costs,
        unseen=request.unseen,
        commitment=evidence.commitment(),
        earlier=request.after,
        absent=tuple(np.flatnonzero(~seen).tolist()) if request.after is None else request.after.absent,
    )
    claims = evidence.claims(mechanism)
    learned = request.codebook is None and (request.population or records.held_out is not None)
    statements = sources + design.notes + _statements(records, learned, request.unseen == "suppress")
    if "solver_bound" in claims:
        statements += (
            "The bound is proved by a branch and bound in float64. In exact arithmetic `jaxpriv verify` proves that no "
            f"mapping leaks less than {claims['lower_bound'].lower} nats.",
        )
    if claims.keys().isdisjoint(("lower_bound", "solver_bound")) and asked.problem != "watchdog":
        statements += (
            f"No lower bound is stated, because `jaxpriv verify` computes none for {measure_label(asked.measure)}: the "
            "status is that of the mapping of the solver, in float64, before it was rounded to whole numbers.",
        )
    if asked.problem == "watchdog" and not request.population:
        counts = records.design[:, seen]
        watched = watchdog.watchdog(counts / counts.sum(), target_leakage=asked.target)
        causes = watchdog.explain(watched, counts=counts, target_leakage=asked.target)
        statements += tuple(cause.sentence for cause in causes[:_CAUSES])
    unchanged = bool(((mechanism.alone.table[seen] > 0).sum(axis=0) <= 1).all())
    if unchanged:
        warnings.warn(UNCHANGED, stacklevel=4)
        statements = (f"{UNCHANGED}.", *statements)
    audit = audited(mechanism, evidence, request.confidence)
    return Fitted(mechanism, evidence, claims, design.status, audit, limit, statements, unchanged, book)


def audited(mechanism: Mechanism, evidence: Evidence, confidence: float) -> MechanismAudit | None:
    """Bounds for the population from the records that were held out; None where there are none."""
    counts = evidence.held_out
    if counts is None:
        return None
    measures = mechanism.asked.audited
    return audit_mechanism(
        mechanism.all_drawn(), counts=counts, confidence=confidence, held_out=True, measures=measures
    )


@dataclass(frozen=True, eq=False)
class _Rounded:
    """A table over the useful symbols of the design, or their pairs with an earlier draw, with the names, labels and
    codes of its outputs.

    `target`: the one that it was designed for. `duals`: what proves the bound, as in `Evidence`. `notes`: about a limit
    that this bound is without.
    """

    table: np.ndarray
    columns: tuple[str, ...]
    labels: Labels
    released: np.ndarray
    target: float
    duals: dict[str, np.ndarray]
    status: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Work:
    """What all designs of one call have in common; `costs` (X, Y) where they have a distortion."""

    asked: Asked
    request: FitRequest
    records: CountedParts
    costs: np.ndarray | None
    clock: Clock

    @cached_property
    def measure(self) -> AbstractLeakage:
        return by_name(**vars(self.asked.measure))

    @cached_property
    def computed(self) -> Measure | None:
        """The measure, if it is one that the verifier computes."""
        return self.asked.measure if self.asked.measure.computed else None

    @cached_property
    def counts(self) -> np.ndarray:
        """(S, X) of the useful symbols that the records of the design have; `prices` (X, Y) are their costs."""
        return self.records.design[:, self.records.seen]

    @cached_property
    def prices(self) -> np.ndarray | None:
        return None if self.costs is None else self.costs[self.records.seen]

    @cached_property
    def earlier(self) -> list[list[int]] | None:
        """The draws of the earlier mechanism, (X, Z) whole numbers, for these symbols."""
        after = self.request.after
        return None if after is None else [list(after.drawn[x]) for x in np.flatnonzero(self.records.seen).tolist()]

    def leakage(self, table: np.ndarray) -> Fraction | float:
        """At least the leakage of a table, with all earlier draws."""
        assert self.computed is not None
        return leakage_of(table, self.counts, self.computed, self.earlier)

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray | None]:
        """`counts` and `prices` of the symbols, or of their pairs with an earlier draw as whole Python numbers."""
        if self.earlier is None or self.prices is None:
            return self.counts, self.prices
        draws = np.array(self.earlier, dtype=object)
        counts = (self.counts[:, :, None] * draws).reshape(len(self.counts), -1)
        return counts, self.prices.repeat(draws.shape[1], axis=0)

    def leakage_alone(self, table: np.ndarray) -> Fraction:
        """At least the leakage of the draws of a table without the earlier ones."""
        assert self.earlier is not None
        claim = leakages(self.counts.tolist(), self.earlier, table.tolist(), "mutual-information")["alone"]
        assert claim is not None
        assert claim.upper is not None
        return Fraction(claim.upper)

    def held_out(self) -> tuple[np.ndarray, float]:
        """The records that were held out, and the confidence of the bounds that they give."""
        if self.records.held_out is None:
            raise InputError("population needs held-out records: give a split below 1")
        level = scalar(self.request.confidence, "confidence", low=0.0, high=1.0, open_low=True)
        if not level < 1:
            raise InputError("confidence must be below 1")
        return self.records.held_out, level

    def least_leakage(self) -> Solution:
        """The least leakage that the budget allows."""
        joint = self.counts / self.counts.sum()
        problem = DistortionProblem(joint, self.prices, budget=self.asked.target, leakage=self.measure)
        return solve_within(problem, Request(self.clock, Goal(self.request.tol, 0.0)))

    def design(self, target: float) -> _Rounded:
        """The best mechanism for a target, rounded to whole numbers that meet it."""
        problem, prices, computed = self.asked.problem, self.prices, self.computed
        matrix, duals, status = self._solved(target)
        matrix, status, best = self._limited(matrix, status, target)
        columns, labels, released, matrix = self._alphabet(matrix)
        # What a measure of ratios compares stays positive.
        support = self.asked.leakage["name"] != "mutual-information" and problem != "watchdog"

        counts, costs = self.pairs
        constant = None if costs is None else int((counts.sum(axis=0) @ costs).argmin())

        def rounded(mapping: np.ndarray) -> np.ndarray:
            quantised = quantise(mapping, resolution=self.request.resolution, costs=costs, support=support)
            if problem == "budget" and costs is not None:
                quantised = within_distortion(quantised, counts, costs, target)
            if problem == "leakage-budget" and computed is not None:
                quantised = within_limit(quantised, self.leakage, target, constant=constant)
            if self.request.alone is not None:
                alone = self.request.alone
                quantised = within_limit(quantised, self.leakage_alone, alone, "limit `alone`", constant=constant)
            if self.request.marginal:
                moved = partial(moved_marginal, counts=self.counts)
                quantised = within_limit(quantised, moved, self.request.marginal, "limit `marginal`", unchanged=True)
            return quantised

        if prices is None or computed is None or not self.measure.worst_outcome:
            table = rounded(matrix)
        else:
            tables, mass = [], self.counts.sum(axis=0)
            masses = _RARE if self.request.marginal is None else _RARE[:1]  # merged outputs move the marginal
            for least in masses:
                try:
                    tables.append(rounded(without_rare(matrix, mass / mass.sum(), prices, least)))
                except NotCertifiedError:
                    if least == masses[-1] and not tables:
                        raise
            weights = mass[:, None] * prices
            spent = self.leakage if problem == "budget" else lambda rows: (weights * rows.astype(float)).sum()
            table = min(tables, key=spent)
        notes = () if best is None else (self._note(table, best),)
        if problem == "leakage-budget" and costs is not None and (table == table[0]).all():
            weights = (counts.sum(axis=0) / counts.sum()).astype(float)[:, None] * costs
            if (weights * (table / ONE - matrix)).sum() > self.request.tol:
                status, notes = "not_certified", (*notes, _ALIKE)
        return _Rounded(table, columns, labels, released, target, duals, status, notes)

    def _limited(
        self, matrix: np.ndarray, status: str, target: float
    ) -> "tuple[np.ndarray, str, Solution | CoalitionRelease | None]":
        """The best mechanism (X, Y) within the further limit, if there is one, and its status and solution."""
        joint, prices, goal = self.counts / self.counts.sum(), self.prices, Goal(self.request.tol, 0.0)
        if prices is None:
            return matrix, status, None
        if self.request.marginal is not None:
            form: dict[str, Any] = {"budget": target, "within": self.request.marginal, "leakage": self.measure}
            near = with_marginal(joint, prices, joint.sum(axis=0), **form)
            solution = solve_within(near, Request(self.clock, goal))
            mechanism = np.asarray(solution.mechanism)[: len(prices)].reshape(len(prices), -1, len(prices)).sum(axis=1)
            return mechanism, str(solution.status), solution
        if self.earlier is not None and self.request.alone is not None:
            limits: dict[tuple[int, ...], float] = {(): self.request.alone, (0,): target}
            draws = shares(self.earlier)
            best = release_within(joint, draws, prices, limits, None, None, self.request.tol, _ROUNDS, self.clock)
            return best.mechanism.reshape(-1, prices.shape[1]), best.status, best
        return matrix, status, None

    def _note(self, table: np.ndarray, best: "Solution | CoalitionRelease") -> str:
        """What is proved of the mechanisms within the further limit."""
        if self.request.alone is None:
            moved = upper(float(moved_marginal(table, self.counts)), 2)
            what = f"that keep the marginal within {self.request.marginal:g} (this one: {moved})"
            least, unit = "a leakage", f" {self.measure.unit}"
        else:
            what = f"with at most {self.request.alone:g} nats for receivers of this release alone"
            least, unit = "a mean distortion", ""
        low, high = lower(float(best.lower_bound)), upper(float(best.value))
        return (
            f"A bound that is stated is about all mechanisms that meet the target. Of those {what} the best has "
            f"{least} between {low} and {high}{unit}, proved in float64."
        )

    def _solved(self, target: float) -> tuple[np.ndarray, dict[str, np.ndarray], str]:
        """(the mechanism (X, Y), the duals, the status); private symbols without a record stay in the duals."""
        problem, measure, joint = self.asked.problem, self.measure, self.counts / self.counts.sum()
        goal = Goal(self.request.tol, 0.0)
        if problem == "watchdog":
            return watchdog.watchdog(joint, target_leakage=target).mechanism, {}, FEASIBLE
        if problem == "disclosure":
            if not isinstance(measure, AbstractAverageLeakage):
                raise InputError(f"leakage must be an average measure, not {type(measure).__name__}")
            disclosed = _goal(joint, target, self.request.resolution)
            asked_of = FunnelProblem(joint, disclosure=disclosed, leakage=measure)
            solved = solve_within(asked_of, Request(self.clock, goal))
            assert isinstance(solved, FunnelSolution)
            return solved.mechanism, _prices(asked_of, solved), solved.status
        form: dict[str, Any] = {_TARGETS[problem]: target}
        if self.earlier is not None and self.prices is not None:
            best = least_after(joint, shares(self.earlier), self.prices, problem, target, self.request.tol, self.clock)
            price = np.array([best.price])
            weights, multipliers = (np.ones((1, 1)), price) if problem == "budget" else (1 / price[None], price[:0])
            duals = {"scores": best.scores[None], "weights": weights, "multipliers": multipliers}
            return best.mechanism.reshape(-1, best.mechanism.shape[2]), duals, best.status
        asked = DistortionProblem(joint, self.prices, leakage=measure, **form)
        solution = solve_within(asked, Request(self.clock, goal))
        parts = solution.scores, solution.weights, solution.multipliers
        if isinstance(measure, MutualInformation):
            # The verifier takes scores and the price of leakage, not their product.
            prices = np.asarray(solution.multipliers)
            price = 1.0 if problem == "budget" else float(prices[-1])
            scores = np.asarray(solution.scores) / price if price > 0 else np.zeros_like(solution.scores)
            parts = scores, np.array([[price]]), prices if problem == "budget" else prices[:-1]
        rules, weights, prices = (np.asarray(part, np.float64) for part in parts)
        if problem == "budget" and measure.worst_outcome and self.prices is not None:
            # Of distances to the budget; the verifier takes the price of E d itself.
            prices = prices / float(distance_scale(joint.sum(axis=0)[None, :, None] * self.prices)[0])
        duals = {"scores": rules, "weights": weights, "multipliers": prices}
        return np.asarray(solution.mechanism), duals, str(solution.status)

    def _alphabet(self, matrix: np.ndarray) -> tuple[tuple[str, ...], Labels, np.ndarray, np.ndarray]:
        """(names, labels, codes (Y, c), mechanism): useful symbols, or for a funnel numbered symbols of one column."""
        book, useful, used = self.records.codebook, self.records.useful[self.records.seen], matrix.any(axis=0)
        if self.asked.problem == "disclosure":
            return *_numbered(int(used.sum())), matrix[:, used]
        labels = tuple(book.rules[name].labels for name in book.useful)
        if self.asked.problem == "watchdog":
            return book.useful, labels, useful[used], matrix[:, used]
        # The bound is about all outputs: none is left out.
        return book.useful, labels, useful, matrix


def _numbered(size: int) -> tuple[tuple[str, ...], Labels, np.ndarray]:
    """Names, labels and codes of outputs that have numbers."""
    return ("released",), (tuple(map(str, range(size))),), np.arange(size)[:, None]


def _grouped(work: _Work) -> "tuple[PopulationLimit, _Rounded]":
    """The watchdog whose limit holds for the population: every symbol is released as its group."""
    counts, level = work.held_out()
    target, held_out, seen = work.asked.target, np.zeros_like(work.counts), work.records.seen
    if work.request.unseen == "suppress":  # a draw for each record that is suppressed
        drawn = np.random.default_rng(work.request.seed).multinomial(
            counts[:, ~seen].sum(axis=1), np.full(held_out.shape[1], 1 / held_out.shape[1])
        )
        held_out = counts[:, seen] + drawn
    else:
        np.add.at(held_out.T, work.records.nearest(), counts.T)
    groups = certified_groups(work.counts, held_out, target, 1 - level)
    if groups.rung == 0:
        raise NotCertifiedError(
            f"{int(held_out.sum())} held-out records cannot certify a lift of at most {target:.3g} for two groups of "
            f"symbols, whose bound is {groups.beyond:.3g}: take more records, fewer private classes or a larger target"
        )
    size = int(groups.group.max()) + 1
    table = np.zeros((len(groups.group), size), dtype=np.uint64)
    table[np.arange(len(table)), groups.group] = ONE
    limit = PopulationLimit(level, target, groups.upper, groups.rung, groups.rungs)
    return limit, _Rounded(table, *_numbered(size), target, {}, FEASIBLE)


def _certified(work: _Work) -> tuple[PopulationLimit, _Rounded]:
    """The last of the sequence before the first whose bound is above the target."""
    if work.asked.problem != "leakage-budget":
        raise InputError(
            "population is about `leakage_budget` and `target_leakage`; for other targets the audit bounds the "
            "population"
        )
    held_out, level = work.held_out()
    target, unseen = work.asked.target, work.request.unseen
    best, most = None, math.inf
    for rung in range(1, _RUNGS + 1):
        if best is not None and work.clock.expired():
            break
        work.clock.begin(f"design {rung} of {_RUNGS}")
        trial = work.design(target * rung / _RUNGS)
        mapping = work.records.of_all(trial.table, unseen) / ONE
        (bound,) = sample_bounds(held_out, mapping, (work.measure,), 1 - level, kind=SampleKind.HELD_OUT)
        if bound is None:
            raise InputError("leakage: no sound bound for a population is known for this measure")
        most = float(bound.upper[0, 0])
        if not most <= target:
            break
        best = PopulationLimit(level, target, most, rung, _RUNGS), trial
    if best is None:
        raise NotCertifiedError(
            f"{int(held_out.sum())} held-out records cannot certify any mapping but a constant one: the first "
            f"of the sequence leaks {target / _RUNGS:.3g} on the records of the design, is bounded by {upper(most, 3)} "
            f"in the population, and {target:.3g} is asked for: take more records, fewer classes or a larger budget"
        )
    return best


def _prices(problem: FunnelProblem, solution: FunnelSolution) -> dict[str, np.ndarray]:
    """Prices of all useful symbols with what they prove; nothing where the bound has another reason."""
    if solution.proof is None:
        return {}
    finite = np.isfinite(solution.prices)
    # Rare symbols that the solver left out: with so low a price no posterior that is cheap has them.
    prices = np.where(finite, solution.prices, solution.prices[finite].min(initial=0.0) - _FAR)
    return {"prices": prices, "line": np.array([min(solution.multiplier, 1.0), proved_line(problem, solution.proof)])}


def _goal(joint: np.ndarray, target: float, resolution: int) -> float:
    """A little more disclosure than asked for, where X has that much: rounding to whole numbers may cost some."""
    mass = joint.sum(axis=0)
    left = -float(mass @ np.log(mass)) - target
    return target + max(min(len(mass) * 2.0 ** (4 - resolution), left / 2), 0.0)


def _statements(records: CountedParts, learned: bool, suppressed: bool) -> tuple[str, ...]:
    """`learned`: whether classes were taken from records that were then held out."""
    statements, seen, book = [], records.seen, records.codebook
    if learned:
        statements.append(
            "The classes were taken from all records, those held out too; the mapping from those of the design."
        )
    sides = ((book.private, records.private, 1), (book.useful, records.useful, 0))
    for name, codes, axis in ((n, codes[:, k], axis) for names, codes, axis in sides for k, n in enumerate(names)):
        rule = book.rules[name]
        sentence = look_alike(name, rule.labels)
        if sentence is not None:
            statements.append(f"{sentence[0].upper()}{sentence[1:]}.")
        merged = rule.other is not None and codes == rule.labels.index(rule.other)
        share = records.design.sum(axis=axis)[merged].sum() / records.design.sum()
        if share > MOST_OTHER:
            statements.append(
                f"{percent(share, digits=3)} of the records of the design are of the class {rule.other!r} of column "
                f"{name!r}, which merges its other values: the numbers say little about these."
            )
    if not seen.all():
        how = "one that is drawn evenly" if suppressed else "the combination that differs from it in the fewest columns"
        statements.append(
            f"{int((~seen).sum())} of {len(seen)} combinations have no record in the design: each is released as {how}."
        )
    return tuple(statements)
