"""Which of several finished designs of one table to take: what each of them loses and leaks, and which is safer."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import instance
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, BlackwellOrder, blackwell_order, by_name
from jaxpriv.release.grouped import check_evidence
from jaxpriv.release.mechanism import MADE_BY_FIT, Asked, Evidence, Mechanism
from jaxpriv.release.report.comparison import expected
from jaxpriv.release.table import as_table
from jaxpriv.statistics.audit import SampleKind, sample_bounds
from jaxpriv.verifier.claims import Claim, Counted, Measure
from jaxpriv.verifier.logarithms import lower, upper

# Mean gains in [0, 1] that differ by less are called equal: designs are optimal up to the tolerance of a solver.
_EQUAL = 1e-6
# Pairs of outputs up to which the linear program of the Blackwell order takes seconds.
_PAIRS = 2**14
_GAINS = " (of gains between 0 and 1 for each guess and private class, on these records)"
# Of an order, what JSON holds: no garbling, which has a number for each pair of outputs.
_KEYS = ("distance", "advantage", "gains")
# The rounding of a sum of probabilities.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ComparedDesign:
    """One of several designs, on the records that all of them were made on.

    Attributes:
        asked: what it was designed for.
        claims: its exact numbers and its bounds on these records, as of `Evidence.claims`.
        leakages: its leakage by the measure of each of the designs, in exact arithmetic; None for a measure that the
            verifier does not compute.
        correct_guess: the chance that the best guess of the private class from the release is right.
        population: the most that it leaks in the population, by the same measures; None without held-out records, and
            for a measure without a bound. The bounds of all designs hold together.
        changed: for each useful column the share of the records whose class is changed; none where the design releases
            other symbols.
        unmoved: the share of the records that keep the classes of all useful columns; None there.
    """

    asked: Asked
    claims: Mapping[str, Claim]
    leakages: Mapping[str, Claim | None]
    correct_guess: Claim
    population: Mapping[str, float | None]
    changed: Mapping[str, float]
    unmoved: float | None

    __repr__ = summary


@dataclass(frozen=True, eq=False)
class DesignComparison:
    """What `compare_designs` found.

    Attributes:
        designs: each by its name.
        orders: of every two of them which is safer for every average measure, gains in [0, 1] that differ by at most
            1e-6 being equal; None for two with more than 16,384 pairs of outputs.
        units: of `population`, by measure.
        guesses: how often the best guess of the private class is right on these records, `without` a release and with
            the useful columns `unchanged`.
        records: how many records the designs were made on.
        confidence: of all bounds for the population together.
    """

    designs: Mapping[str, ComparedDesign]
    orders: Mapping[tuple[str, str], BlackwellOrder | None]
    units: Mapping[str, str]
    guesses: Mapping[str, float]
    records: int
    confidence: float

    __repr__ = summary

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What the order of every two designs means, in words."""
        return tuple(_verdict(*names, order) for names, order in self.orders.items())

    @property
    def record(self) -> dict[str, Any]:
        """All of it but the garblings, the orders as a list."""
        orders = [
            {"designs": names, "safer": order and order.safer, "verdict": verdict}
            | {
                side: order and {key: getattr(getattr(order, side), key) for key in _KEYS}
                for side in ("first", "second")
            }
            for (names, order), verdict in zip(self.orders.items(), self.verdicts, strict=True)
        ]
        return {**vars(self), "orders": orders}


def compare_designs(designs: Mapping[str, tuple[Mechanism, Evidence]], *, confidence: float = 0.95) -> DesignComparison:
    """Compare finished designs of one table, each with its evidence, by the names that they are given.

    All numbers are about the records that the designs were made on, but `population`, which is about the held-out ones.

    Raises `InputError` for fewer than two designs, designs of other private or useful columns, classes or records, and
    one that looks at earlier draws; `IntegrityError` for the evidence of another design.
    """
    level = failure(confidence, "confidence")
    if len(designs) < 2:
        raise InputError("designs: name two or more")
    first, (_, evidence) = next(iter(designs.items()))
    for name, (mechanism, proof) in designs.items():
        instance(mechanism, name, Mechanism, hint=MADE_BY_FIT)
        check_evidence(proof, mechanism)
        if mechanism.earlier is not None:
            raise InputError(f"{name} looks at the draws of an earlier design, which readers may have too: use audit")
        _need_alike(first, designs[first], name, (mechanism, proof))
    seen = evidence.counts.any(axis=0)
    joint = evidence.counts[:, seen] / evidence.counts.sum()
    measures = {
        by_name(**vars(asked)): asked for mechanism, _ in designs.values() for asked in [mechanism.asked.measure]
    }
    share = (1 - level) / len(designs)
    mappings = {name: mechanism.matrix()[seen] for name, (mechanism, _) in designs.items()}
    mappings = {name: mapping[:, mapping.any(axis=0)] for name, mapping in mappings.items()}
    return DesignComparison(
        {name: _compared(*design, measures, share) for name, design in designs.items()},
        {
            names: blackwell_order(joint, *pair, tol=_EQUAL) if pair[0].shape[1] * pair[1].shape[1] <= _PAIRS else None
            for names, pair in zip(combinations(mappings, 2), combinations(mappings.values(), 2), strict=True)
        },
        {measure.label: measure.unit for measure in measures},
        {name: right for name, right in evidence.guesses(designs[first][0]).items() if name != "with"},
        int(evidence.counts.sum()),
        confidence,
    )


