"""Audits on tables of records: of a design, on the records of a population, and of what a black box released."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.validation import instance, listed, mechanism_array
from jaxpriv.data.datasets import Dataset
from jaxpriv.data.datasets._layout import distinct_rows, places_of
from jaxpriv.errors import InputError
from jaxpriv.leakage import by_name
from jaxpriv.release.matching import (
    counts_by_design,
    counts_by_symbols,
    records_in_order,
    released_classes,
    released_symbols,
    releases_by_symbols,
)
from jaxpriv.release.mechanism import MADE_BY_FIT, Evidence, Mechanism
from jaxpriv.statistics.audit import MechanismAudit, audit_mechanism, conformity
from jaxpriv.statistics.tables import Categories, CountedTable, Quantiles, Rule, Source, columns_of, count_table
from jaxpriv.statistics.tables.readers import read_columns, row_text
from jaxpriv.statistics.tables.rules import unused_label
from jaxpriv.verifier.csv_text import column_names

_PRIVATE_ALPHABET = "The private alphabet is the values that occur in these records; other values have no symbol."


def count_pairs(
    source: Source,
    private: str | Sequence[str],
    released: str | Sequence[str],
    rules: Mapping[str, Rule | None] | None = None,
) -> tuple[Dataset, tuple[str, ...]]:
    """Records of private and released values as counts (S, Y), for the audit of a black box.

    Of the dataset `counts` are those of `audit_pairs`, and with `useful_attributes` those of `audit_attributes`. The
    sentences state what was chosen on these records: they are the `statements` of either audit. A table with few
    records for each symbol is counted too, because the bounds hold.

    Raises `InputError` as `count_table`, and for a column on both sides.
    """
    both = set(columns_of(private, "private")) & set(columns_of(released, "released"))
    if both:
        raise InputError(f"column {min(both)!r} is in `private` and in `released`: its values would be disclosed fully")
    data = count_table(source, private=private, useful=released, rules=rules, sparse=True).dataset
    chosen = ("Here the alphabets are the values that occur in these records; other values have no symbol.",)
    fitted = ", ".join(
        repr(name)
        for name, rule in (rules or {}).items()
        if isinstance(rule, Quantiles) or getattr(rule, "least", None) is not None
    )
    if fitted:
        chosen += (f"NOT so here: the classes of {fitted} were chosen on these records; bounds are as if given.",)
    return data, chosen


def count_releases(
    source: Source,
    private: str | Sequence[str],
    useful: str | Sequence[str],
    released: str | Sequence[str],
    *,
    released_table: Source | None = None,
    rules: Mapping[str, Rule | None] | None = None,
    order: np.ndarray | str | os.PathLike[str] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Records of private, useful and released values as counts (S, X, Y), and how many columns y changes of x (X, Y).

    They are `counts` and `distortion` of `statistics.audit.excess`, for what any tool released. A released column has
    the rule of the useful column that it stands for, if there are as many and all its values are of those classes, or
    their labels; otherwise every value of it is a class, and there are no changed columns, None.

    Args:
        source: the table of the records.
        private, useful, released: names of columns.
        released_table: the table with the columns `released`, row for row or by `order`; `source` without one.
        rules: of private and useful columns.
        order: (n,) whole numbers, the record of each row of `released_table`, or the file that `release` wrote of it.

    Raises `InputError` as `count_table`, for a column that is released under its own name in one table, for rows that
    cannot be paired, and for an `order` of one table; `IntegrityError` for the order of another released file.
    """
    names, taken = column_names(released), {*columns_of(private, "private"), *columns_of(useful, "useful")}
    same = [name for name in names if name in taken]
    if same and released_table is None:
        raise InputError(f"column {same[0]!r} is released as it is: name the column that was released in its place")
    columns = read_columns(source if released_table is None else released_table, names)
    table = count_table(source, private=private, useful=useful, rules=rules, sparse=True)
    rows, paired = len(columns[names[0]].values), records_in_order(order, released_table, len(table.useful_symbols))
    if rows != len(paired):
        raise InputError(f"released_table has {rows} rows, the table of records {len(paired)}: they go row by row")
    data, book, codes = table.dataset, table.codebook, []
    used = [book.rules[name] for name in book.useful]
    with contextlib.suppress(InputError):  # a value of no class
        if len(columns) == len(used):
            codes = [released_classes(column, rule) for rule, column in zip(used, columns.values(), strict=True)]
    alike = bool(codes)
    if not alike:
        gaps = [unused_label("missing", column.values.tolist()) for column in columns.values()]
        used = [Categories(missing=gap).fit(column) for gap, column in zip(gaps, columns.values(), strict=True)]
        codes = [rule.encode(column) for rule, column in zip(used, columns.values(), strict=True)]
    symbols, y = distinct_rows(np.stack(codes, axis=1), [len(rule.labels) for rule in used])
    # Every useful symbol may be released by the optimum, also one that this release never drew.
    before = data.useful_attributes
    if alike:
        symbols = np.concatenate([symbols, before[places_of(before, symbols) < 0]])
    counts = np.zeros((*data.counts.shape, len(symbols)), dtype=np.int64)
    np.add.at(counts, (table.private_symbols[paired], table.useful_symbols[paired], y), 1)
    return counts, (before[:, None] != symbols[None]).sum(axis=2).astype(float) if alike else None


