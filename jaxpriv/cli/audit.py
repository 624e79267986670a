"""`jaxpriv audit`: bounds for the population from a sample, beside what needs no sample."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._audit_text import attributes_text, mechanism_text, pairs_text
from jaxpriv.cli._options import given_of
from jaxpriv.cli._output import JsonRecord, Units
from jaxpriv.cli._tables import SYMBOLS, ColumnOptions, counts_by_attributes, is_table, table_file
from jaxpriv.cli._work import working
from jaxpriv.errors import InputError, JaxprivError

T = TypeVar("T")

_PRIVATE_ALPHABET = "The private alphabet is the values that occur in these records; other values have no symbol."
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


def audit(
    *,
    mechanism: Path | None = None,
    counts: Path | None = None,
    joint: Path | None = None,
    pairs: Path | None = None,
    columns: ColumnOptions,
    released: list[str] | None = None,
    subsets: int | None = None,
    optimum: float | None = None,
    show_values: bool = False,
    releases: Path | None = None,
    row_order: Path | None = None,
    held_out: bool = False,
    solution: Path | None = None,
    certificate: Path | None = None,
    again: list[Path] | None = None,
    objective: str | None = None,
    permutations: int = 9999,
    bounds: BoundOptions,
    units: Units = Units.nats,
    json: Path | None = None,
) -> None:
    """Audit a mapping on a sample of its population, or an unknown mechanism on records of its releases.

    For each measure: the value on the sample, the certified gap to the optimum, an upper bound for the
    population (all together with the confidence), and a cap that needs no data. They are different things; so
    are, for a black box, upper bounds, lower bounds, estimates and tests. The assumptions are always printed.
    """
    from jaxpriv._runtime.files import load_npz_safely
    from jaxpriv.release.matching import counts_by_design, releases_by_design, releases_by_symbols

    _output.only_one({"counts": counts, "joint": joint, "pairs": pairs})
    black_box = pairs is not None
    records = counts if counts is not None else joint
    with_table, released_table = (path is not None and is_table(path) for path in (records, releases))
    design = mechanism is not None and mechanism.suffix.lower() == ".zip"
    of_columns = [name for name in columns.given if name != "--read"]
    optimal = solution is not None or certificate is not None
    for refused, reason in (
        ((mechanism is None) != black_box, "--pairs goes without MECH.npz, --counts and --joint need it"),
        (show_values and not black_box, "--show-values is about --pairs"),
        (
            black_box and (columns.useful or columns.shared or columns.codebook),
            "--useful, --shared and --codebook are about a mapping, not about --pairs",
        ),
        (
            columns.given and not (black_box or with_table),
            f"{', '.join(columns.given[:1])} is about a table in --counts or --joint",
        ),
        (
            subsets is not None and (pairs is None or not is_table(pairs) or bounds.measures or bounds.order),
            "--subsets is about a table in --pairs, and goes without --measures and --order",
        ),
        (optimum is not None and subsets is None, "--optimum is about --subsets"),
        (
            released and not (black_box or released_table),
            "--released is about --pairs, or about a table in --releases",
        ),
        (
            released_table and not with_table,
            "a table in --releases goes with a table of its records, row for row, in --counts or --joint",
        ),
        (row_order is not None and not released_table, "--row-order is about a table in --releases"),
        (
            black_box and (releases is not None or held_out or optimal),
            "--releases, --held-out, --solution and --certificate are about a mapping, not about --pairs",
        ),
        (
            again and (black_box or releases is not None or optimal),
            "--again is about a mapping, and goes without --releases, --solution and --certificate",
        ),
        (design and (counts is None or not with_table), "a design is audited on a table of records in --counts"),
        (
            design and (released or of_columns),
            "a design has its own columns and classes: leave out --codebook and the names of columns",
        ),
        (
            certificate is not None and (not design or solution is not None),
            "--certificate is about a design, DESIGN.zip, and goes without --solution",
        ),
        (objective is not None and solution is None, "--objective is about --solution"),
        (held_out and joint is not None, "--held-out is about --counts"),
    ):
        if refused:
            raise InputError(reason)
    if mechanism is None or records is None:
        assert pairs is not None
        table, attributes, labels, chosen = _pairs(pairs, columns, released)
        if subsets is not None:
            given = {"most": subsets, "confidence": bounds.confidence, "optimum": optimum, "seed": bounds.seed}
            every = working("Auditing", lambda _: jp.statistics.audit.audit_attributes(table, attributes, **given))
            every = _stated(every, chosen)
            names = [[(released or [])[column] for column in row.columns] for row in every.rows]
            rows = [{**_output.record_of(row), "columns": own} for row, own in zip(every.rows, names, strict=True)]
            record = {"kind": "attributes", **_output.record_of(every), "rows": rows}
            return _output.deliver(record, json, attributes_text(every, names), private=True)
        arguments = {"permutations": permutations, **bounds.arguments}
        found = working("Auditing", lambda _: jp.statistics.audit.audit_pairs(table, **arguments))
        found = _stated(found, chosen)
        record = _record("pairs", found, **({"labels": labels} if show_values else {}))
        return _output.deliver(record, json, pairs_text(found, units), private=True)
    fitted, stored, book, known, chosen = None, {}, None, None, ()
    data: dict[str, Any] = {} if joint is not None else {"held_out": held_out}
    if design:
        fitted = jp.Mechanism.load(mechanism)
        channel, known = fitted.all_drawn(), counts_by_design(table_file(records, columns.read), fitted)
        if certificate is not None:
            data |= _recomputed(certificate, fitted)
    else:
        stored = load_npz_safely(mechanism, ["mechanism", *(SYMBOLS if with_table else ())])
        channel = stored["mechanism"]
    name = "counts" if joint is None else "joint"
    if with_table and fitted is None:
        known, book = counts_by_attributes(records, columns, stored["attributes"], stored["classes"], name)
    if known is None:
        data |= load_npz_safely(records, [name], ["possible"] if joint is None else ())
    else:
        chosen = (_PRIVATE_ALPHABET,)
        data[name] = known.counts if joint is None else known.counts / known.counts.sum()
    counted = None
    if releases is not None and (known is None or not released_table):
        counted = load_npz_safely(releases, ["counts"])["counts"]
    elif releases is not None and known is not None:
        # A table of its own is as `jaxpriv release` writes it.
        file = table_file(releases, columns.read if releases == records else None)
        if fitted is not None:
            counted = releases_by_design(file, known.ordered(row_order, releases), fitted)
        elif book is not None:
            if channel.shape != (len(stored["attributes"]),) * 2:
                raise InputError("a table in --releases needs a mapping whose outputs are its useful symbols")
            ordered = known.ordered(row_order, releases)
            counted = releases_by_symbols(file, released, ordered, book, stored["attributes"])
    tested = None
    if counted is not None:
        drawn = channel if fitted is None else fitted.matrix()
        tested = jp.statistics.audit.conformity(counted, drawn, seed=bounds.seed)
        if fitted is not None and fitted.released_columns != fitted.codebook.useful:
            # What is released is no useful symbol: nothing is "unchanged".
            tested = replace(tested, unchanged=None, detectable=None)
    if fitted is not None and fitted.earlier is not None:
        chosen += ("The outputs are the draw of the design and those of the earlier designs that it looks at.",)
    if again:
        chosen += (f"The outputs are {1 + len(again)} draws for each record, independent given x, seen together.",)
    for path in again or ():
        channel = _drawn_again(channel, path, fitted)
    if solution is not None:
        try:
            measure = jp.leakage.by_name(**jp.leakage.parameters_of(objective or "mutual-information"))
        except InputError as error:
            raise InputError(f"--objective: {error}") from error
        data |= {"solution": _solution(solution), "objective": measure}
    audited = working("Auditing", lambda _: jp.statistics.audit.audit_mechanism(channel, **data, **bounds.arguments))
    audited = _stated(audited, chosen)
    record = _record("mechanism", audited, conformity=tested)
    return _output.deliver(record, json, mechanism_text(audited, tested, units), private=True)


def _drawn_again(channel: Any, path: Path, design: "jp.Mechanism | None") -> Any:  # noqa: ANN401 (arrays)
    """P(y, y' | x) of an output of `channel` (X, Y) and one of the mapping in a file, drawn independently given x."""
    from jaxpriv._runtime.files import load_npz_safely
    from jaxpriv._runtime.resources import need_memory
    from jaxpriv._runtime.validation import mechanism_array

    if design is None:
        other = mechanism_array(load_npz_safely(path, ["mechanism"])["mechanism"], "again", inputs=len(channel))
    else:
        second = jp.Mechanism.load(path)
        classes = [(one.codebook.fingerprint.tolist(), one.useful.tolist()) for one in (design, second)]
        if classes[0] != classes[1]:
            raise InputError(f"--again: {path} has other useful columns, classes or symbols than the design")
        if second.earlier is not None:
            raise InputError(f"--again: {path} looks at earlier draws, so its own is not independent of them")
        other = second.matrix()
    need_memory(8.0 * channel.size * other.shape[1], "the outputs of all draws together", "audit fewer draws")
    return (channel[:, :, None] * other[:, None, :]).reshape(len(channel), -1)


def _stated(found: T, more: tuple[str, ...]) -> T:
    """The audit with further assumptions."""
    audited: Any = found
    own = audited.assumptions
    return replace(audited, assumptions=replace(own, statements=own.statements + more))


def _record(kind: str, found: object, **more: object) -> JsonRecord:
    record = _output.record_of(found)
    return {"kind": kind, "units": "nats", "measures": record.pop("rows"), **record, **more}


def _pairs(path: Path, columns: ColumnOptions, released: list[str] | None) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """(counts (S, Y), codes of the released columns of each y and labels of S and Y, None of counts, what was chosen on
    the records) of records or counts.
    """
    from jaxpriv._runtime.files import load_npz_safely

    if path.suffix.lower() == ".npz":
        if columns.private or released or columns.bins or columns.other or columns.missing:
            raise InputError(
                "--private, --released, --bins, --other, --missing are about tables of records, not about .npz"
            )
        return load_npz_safely(path, ["counts"])["counts"], None, None, ()
    private = columns.private
    if not private or not released:
        raise InputError("--pairs needs --private and --released: the names of columns")
    both = [name for name in private if name in released]
    if both:
        raise InputError(f"column {both[0]!r} is in --private and in --released: its values would be disclosed fully")
    from jaxpriv.statistics.tables import Quantiles, count_table

    rules = columns.rules([*private, *released])
    # What is refused of sparse tables here are the estimates, later and by name; the bounds hold.
    data = count_table(
        table_file(path, columns.read), private=private, useful=released, rules=rules, sparse=True
    ).dataset
    chosen = ("Here the alphabets are the values that occur in these records; other values have no symbol.",)
    fitted = [name for name, rule in rules.items() if isinstance(rule, Quantiles)]
    if fitted:
        names = ", ".join(map(repr, fitted))
        chosen += (f"NOT so here: the classes of {names} were chosen on these records; bounds are as if given.",)
    labels = {"private": data.private_labels, "released": data.useful_labels}
    return data.counts, data.useful_attributes, labels, chosen


def _recomputed(path: Path, design: "jp.Mechanism") -> JsonRecord:
    """The gap of a design and its measure, from the counts and dual scores of its private part."""
    claim = jp.release.Evidence.load(path, design).claims(design).get("gap")
    if claim is None or claim.upper is None:
        raise InputError(f"--certificate: {path} holds no certificate: of other measures and problems there is none")
    if design.asked.problem not in ("budget", "disclosure"):
        raise InputError("--certificate: this design has the least distortion: its gap is not about leakage")
    return {"gap": float(claim.upper), "objective": jp.leakage.by_name(**dict[str, Any](design.asked.leakage))}


def _solution(path: Path) -> SimpleNamespace:
    """value, leakage and gap of a JSON file of `jaxpriv solve`."""
    from jaxpriv.verifier.archive import read_file, strict

    try:
        record: Any = strict(read_file(path, _LARGEST_JSON), str(path), plain=False)
    except JaxprivError as error:
        raise type(error)(f"--solution: {error}") from error
    parts = ("value", "leakage", "gap")
    numbers = [record.get(part) if isinstance(record, dict) else None for part in parts]
    if not all(type(one) in (int, float) for one in numbers):
        raise InputError(f"--solution: {path} has no finite numbers value, leakage and gap")
    return SimpleNamespace(**dict(zip(parts, numbers, strict=True)))
