"""Which designs a table allows: from "almost as it is" to "reveals nothing", beside hiding whole columns."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.module import Shown, summary
from jaxpriv._runtime.module.shown import sizes
from jaxpriv._runtime.validation import whole
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, by_name, evaluate
from jaxpriv.models.baselines import hiding
from jaxpriv.problems import DistortionProblem
from jaxpriv.release.counting import MOST_SYMBOLS, CountedParts, read_parts
from jaxpriv.release.mechanism import correct_guess
from jaxpriv.release.obstacles import Obstacle, remove_obstacles
from jaxpriv.release.requests import MeasureRequest, requested
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import Request
from jaxpriv.solving.frontier import Frontier, frontier_within
from jaxpriv.solving.solve import solve_within
from jaxpriv.statistics.audit import SampleKind, sample_bounds
from jaxpriv.statistics.tables import Source
from jaxpriv.statistics.tables.rules import column_distortion
from jaxpriv.verifier.claims import Measure, measure_label
from jaxpriv.verifier.logarithms import lower, percent, upper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Budgets of the designs, as shares of the least distortion at which the release is independent of S; at 1 exactly no
# point is in the interior, and certificates take longer.
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.55, 0.8, 1.01)
# Useful columns whose every combination is hidden for comparison; of more columns each one alone.
_FEW = 4


@dataclass(frozen=True)
class Advised:
    """One possible design, on the records of the design.

    Attributes:
        budget: the mean distortion that it may spend: the argument of `fit`.
        distortion: what it spends.
        changed: for each useful column the share of the records in which it is changed.
        leakage, lower_bound: of the optimal mapping to the combinations that the records of the design have: attained,
            and the least that is possible (units of the measure).
        gap: leakage - lower_bound.
        correct_guess: the chance that the best guess of the private class from the release is right.
        population: bound on the leakage in the population, from the held-out records; None where there are none, and
            for a measure without one. All bounds of an `Advice` hold together with its confidence, so a design may be
            chosen by them. The audit of `fit` on the same records does not know of the choice: its bounds have their
            confidence for a design that was chosen without `population`.
        status: of the solution.
    """

    budget: float
    distortion: float
    changed: Mapping[str, float]
    leakage: float
    lower_bound: float
    gap: float
    correct_guess: float
    population: float | None
    status: str

    @property
    def mean_changes(self) -> float:
        """The mean number of useful columns that are changed in a record."""
        return sum(self.changed.values())


@dataclass(frozen=True)
class Hidden:
    """Whole columns hidden instead (`jaxpriv.baselines.hiding`), beside the optimum that spends as much.

    Attributes:
        columns: those that are hidden; none for the table as it is.
        distortion, leakage, correct_guess: as for `Advised`.
        optimum: (lower, upper): what is proved about the least leakage at this distortion.
    """

    columns: tuple[str, ...]
    distortion: float
    leakage: float
    correct_guess: float
    optimum: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Advice(Shown):
    """What `advise` found; it prints as a line for each design.

    Attributes:
        designs: from the least change to the release that reveals nothing.
        hidden: releases that hide whole columns, by what they leak.
        obstacles: columns that needed another rule than the one given.
        arguments: of `fit`, but for the source and the target: columns, rules (those of the obstacles too), and the
            measure, costs, split and seed.
        frontier: the designs as solutions over the useful symbols that the records of the design have.
        records: of the design, and held out.
        private, useful: how many symbols each has.
        correct_guess: the chance that the best guess of the private class is right without a release.
        confidence: of all bounds for the population together.
    """

    designs: tuple[Advised, ...]
    hidden: tuple[Hidden, ...]
    obstacles: tuple[Obstacle, ...]
    arguments: Mapping[str, object]
    frontier: Frontier
    records: tuple[int, int]
    private: int
    useful: int
    correct_guess: float
    confidence: float

    __repr__ = summary

    def _shown(self) -> dict[str, str]:
        unit = self.frontier.problem.leakage.unit
        asked: Any = self.arguments
        measure = Measure(asked["leakage"], *(asked[name] for name in ("form", "order", "divergence", "gamma")))
        rows = {"measure": measure_label(measure), "alphabets": sizes(S=self.private, X=self.useful)}
        if self.obstacles:
            rows["other classes than given"] = ", ".join(obstacle.column for obstacle in self.obstacles)
        rows["guess right without a release"] = percent(self.correct_guess)
        for design in self.designs:
            text = f"{lower(max(design.lower_bound, 0.0))} to {upper(design.leakage)} {unit}, guess right at most "
            text += percent(design.correct_guess, up=True)
            if design.population is not None:
                text += f", population at most {upper(design.population, digits=4)} {unit}"
            rows[f"budget {design.budget:.4g}"] = text
        if any(design.population is not None for design in self.designs):
            rows["confidence"] = f"{self.confidence:g}, for the population, all designs together"
        return rows

    @property
    def record(self) -> dict[str, Any]:
        """What was found in terms of JSON, without the curve and the classes; leakages in `units`."""
        return {
            "records": dict(zip(("design", "held_out"), self.records, strict=True)),
            "alphabets": {"private": self.private, "useful": self.useful},
            "correct_guess": self.correct_guess,
            "confidence": self.confidence,
            "hidden": [asdict(hidden) for hidden in self.hidden],
            "obstacles": [{"column": obstacle.column, "sentence": obstacle.sentence} for obstacle in self.obstacles],
            "designs": [{**asdict(design), "mean_changes": design.mean_changes} for design in self.designs],
            "units": self.frontier.problem.leakage.unit,
        }

    def plot(self, **options: Any) -> "Figure":  # noqa: ANN401 (the options of that function)
        """`jaxpriv.plotting.plot_frontier` of the designs, beside what the table leaks as it is and with one column
        hidden instead.
        """
        others = [
            (hidden.distortion, hidden.leakage, "".join(hidden.columns) or "as it is")
            for hidden in self.hidden
            if len(hidden.columns) < 2
        ]
        free = self.designs[-1].budget / _SHARES[-1]
        return self.frontier.plot(others=others, others_label="a column hidden instead", free=free, **options)


@dataclass(frozen=True, kw_only=True, eq=False)
class AdviseRequest(MeasureRequest):
    """What `advise` is asked for: its arguments."""

    symbols: int = 128

    @property
    def measure(self) -> AbstractLeakage:
        """The leakage measure."""
        return by_name(self.leakage, **self.parameters)

    @property
    def arguments(self) -> dict[str, object]:
        """Those of `fit`, but for the target: columns or a codebook, the measure, costs and split."""
        names = [f.name for f in fields(MeasureRequest) if f.name not in ("time_limit", "progress")]
        left_out = ("codebook",) if self.codebook is None else ("private", "useful", "rules", "shared")
        return {name: getattr(self, name) for name in names if name not in left_out}


@requested(AdviseRequest)
def advise(source: Source, request: AdviseRequest) -> Advice:
    """Designs for a table at eight budgets, for a curator who has not chosen one.

    The budgets are shares of the least mean distortion at which the release is independent of the private columns. At
    each: the certified least leakage, what is changed, how often a guess is right, and a bound for the population.

    A column that keeps the table from having a design (real numbers without a rule, empty cells, more combinations of
    classes than the records allow) gets a rule, which `obstacles` states and `arguments` holds. With a codebook it is
    an `InputError` instead.

        advice = advise("people.csv", private="income", useful=["age", "education"])
        fitted = fit("people.csv", **advice.arguments, budget=advice.designs[3].budget)

    The mappings are those of the solver: `fit` rounds one to whole numbers and computes every number again. Arguments
    and errors are those of `fit`; a time limit leaves designs without a certificate to `tol`, with their gaps.
    `symbols`: the most combinations of useful classes, and of private ones, at most 4,096; for more than about 150 the
    designs take minutes.
    """
    with request.started() as clock:
        return advise_within(source, request, clock)


def advise_within(source: Source, request: AdviseRequest, clock: Clock) -> Advice:
    """`advise` as a part of other work, which has a clock of its own and handles Ctrl-C."""
    most = min(whole(request.symbols, "symbols", low=2.0), MOST_SYMBOLS)
    beta = 1 - failure(request.confidence, "confidence")
    clock.begin("reading the records")
    parts = read_parts(source, request)
    obstacles: tuple[Obstacle, ...] = ()
    if request.codebook is None:
        clock.begin("choosing classes")
        obstacles = remove_obstacles(parts, most)
        request = replace(
            request, rules={**(request.rules or {}), **{obstacle.column: obstacle.rule for obstacle in obstacles}}
        )
    records = replace(parts, request=request).counted()
    seen = records.seen
    joint = records.design[:, seen] / records.design.sum()
    costs = column_distortion(records.codebook, records.useful[seen], kinds=request.distortion, weights=request.weights)

    clock.begin("the least change that reveals nothing")
    independent = DistortionProblem(joint, costs, leakage_budget=0.0)
    free = float(solve_within(independent, Request(clock, Goal(request.tol, 0.0))).value)
    if not free > 0:
        raise InputError("the useful columns are independent of the private ones in these records: nothing is to hide")
    clock.begin(f"{len(_SHARES)} designs")
    problem = DistortionProblem(joint, costs, leakage=request.measure, budget=free)
    how = Request(clock, Goal(request.tol, 0.0), throw=False)
    curve = frontier_within(problem, {"budget": free * np.array(_SHARES)}, how)
    clock.begin("bounds for the population")
    designs = tuple(_advised(curve, records, joint, k, beta, clock) for k in range(len(curve)))
    return Advice(
        designs=designs,
        hidden=_hidden(curve, records, joint, costs),
        obstacles=obstacles,
        arguments=request.arguments,
        frontier=curve,
        records=(int(records.design.sum()), 0 if records.held_out is None else int(records.held_out.sum())),
        private=len(records.private),
        useful=len(records.useful),
        correct_guess=float(joint.sum(axis=1).max()),
        confidence=request.confidence,
    )


def _advised(
    curve: Frontier, records: CountedParts, joint: np.ndarray, place: int, beta: float, clock: Clock
) -> Advised:
    point, prior, population = curve[place], joint.sum(axis=0), None
    mapping, codes = np.asarray(point.mechanism), records.useful[records.seen]
    if records.held_out is not None and not clock.expired():
        whole_mapping = mapping[records.nearest()]
        share = beta / len(curve)
        measures = (curve.problem.leakage,)
        (bound,) = sample_bounds(records.held_out, whole_mapping, measures, share, kind=SampleKind.HELD_OUT)
        population = None if bound is None else float(bound.upper[0, 0])
    return Advised(
        budget=float(curve.targets[place]),
        distortion=float(curve.distortion[place, 0]),
        changed={
            name: float(prior @ (mapping * (codes[:, None, column] != codes[None, :, column])).sum(axis=1))
            for column, name in enumerate(records.codebook.useful)
        },
        leakage=float(point.leakage),
        lower_bound=float(point.lower_bound),
        gap=float(point.gap),
        correct_guess=correct_guess(joint, mapping),
        population=population,
        status=str(point.status),
    )


def _hidden(curve: Frontier, records: CountedParts, joint: np.ndarray, costs: np.ndarray) -> tuple[Hidden, ...]:
    count = len(records.codebook.useful)
    sizes = range(count + 1) if count <= _FEW else (0, 1, count)
    results = []
    names, codes = records.codebook.useful, records.useful[records.seen]
    for hidden, mapping, spent, leaked in hidings(names, codes, joint, costs, curve.problem.leakage, sizes):
        low, high = (float(end[0]) for end in curve.band(spent))
        results.append(Hidden(hidden, spent, leaked, correct_guess(joint, mapping), (low, min(high, leaked))))
    return tuple(sorted(results, key=lambda result: -result.leakage))


def hidings(
    names: Sequence[str],
    codes: np.ndarray,
    joint: np.ndarray,
    costs: np.ndarray,
    measure: AbstractLeakage,
    sizes: Iterable[int],
) -> Iterator[tuple[tuple[str, ...], np.ndarray, float, float]]:
    """What one would do without a design: hide so many columns, as (their names, the mapping, E d, the leakage).

    A hidden column is filled with the value that changes least, given the columns that are kept. `codes` (X, b).
    """
    prior = joint.sum(axis=0)
    for columns in itertools.chain.from_iterable(itertools.combinations(range(len(names)), size) for size in sizes):
        mapping = hiding(codes, prior, columns, costs)
        spent, leaked = (prior[:, None] * costs * mapping).sum(), evaluate(measure, joint, mapping).value
        yield tuple(names[column] for column in columns), mapping, float(spent), float(leaked)