def audit_design(
    source: Source,
    design: Mechanism,
    *,
    releases: Source | np.ndarray | None = None,
    order: np.ndarray | str | os.PathLike[str] | None = None,
    again: Sequence[Mechanism] = (),
    certificate: Evidence | None = None,
    seed: int = 0,
    **options: object,
) -> MechanismAudit:
    """Audit a design on a table of records of its population: `jaxpriv.statistics.audit.audit_mechanism` of its draws.

    Args:
        source: records with the private and useful columns of the design.
        design: the mechanism; of one that looks at earlier draws what receivers of all of them have is audited.
        releases: what it released of these records: the table, or counts (X, Y). Adds `conformity`, of a table without
            the records that the design suppresses.
        order: the record of each row of that table, int64 (n,): `Released.order`, or the file of it that `jaxpriv
            release` wrote, where releases are a file too; by default row for row.
        again: further designs with the same useful symbols, whose draws for the same records are independent of it
            given these: what all of them disclose together is audited.
        certificate: the private part of the design: its certified gap is computed again from counts and dual scores.
        seed: of resamples, and of the simulation of releases.
        options: `confidence`, `held_out`, `solution`, `objective`, `orders`, `measures` and `bootstrap` of
            `audit_mechanism`. Without `measures` that of the design is bounded beside those of a report.

    Raises:
        InputError: as `audit_mechanism`; records that the design has no class or symbol for; an order without a table,
            or that does not name records, none twice; further designs of other symbols, or that look at earlier draws
            themselves, or records that one of the designs suppresses; a certificate of another design, of the least
            distortion, or without a gap.
    """
    instance(design, "design", Mechanism, hint=MADE_BY_FIT)
    again = listed(again, "again")
    draws = [_draws(draw, design, k) for k, draw in enumerate(again)]
    if again and any(draw.unseen == "suppress" for draw in (design, *again)):
        unknown = np.flatnonzero(design.unknown(design.codebook.encode_useful(source)))
        if unknown.size:
            raise InputError(
                f"again: {row_text(unknown[0])} has no symbol (such rows: {unknown.size}), and a design suppresses it "
                "by a symbol of its own release: the draws for it are not those of one symbol; leave these rows out"
            )
    records = counts_by_design(source, design)
    statements = [_PRIVATE_ALPHABET]
    if design.earlier is not None:
        statements.append("The outputs are the draw of the design and those of the earlier designs that it looks at.")
    arguments: dict[str, Any] = {"counts": records.counts, "statements": statements, "seed": seed}
    if options.get("measures") is None:
        options["measures"] = design.asked.audited
    if certificate is not None:
        arguments |= {"gap": _certified(certificate, design), "objective": by_name(**vars(design.asked.measure))}
    ordered = records.ordered(order, releases)
    # What is given twice is an error of the call.
    audit = audit_mechanism(
        design.all_drawn(),
        again=draws,
        **arguments,
        **cast("dict[str, Any]", options),
    )
    if releases is None:
        return audit
    if not isinstance(releases, np.ndarray):
        releases = ordered.released_as(released_symbols(design, releases), len(design.released))
    tested = conformity(releases, design.matrix(), seed=seed)
    if design.released_columns != design.codebook.useful:
        # What is released is no useful symbol: nothing is "unchanged".
        tested = replace(tested, unchanged=None, detectable=None)
    return replace(audit, conformity=tested)