def _need_alike(first: str, model: tuple[Mechanism, Evidence], name: str, design: tuple[Mechanism, Evidence]) -> None:
    """Refuse a design that is about other columns, classes or records than the first one."""
    books = model[0].codebook, design[0].codebook
    for side in ("private", "useful"):
        theirs, its = (getattr(book, side) for book in books)
        if theirs != its:
            raise InputError(f"{name} has the {side} columns {', '.join(its)}, {first} has {', '.join(theirs)}")
    classes = [
        {
            **dict(zip(book.private, evidence.private_labels, strict=True)),
            **{column: book.rules[column].labels for column in book.useful},
        }
        for book, (_, evidence) in zip(books, (model, design), strict=True)
    ]
    for column, labels in classes[0].items():
        if classes[1][column] != labels:
            raise InputError(f"column {column!r} has other classes in {name} than in {first}")
    alike = np.array_equal(model[0].useful, design[0].useful)
    if not (alike and np.array_equal(model[1].counts, design[1].counts)):
        raise InputError(
            f"{name} was made on other records than {first}: fit both to one table with one split and seed"
        )


def _compared(
    mechanism: Mechanism, evidence: Evidence, measures: Mapping[AbstractLeakage, Measure], share: float
) -> ComparedDesign:
    counted = Counted.of(as_table(evidence.counts), mechanism.drawn, "counts")
    guess = counted.leakage("correct-guess")
    assert guess is not None
    bounds = [None] * len(measures)
    if evidence.held_out is not None:
        bounds = sample_bounds(evidence.held_out, mechanism.matrix(), tuple(measures), share, kind=SampleKind.HELD_OUT)
    changed, unmoved = {}, None
    if mechanism.released_columns == mechanism.codebook.useful:
        changed = {column.name: float(column.changed or 0) for column in expected(mechanism, evidence).columns}
        same = (mechanism.useful[:, None] == mechanism.released).all(axis=2)
        prior = evidence.counts.sum(axis=0)
        unmoved = float(prior @ (mechanism.matrix() * same).sum(axis=1) / prior.sum())
    return ComparedDesign(
        mechanism.asked,
        evidence.claims(mechanism),
        {measure.label: counted.leakage(named) for measure, named in measures.items()},
        guess,
        {
            measure.label: None if bound is None else float(bound.upper[0, 0])
            for measure, bound in zip(measures, bounds, strict=True)
        },
        changed,
        unmoved,
    )


def _verdict(first: str, second: str, order: BlackwellOrder | None) -> str:
    """Which of two designs is safer, with what proves it: a bound on every gain, and a gain that is larger."""
    if order is None:
        return (
            f"Which of {first} and {second} is safer for every average measure was not computed: the linear program "
            f"that decides it takes too long for more than {_PAIRS:,} pairs of an output of one and an output of the "
            "other."
        )
    # The distance to a garbling bounds twice the difference of every gain between 0 and 1.
    most = {first: order.first.distance / 2 + _ROUNDING, second: order.second.distance / 2 + _ROUNDING}
    if order.safer == "equivalent":
        largest = upper(max(most.values()), 2)
        return f"{first} and {second} reveal the same: no mean gain differs by more than {largest}{_GAINS}."
    more = {first: lower(order.first.advantage, 2), second: lower(order.second.advantage, 2)}
    if order.safer == "incomparable":
        return (
            f"Neither of {first} and {second} is safer for every average measure: one mean gain is larger by "
            f"{more[first]} from {first}, another one by {more[second]} from {second}{_GAINS}."
        )
    safer, other = (first, second) if order.safer == "first" else (second, first)
    return (
        f"{safer} is safer than {other} for every average measure, up to a difference of {upper(most[safer], 2)} in a "
        f"mean gain; one mean gain is larger by {more[other]} from {other}{_GAINS}."
    )
