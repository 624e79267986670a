"""`jaxpriv audit`: bounds for the population from a sample, beside what needs no sample."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._audit_text import attributes_text, mechanism_text, pairs_text
from jaxpriv.cli._options import given_of
from jaxpriv.cli._output import JsonRecord, Units, refuse
from jaxpriv.cli._tables import SYMBOLS, ColumnOptions, counts_by_attributes, is_table, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, JaxprivError

if TYPE_CHECKING:
    from jaxpriv.statistics.audit import MechanismAudit

# A solution written by `jaxpriv solve --json` has a few hundred bytes.
_LARGEST_JSON = 2**24


@dataclass(frozen=True)
class BoundOptions:
    """What is bounded of a sample, and how."""

    measures: list[str] | None = None
    order: list[float] | None = None
    bootstrap: int = 200
    confidence: float = 0.95
    seed: int = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of an audit."""
        given = given_of(self)
        return {"orders": given.pop("order", []), **given}


@dataclass(frozen=True)
class PairsOptions:
    """What is asked of the records of a black box."""

    subsets: int | None = None
    optimum: float | None = None
    show_values: bool = False
    permutations: int = 9999


@dataclass(frozen=True)
class KnownOptions:
    """What goes with a mechanism that is known: what it released, how good it is, and further draws."""

    releases: Path | None = None
    row_order: Path | None = None
    held_out: bool = False
    solution: Path | None = None
    certificate: Path | None = None
    again: list[Path] | None = None
    objective: str | None = None