def audit_mapping(
    mechanism: ArrayLike,
    attributes: np.ndarray,
    *,
    counts: CountedTable | None = None,
    joint: CountedTable | None = None,
    releases: Source | np.ndarray | None = None,
    released: str | Sequence[str] | None = None,
    order: np.ndarray | str | os.PathLike[str] | None = None,
    **options: object,
) -> MechanismAudit:
    """Audit a mapping of useful symbols on a table: `jaxpriv.statistics.audit.audit_mechanism` of its counts.

    Args:
        mechanism: P(y|x), (X, Y), rows sum to one.
        attributes: (X, b) whole numbers, the classes of each useful symbol: `useful_attributes` of the dataset, or
            `attributes` in the file of `jaxpriv solve`.
        counts: the table (`count_table`), with the columns and classes that the attributes belong to; or
        joint: the same, whose joint, of weighted records too, is taken as it is: no bounds for a population.
        releases: what the mapping released of these records: counts (X, Y), or the table, if the outputs of the mapping
            are its useful symbols. Adds `conformity`.
        released: the columns of that table, by default those that are useful.
        order: the record of each row of that table, as for `audit_design`.
        options: those of `audit_mechanism`.

    Raises:
        InputError: as `audit_mechanism`; both or neither of counts and joint; counts of weighted records; records that
            are no symbol of the mapping; released values of no class; columns or an order of releases without a table.
    """
    if (counts is None) == (joint is None):
        raise InputError("give either counts or joint")
    name, table = ("counts", counts) if joint is None else ("joint", joint)
    assert table is not None
    records = counts_by_symbols(table, attributes, name)
    ordered = records.ordered(order, releases)
    if releases is not None and not isinstance(releases, np.ndarray):
        if mechanism_array(mechanism).shape != (len(attributes),) * 2:
            raise InputError("releases: a table needs a mapping whose outputs are its useful symbols")
        releases = releases_by_symbols(releases, released, ordered, table.codebook, attributes)
    elif released is not None:
        raise InputError("released: it is about a table in releases")
    arguments: dict[str, Any] = {name: records.counts, "releases": releases, "statements": (_PRIVATE_ALPHABET,)}
    return audit_mechanism(mechanism, **arguments, **cast("dict[str, Any]", options))


def _draws(second: Mechanism, design: Mechanism, place: int) -> np.ndarray:
    """P(y|x) of a further design, on the symbols of the first."""
    instance(second, f"again[{place}]", Mechanism, hint=MADE_BY_FIT)
    first, other = ((file.codebook.fingerprint.tolist(), file.useful.tolist()) for file in (design, second))
    if first != other:
        raise InputError(f"again[{place}] has other useful columns, classes or symbols than the design")
    if second.earlier is not None:
        raise InputError(f"again[{place}] looks at earlier draws, so its own is not independent of them")
    return second.matrix()


def _certified(certificate: Evidence, design: Mechanism) -> float:
    """The gap of a design from the counts and dual scores of its private part."""
    instance(certificate, "certificate", Evidence)
    if certificate.commitment() != design.commitment:
        raise InputError("certificate belongs to another design")
    claim = certificate.claims(design).get("gap")
    if claim is None or claim.upper is None:
        raise InputError("certificate: it holds none: of other measures and problems there is none")
    if design.asked.problem not in ("budget", "disclosure"):
        raise InputError("certificate: this design has the least distortion: its gap is not about leakage")
    return claim.most
