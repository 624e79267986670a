"""`jaxpriv audit`: bounds for the population from a sample, beside what needs no sample."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jaxpriv as jp
from jaxpriv.cli import _audit_options, _output
from jaxpriv.cli._audit_options import BoundOptions, KnownOptions, PairsOptions, SampleOptions, check, is_design
from jaxpriv.cli._audit_text import attributes_text, mechanism_text, pairs_text
from jaxpriv.cli._output import JsonRecord, Units, refuse
from jaxpriv.cli._tables import SYMBOLS, ColumnOptions, counted_like, is_table, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError

if TYPE_CHECKING:
    from jaxpriv.statistics.audit import MechanismAudit


def audit(
    *,
    mechanism: Path | None = None,
    sample: SampleOptions,
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
    name, path = check(mechanism, sample, columns, released, asked, known, bounds)

    def work(_: object) -> tuple[JsonRecord, str]:
        if mechanism is None:
            return _of_pairs(path, columns, released, asked, bounds, units)
        result = _of_mechanism(mechanism, name, path, columns, released, known, bounds.arguments)
        return _record("mechanism", result), mechanism_text(result, units)

    record, text = working("Auditing", work)
    _output.deliver(record, json, text, private=True)


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

    private, more = columns.private, {}
    if not is_table(path) or bounds.measures or bounds.order:
        refuse("is about a table in --pairs, and goes without --measures and --order", subsets=asked.subsets)
    if path.suffix.lower() == ".npz":
        of_tables = {**vars(columns), "released": released, "show_values": asked.show_values}
        refuse("is about tables of records, not about .npz", **of_tables)
        counts, given = load_npz_safely(path, ["counts"])["counts"], bounds.arguments
    elif not private or not released:
        raise InputError("--pairs needs --private and --released: the names of columns")
    else:
        rules = columns.rules([*private, *released])
        data, chosen = jp.release.count_pairs(table_file(path, columns.read), private, released, rules)
        if asked.subsets is not None:
            options = {"most": asked.subsets, "optimum": asked.optimum, "names": released, "statements": chosen}
            options |= {"confidence": bounds.confidence, "seed": bounds.seed}
            sets = jp.statistics.audit.audit_attributes(data.counts, data.useful_attributes, **options)
            return {"kind": "attributes", **_output.record_of(sets)}, attributes_text(sets)
        counts, given = data.counts, {**bounds.arguments, "statements": chosen}
        labels = {"private": data.private_labels, "released": data.useful_labels}
        more = {"labels": labels} if asked.show_values else {}
    result = jp.statistics.audit.audit_pairs(counts, permutations=asked.permutations, **given)
    return _record("pairs", result, **more), pairs_text(result, units)


def _of_mechanism(
    path: Path,
    sample: str,
    records: Path,
    columns: ColumnOptions,
    released: list[str] | None,
    known: KnownOptions,
    given: dict[str, Any],
) -> "MechanismAudit":
    """The audit of DESIGN.zip on a table, or of MECH.npz on a table or arrays."""
    from jaxpriv._runtime.files import load_npz_safely

    given |= {"held_out": known.held_out}
    given |= {key: value for key in ("solution", "objective") if (value := getattr(known, key)) is not None}
    again, table = known.again or (), known.releases
    if table is not None and is_table(table):
        # A table of its own is as `jaxpriv release` writes it.
        given["releases"] = table_file(table, columns.read if table == records else None)
    elif table is not None:
        given["releases"] = load_npz_safely(table, ["counts"])["counts"]
    if is_design(path):
        design, source = jp.Mechanism.load(path), table_file(records, columns.read)
        given["certificate"] = known.certificate and jp.release.Evidence.load(known.certificate, design)
        given["again"] = [jp.Mechanism.load(path) for path in again]
        return jp.release.audit_design(source, design, order=known.row_order, **given)
    stored = load_npz_safely(path, ["mechanism"], SYMBOLS)
    given["again"] = [load_npz_safely(path, ["mechanism"])["mechanism"] for path in again]
    if is_table(records):
        given |= {sample: counted_like(records, columns, stored), "released": released}
        return jp.release.audit_mapping(stored["mechanism"], stored["attributes"], order=known.row_order, **given)
    given |= _audit_options.arrays_of(sample, records)
    return jp.statistics.audit.audit_mechanism(stored["mechanism"], **given)


def _record(kind: str, result: object, **more: object) -> JsonRecord:
    record = _output.record_of(result)
    return {"kind": kind, "units": "nats", "measures": record.pop("rows"), **record, **more}