def audit(
    *,
    mechanism: Path | None = None,
    counts: Path | None = None,
    joint: Path | None = None,
    pairs: Path | None = None,
    columns: ColumnOptions,
    released: list[str] | None = None,
    asked: PairsOptions,
    known: KnownOptions,
    bounds: BoundOptions,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Audit a mapping on a sample of its population, or an unknown mechanism on records of its releases.

    For each measure: the value on the sample, the certified gap to the optimum, an upper bound for the
    population (all together with the confidence), and a cap that needs no data. They are different things; so
    are, for a black box, upper bounds, lower bounds, estimates and tests. The assumptions are always printed.
    """
    sample = _output.only_one({"counts": counts, "joint": joint, "pairs": pairs})
    if (mechanism is None) != (pairs is not None):
        raise InputError("--pairs goes without MECH.npz, --counts and --joint need it")
    if asked.subsets is None:
        refuse("is about --subsets", optimum=asked.optimum)
    if pairs is not None:
        book = {"useful": columns.useful, "shared": columns.shared, "codebook": columns.codebook}
        refuse("is about a mapping, not about --pairs", **book, **vars(known))
        record, text = working("Auditing", lambda _: _of_pairs(pairs, columns, released, asked, bounds, units))
        return _output.deliver(record, json, text, private=True)
    records = joint if counts is None else counts
    assert mechanism is not None
    assert records is not None
    refuse("is about --pairs", show_values=asked.show_values)
    refuse("is about a table in --pairs", subsets=asked.subsets)
    with_table, released_table = (path is not None and is_table(path) for path in (records, known.releases))
    if not with_table:
        refuse("is about a table in --counts or --joint", **vars(columns))
    if not released_table:
        refuse("is about --pairs, or about a table in --releases", released=released)
        refuse("is about a table in --releases", row_order=known.row_order)
    elif not with_table:
        raise InputError("a table in --releases goes with a table of its records, row for row, in --counts or --joint")
    if known.releases is not None or known.solution is not None or known.certificate is not None:
        refuse("is about a mapping, and goes without --releases, --solution and --certificate", again=known.again)
    if known.solution is None:
        refuse("is about --solution", objective=known.objective)
    design = mechanism.suffix.lower() == ".zip"
    if known.solution is not None or not design:
        refuse("is about a design, DESIGN.zip, and goes without --solution", certificate=known.certificate)
    if sample == "joint":
        refuse("is about --counts", held_out=known.held_out)
    if not design:
        call = _of_arrays(mechanism, sample, records, columns, released, known)
    elif sample == "joint" or not with_table:
        raise InputError("a design is audited on a table of records in --counts")
    else:
        call = _of_design(mechanism, records, columns, released, known)
    given = {**bounds.arguments, "held_out": known.held_out, **_stated(known.solution, known.objective)}
    found = working("Auditing", lambda _: call(**given))
    return _output.deliver(_record("mechanism", found), json, mechanism_text(found, units), private=True)


def _of_pairs(
    path: Path,
    columns: ColumnOptions,
    released: list[str] | None,
    asked: PairsOptions,
    bounds: BoundOptions,
    units: Units,
) -> tuple[JsonRecord, str]:
    """The record and the text about a black box: records, or counts, of private and released values."""
    from jaxpriv._runtime.files import load_npz_safely

    private, labels = columns.private, None
    if not is_table(path) or bounds.measures or bounds.order:
        refuse("is about a table in --pairs, and goes without --measures and --order", subsets=asked.subsets)
    if path.suffix.lower() == ".npz":
        classes = {"bins": columns.bins, "other": columns.other, "missing": columns.missing}
        refuse("is about tables of records, not about .npz", private=private, released=released, **classes)
        counts, given = load_npz_safely(path, ["counts"])["counts"], bounds.arguments
    elif not private or not released:
        raise InputError("--pairs needs --private and --released: the names of columns")
    else:
        rules = columns.rules([*private, *released])
        data, chosen = jp.release.count_pairs(table_file(path, columns.read), private, released, rules)
        counts, labels = data.counts, {"private": data.private_labels, "released": data.useful_labels}
        if asked.subsets is not None:
            given = {"confidence": bounds.confidence, "seed": bounds.seed, "optimum": asked.optimum}
            every = jp.statistics.audit.audit_attributes(
                counts, data.useful_attributes, most=asked.subsets, statements=chosen, **given
            )
            names = [[released[column] for column in row.columns] for row in every.rows]
            rows = [{**_output.record_of(row), "columns": own} for row, own in zip(every.rows, names, strict=True)]
            return {"kind": "attributes", **_output.record_of(every), "rows": rows}, attributes_text(every, names)
        given = {**bounds.arguments, "statements": chosen}
    found = jp.statistics.audit.audit_pairs(counts, permutations=asked.permutations, **given)
    return _record("pairs", found, **({"labels": labels} if asked.show_values else {})), pairs_text(found, units)


def _of_design(
    path: Path, table: Path, columns: ColumnOptions, released: list[str] | None, known: KnownOptions
) -> "Callable[..., MechanismAudit]":
    """The call of `audit_design`: of DESIGN.zip, on a table of records."""
    from jaxpriv.release.matching import records_of_rows
    from jaxpriv.statistics.tables.readers import read_columns

    if released or [name for name in columns.given if name != "--read"]:
        raise InputError("a design has its own columns and classes: leave out --codebook and the names of columns")
    design = jp.Mechanism.load(path)
    source = read_columns(table_file(table, columns.read), list(design.codebook.columns))
    order = None
    if known.row_order is not None and known.releases is not None:
        size = len(next(iter(source.values())).values)
        order = records_of_rows(known.row_order, known.releases, size)
    certificate = None if known.certificate is None else jp.release.Evidence.load(known.certificate, design)
    again = [jp.Mechanism.load(one) for one in known.again or ()]
    return partial(
        jp.release.audit_design,
        source,
        design,
        releases=_releases(known, table, columns),
        order=order,
        again=again,
        certificate=certificate,
    )


def _of_arrays(
    path: Path, sample: str, records: Path, columns: ColumnOptions, released: list[str] | None, known: KnownOptions
) -> "Callable[..., MechanismAudit]":
    """The call of `audit_mechanism`: of MECH.npz, on a table of records or on arrays."""
    from jaxpriv._runtime.files import load_npz_safely
    from jaxpriv._runtime.validation import mechanism_array
    from jaxpriv.release.auditing import PRIVATE_ALPHABET, drawn_together
    from jaxpriv.release.matching import releases_by_symbols

    stored = load_npz_safely(path, ["mechanism", *(SYMBOLS if is_table(records) else ())])
    channel, releases, chosen = stored["mechanism"], _releases(known, records, columns), ()
    if is_table(records):
        table, book = counts_by_attributes(records, columns, stored["attributes"], stored["classes"], sample)
        data, chosen = (
            {sample: table.counts if sample == "counts" else table.counts / table.counts.sum()},
            (PRIVATE_ALPHABET,),
        )
        if known.releases is not None and is_table(known.releases):
            if channel.shape != (len(stored["attributes"]),) * 2:
                raise InputError("a table in --releases needs a mapping whose outputs are its useful symbols")
            ordered = table.ordered(known.row_order, known.releases)
            releases = releases_by_symbols(releases, released, ordered, book, stored["attributes"])
    else:
        data = load_npz_safely(records, [sample], ["possible"] if sample == "counts" else ())
    others = [load_npz_safely(one, ["mechanism"])["mechanism"] for one in known.again or ()]
    others = [mechanism_array(one, "again", inputs=len(channel)) for one in others]
    channel, together = drawn_together(channel, others)
    audit_mechanism = jp.statistics.audit.audit_mechanism
    return partial(audit_mechanism, channel, **data, releases=releases, statements=(*chosen, *together))


def _releases(known: KnownOptions, records: Path, columns: ColumnOptions) -> Any:  # noqa: ANN401 (a table or an array)
    """The released table, or counts (X, Y) of released pairs."""
    from jaxpriv._runtime.files import load_npz_safely

    if known.releases is None:
        return None
    if not is_table(known.releases):
        return load_npz_safely(known.releases, ["counts"])["counts"]
    # A table of its own is as `jaxpriv release` writes it.
    return table_file(known.releases, columns.read if known.releases == records else None)


def _record(kind: str, found: object, **more: object) -> JsonRecord:
    record = _output.record_of(found)
    return {"kind": kind, "units": "nats", "measures": record.pop("rows"), **record, **more}


def _stated(path: Path | None, objective: str | None) -> dict[str, Any]:
    """Value, leakage and gap of a JSON file of `jaxpriv solve`, and the measure that it is about."""
    from jaxpriv.verifier.archive import read_file, strict

    if path is None:
        return {}
    try:
        measure = jp.leakage.by_name(**jp.leakage.parameters_of(objective or "mutual-information"))
    except InputError as error:
        raise InputError(f"--objective: {error}") from error
    try:
        record: Any = strict(read_file(path, _LARGEST_JSON), str(path), plain=False)
    except JaxprivError as error:
        raise type(error)(f"--solution: {error}") from error
    parts = ("value", "leakage", "gap")
    numbers = [record.get(part) if isinstance(record, dict) else None for part in parts]
    if not all(type(one) in (int, float) for one in numbers):
        raise InputError(f"--solution: {path} has no finite numbers value, leakage and gap")
    return {"solution": SimpleNamespace(**dict(zip(parts, numbers, strict=True))), "objective": measure}
