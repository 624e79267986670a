"""Check a design, its audit and what was released with it, with Python's standard library alone.

    jaxpriv verify DESIGN.zip --private AUDIT.zip

Nothing of NumPy or JAX is imported, and nothing of the rest of jaxpriv but its exceptions. Numbers are whole numbers
and fractions; logarithms are enclosed and rounded outwards. What a file states is never used, only compared with what
was computed. `docs/how-to/release.md` lists what is proved and what is not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jaxpriv._runtime.importing import names_of
from jaxpriv.errors import InputError, IntegrityError, NotCertifiedError
from jaxpriv.verifier.archive import Json, Table, read_file
from jaxpriv.verifier.claims import INFINITE, Claim
from jaxpriv.verifier.csv_text import Columns, column_names, columns_of, plain_csv
from jaxpriv.verifier.designs import (
    BY_SOLVER,
    Audit,
    DesignFile,
    GroupsFile,
    disclosed,
    holds_groups,
    read_audit,
    read_design,
    read_groups,
    read_groups_audit,
)
from jaxpriv.verifier.draws import DependenceResult, dependence, order_dependence
from jaxpriv.verifier.monte_carlo import (
    TABLES,
    ConformityResult,
    chance_of_order,
    conformity,
    conformity_of_totals,
    of_all,
    weights_of,
)
from jaxpriv.verifier.orders import first_of_each, read_order, rows_by_identity
from jaxpriv.verifier.releases import (
    Receipt,
    check_design,
    check_file,
    check_kept,
    contents_of,
    read_receipt,
    released_rows,
)
from jaxpriv.verifier.sequences import check_stated
from jaxpriv.verifier.symbols import symbols_of

__all__ = ["Audit", "DesignFile", "Findings", "Receipt", "read_audit", "read_design", "read_receipt", "verify"]
__dir__ = names_of(__name__)

# The probability that an honest release is refused is at most this: a third for each of the two p-values of simulated
# releases, a sixth for records released unchanged, and a sixth for draws that depend on something else than x.
LEVEL = 0.001
# What holds for every release that passes.
_UNSEEN = (
    "no test sees draws of a generator whose state somebody knows, one release chosen among several honest ones, or "
    "smaller departures"
)
_UNPAIRED = (
    "rows are not paired with records (no order file, no id column): only how often each combination was released is "
    "compared, which finds fewer departures"
)
# Rows that are said to be in a random order and agree with the records, or with a column, by a chance below this are in
# no random order. `LEVEL` has room for both: p-values of simulated releases are multiples of 1/3500, so that 1/3000
# stands for 1/3500.
_ORDERED = 1e-6


@dataclass(frozen=True)
class Findings:
    """Everything that was found true; what is not so is an `IntegrityError`.

    Attributes:
        design: SHA-256 of the design, None if only a receipt was read.
        guarantees: what holds for every population.
        claims: numbers on the records of the design; empty without the audit.
        rows: records of the released file, None without one.
        kept: the columns of the released file that are as they were, by its receipt: the design does not protect them.
        conformity, dependence: the tests of the released file against its records, None without them; of totals there
            is no test of dependence. Of several groups of columns each p-value is the least one of a group, times the
            number of groups.
        paired: how its rows were paired with records: by the "order" file, by columns that identify a record ("id") or
            by the order of the "table"; None if they were not, and only the totals of both were compared.
        checked: what was checked, sentences.
        not_checked: what the files claim and nothing here could check, sentences.
    """

    design: str | None
    guarantees: Mapping[str, Claim]
    claims: Mapping[str, Claim]
    rows: int | None
    kept: tuple[str, ...]
    conformity: ConformityResult | None
    dependence: DependenceResult | None
    paired: str | None
    checked: tuple[str, ...] = field(default=())
    not_checked: tuple[str, ...] = field(default=())

    @property
    def record(self) -> Json:
        """As JSON."""
        return {
            "design": self.design,
            "without_data": {name: claim.record for name, claim in self.guarantees.items()},
            "on_the_design": {name: claim.record for name, claim in self.claims.items()},
            "released_rows": self.rows,
            "kept": list(self.kept),
            "conformity": _stated(self.conformity),
            "dependence": _stated(self.dependence),
            "paired": self.paired,
            "checked": list(self.checked),
            "not_checked": list(self.not_checked),
        }

    @property
    def text(self) -> str:
        """As lines: intervals hold what is stated, rounded outwards."""
        lines = [f"not checked: {sentence}" for sentence in self.not_checked]
        lines += [] if self.design is None else [f"design {self.design}"]
        for name, claim in self.guarantees.items():
            means = _UNBOUNDED if claim == INFINITE else _MEANINGS[name]
            lines += [f"  {name}: {_interval(claim)} whatever the population is", f"    ({means})"]
        for name, claim in self.claims.items():
            source = "as the solver states it" if name in BY_SOLVER else "on the records of the design"
            lines.append(f"  {name}: {_interval(claim)} {source}")
        if self.conformity is not None:
            test = self.conformity
            lines += [f"  release: {_UNPAIRED}"] if self.paired is None else []
            lines.append(
                f"  release: test of the claim that it comes from the design: p = {test.p_value:.4g} ({test.tables} "
                "simulated releases; a large p is no proof)"
            )
            lines.append(f"  release: test that shares are no more exact than those of draws: p = {test.regular:.4g}")
            if test.unchanged is not None:
                lines.append(
                    f"  release: test that no records were released unchanged: p = {test.unchanged:.4g}; {_found(test)}"
                )
            if self.dependence is not None:
                lines.append(
                    "  release: test that draws depend on the useful classes alone, not on a column, the order or the "
                    f"draws before: p = {self.dependence.p_value:.4g}"
                )
            lines.append(f"  release: an honest one is refused with probability at most {LEVEL:g}; {_UNSEEN}")
        verdict = "everything that was checked is as stated"
        lines += [*self.checked, f"{verdict}, not all of what is claimed" if self.not_checked else verdict]
        return "\n".join(lines) + "\n"


# What the guarantees say to those who have a release.
_MEANINGS = {
    "maximal-leakage": "a guess about a record is right at most e to this number times as often as without its release",
    "ldp": "no release is more than e to this number times as likely for one record as for another",
}
_UNBOUNDED = "some release is possible for one record and impossible for another"


def _stated(test: ConformityResult | DependenceResult | None) -> Json:
    """A test as JSON, its numbers as texts."""
    if test is None:
        return None
    texts = {name: repr(value) if isinstance(value, float) else value for name, value in vars(test).items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in texts.items()}


def _found(test: ConformityResult) -> str:
    if test.detectable is None or math.isinf(test.detectable):
        return "with so few records it would not find in nine of ten cases that all of them were"
    return f"if {100 * test.detectable:.3g} % of the records were, it would find it in nine of ten cases"


def _interval(claim: Claim) -> str:
    unit = "" if claim.unit in ("distortion", "excess", "dimensionless") else f" {claim.unit}"
    if claim.upper is None:
        return "inf" if claim.lower is None else f"at least {claim.lower}{unit}"
    return f"at most {claim.upper}{unit}" if claim.lower in (None, "0") else f"[{claim.lower}, {claim.upper}]{unit}"


def verify(
    file: str | Path,
    *,
    private: str | Path | None = None,
    design: str | Path | None = None,
    receipt: str | Path | None = None,
    after: str | Path | None = None,
    released: str | Path | None = None,
    records: str | Path | None = None,
    read: str | Sequence[str] = (),
    order: str | Path | None = None,
    identity: str | Sequence[str] = (),
) -> Findings:
    """Check a design or a receipt, and what belongs to it.

    Args:
        file: DESIGN.zip or a receipt.
        private: AUDIT.zip: counts and certificate of the design.
        design, receipt: the other one of the two.
        after: the earlier design of a receipt that states what the receivers of two releases have together.
        released: the released file.
        records: the CSV table that it was released from: then pairs are tested against the design. Rows in a random
            order are paired by `order` or by kept columns of `identity`; without both only totals are compared.
        read: how `records` is read, as --read of the commands has it: "delimiter=;", "encoding=latin-1", "names=A,B",
            "decimal=,", "thousands=.", "empty=NA", "blanks", "nfc".
        order: the order of the rows, a file that `release` wrote for the owner.
        identity: the columns that identify a record, as `release` has it. Without `order` they pair rows and records.
            Records with one identity in a ledger share a draw, so one of them is tested.

    Raises `IntegrityError` for whatever is not as it is stated, `NotCertifiedError` for a design that exceeds its
    target, `InputError` for files that are absent or do not go together, `ResourceError` for what cannot be read.
    """
    read, identity = column_names(read), column_names(identity)
    data = read_file(file)
    if not data:
        raise IntegrityError(f"{file} is empty")
    is_receipt = data[:1] == b"{"
    if design is not None and not is_receipt and data[:2] != b"PK":
        raise IntegrityError(f"{file} is no receipt")
    if (is_receipt and receipt is not None) or (not is_receipt and design is not None):
        raise InputError(f"{file} is itself what {'receipt' if is_receipt else 'design'} names; give one of the two")
    receipt_file, design_file = (file, design) if is_receipt else (receipt, file)
    checked: list[str] = []
    not_checked: list[str] = []
    given_design = None if design_file is None else _design(read_file(design_file), str(design_file))
    if given_design is not None:
        checked.append("design: rows sum to 2^62, hashes and stated guarantees agree")
    claims: dict[str, Claim] = {}
    counts = None
    if private is not None:
        if given_design is None:
            raise InputError(
                "private goes with a design; name it too (on the command line before --private, or as --design)"
            )
        data = read_file(private)
        if isinstance(given_design, GroupsFile):
            audits = read_groups_audit(data, given_design, str(private)).parts
            starts = [f"group {place} " for place in range(1, len(audits) + 1)]
        else:
            audits, starts = (read_audit(data, given_design, str(private)),), [""]
            counts = audits[0].counts
        claims = {
            start + name: claim
            for start, audit in zip(starts, audits, strict=True)
            for name, claim in audit.claims.items()
        }
        checked.append("audit: belongs to the design; every stated number was computed again from counts and table")
        if any(name in claims for name in BY_SOLVER):
            checked[-1] += f", except {' and '.join(BY_SOLVER)}"
            checked.append(
                "solver_bound: by a branch and bound in float64 when the design was made, which is not repeated here; "
                "lower_bound is what exact arithmetic proves without it"
            )
        if isinstance(given_design, GroupsFile):
            checked.append("audit: what all groups reveal together is stated in no file and not computed here")
        for start, audit, part in zip(starts, audits, given_design.parts, strict=True):
            excess = audit.claims.get("excess")
            if excess is None:
                limit = f"at most {part.target:g} of {part.measure.name}"
                not_checked.append(f"the target of the design, {limit}, a measure that is not computed here")
            elif excess.upper != "0":
                by = "without a limit: it is infinite" if excess.upper is None else f"by as much as {excess.upper}"
                raise NotCertifiedError(f"{start and start + 'of '}the design exceeds its target {by}")
    stated = None if receipt_file is None else read_receipt(read_file(receipt_file), str(receipt_file))
    if stated is not None:
        checked.append("receipt: not damaged")
        checked += [f"receipt: {sentence}" for sentence in stated.departures]
        if given_design is not None:
            check_design(stated, given_design, str(receipt_file))
            checked.append("receipt: of this design")
    claims |= _together(given_design, stated, str(receipt_file), after, counts, checked, not_checked)
    if released is None and records is not None:
        raise InputError("records goes with `released`: the pairs of both are tested")
    if records is None and read:
        raise InputError("read goes with `records`: it is about them")
    if records is None and (order is not None or identity):
        raise InputError("order and `identity` go with `records`: they pair them with released rows")
    rows, test, depends, paired = None, None, None, None
    if released is not None:
        rows, test, depends, paired = _release(given_design, stated, released, records, read, order, identity, checked)
    return Findings(
        None if given_design is None else given_design.sha256,
        {} if given_design is None else given_design.guarantees,
        claims,
        rows,
        () if stated is None else tuple(stated.record["kept"]),
        test,
        depends,
        paired,
        tuple(checked),
        tuple(not_checked),
    )


def _together(
    design: DesignFile | GroupsFile | None,
    receipt: Receipt | None,
    name: str,
    after: str | Path | None,
    counts: Table | None,
    checked: list[str],
    not_checked: list[str],
) -> dict[str, Claim]:
    """What a receipt states of the receivers of two releases, computed again; on the records of the design."""
    stated = None if receipt is None else receipt.record.get("after")
    if stated is None:
        if after is not None:
            raise InputError("after goes with the receipt of a release after an earlier design")
        return {}
    if not isinstance(design, DesignFile) or (after is None and design.earlier is None):
        not_checked.append(f"what the receivers of two releases have together: name the design and {stated['design']}")
        return {}
    earlier = design.earlier if after is None else read_design(read_file(after), str(after))
    assert earlier is not None
    together = disclosed(design, earlier, counts)
    check_stated(stated, together, earlier.sha256, name)
    checked.append("receipt: what receivers of this and of the earlier release have together agrees with both designs")
    if counts is None and stated["leakage"] is not None:
        checked.append("receipt: what it states of the records of the design is checked with --private")
    # The leakage of a design that looks at earlier draws is that of both releases.
    named = {} if design.earlier is None else {"together": "leakage"}
    return {named.get(coalition, f"leakage_{coalition}"): claim for coalition, claim in together.leakage.items()}


def _design(data: bytes, name: str) -> DesignFile | GroupsFile:
    return read_groups(data, name) if holds_groups(data, name) else read_design(data, name)


def _release(
    design: DesignFile | GroupsFile | None,
    receipt: Receipt | None,
    released: str | Path,
    records: str | Path | None,
    read: Sequence[str],
    order: str | Path | None,
    identity: Sequence[str],
    checked: list[str],
) -> tuple[int, ConformityResult | None, DependenceResult | None, str | None]:
    data, name = read_file(released), str(released)
    if receipt is None and design is None:
        raise InputError("released goes with a design or a receipt; name one")
    kept = [] if receipt is None else receipt.record["kept"]
    if receipt is not None:
        check_file(receipt, data, name)
        checked.append("released file: the one that the receipt is about")
    if kept:
        checked.append(f"released file: kept as they were, no design protects them: {', '.join(map(repr, kept))}")
    if receipt is not None and receipt.record["released"]["format"] != "csv":
        if records is not None:
            raise InputError(f"{name}: pairs are tested of CSV files")
        checked.append("released file: Parquet; its columns and records are not read here")
        return receipt.rows, None, None, None
    if design is None:
        assert receipt is not None
        contents, rows = ([], {}), sum(1 for _ in released_rows(data, name, receipt.columns))
    else:
        contents = contents_of(design, data, name, kept)
        rows = len(contents[0])
        checked.append("released file: every record is one that the design releases")
    if not rows:
        raise IntegrityError(f"{name} has no records")
    if receipt is not None and rows != receipt.rows:
        raise IntegrityError(f"{name} has another number of records than the receipt states")
    if design is None or records is None:
        return rows, None, None, None
    table = columns_of(plain_csv(read_file(records), str(records), read), str(records))
    return rows, *_compared(design, receipt, *contents, data, name, table, str(records), order, identity, checked)


def _compared(
    design: DesignFile | GroupsFile,
    receipt: Receipt | None,
    outputs: Sequence[tuple[int, ...]],
    texts: Mapping[str, Sequence[str]],
    data: bytes,
    name: str,
    table: Columns,
    records: str,
    order: str | Path | None,
    identity: Sequence[str],
    checked: list[str],
) -> tuple[ConformityResult, DependenceResult | None, str | None]:
    """The tests of a released file with the `table` of its records, and by what rows were paired with records."""
    parts, rows = design.parts, len(outputs)
    unseen = parts[0].record["unseen"] if receipt is None else receipt.record["unseen"]
    by_group = [symbols_of(part, table, records, unseen) for part in parts]
    symbols = list(zip(*by_group, strict=True))
    if len(symbols) != rows:
        raise IntegrityError(f"{name} has {rows} records, {records} has {len(symbols)}")
    permuted = receipt is not None and receipt.permuted
    disorder = (
        f"{name} does not come from the design as the receipt states it: rows are said to be in a random order and "
    )
    groups = list(zip(parts, by_group, zip(*outputs, strict=True), strict=True))
    if permuted and any(chance_of_order(part.alone, x, y) < _ORDERED / len(parts) for part, x, y in groups):
        raise IntegrityError(f"{disorder}follow those of {records}")
    columns = dict(table)
    for column in identity:
        if column not in columns:
            raise InputError(f"{records} has no column {column!r}, by which rows are paired")
    place, paired = None, None  # the released row of each record, and by what it is known
    if receipt is not None and not receipt.permuted:
        if order is not None:
            raise InputError("order is about rows in a random order; by their receipt these are in that of the table")
        place, paired = range(rows), "table"
    elif order is not None:
        record_of = read_order(read_file(order), str(order), data, rows)
        place, paired = sorted(range(rows), key=record_of.__getitem__), "order"
    covered = [entry["column"] for part in parts for side in part.record["codebook"].values() for entry in side]
    written = check_kept(texts, columns, covered, name, place)
    if place is None and identity:
        place, paired = rows_by_identity(texts, written, identity, name), "id"
    if place is None:
        tables = TABLES * len(parts)
        test = of_all([conformity_of_totals(part.alone, x, y, _identity(part), tables) for part, x, y in groups])
        _refuse(test, name, range(rows), "any of the records")
        checked.append("released file: the tests find no departure of its totals from the design")
        return test, None, None
    counted = range(rows)
    if identity:
        drawn = [outputs[row] for row in place]
        counted = first_of_each([columns[column] for column in identity], symbols, drawn, (records, name))
        if len(counted) < rows:
            checked.append(f"released file: {len(counted)} identities of {rows} records, of which each has one draw")
    private = [entry["column"] for entry in parts[0].record["codebook"]["private"]]
    if permuted and len(counted) == rows:  # of equal identities it may be unknown which row is whose
        ordered = order_dependence(place, columns, private)
        if ordered.p_value < _ORDERED:
            raise IntegrityError(f"{disorder}depend on {ordered.strongest}, p = {ordered.p_value:.4g}")
    test, depends = _tested(
        parts,
        [symbols[record] for record in counted],
        outputs,
        [place[record] for record in counted],
        {column: [values[record] for record in counted] for column, values in columns.items()},
        private,
        name,
        checked,
    )
    return test, depends, paired


def _tested(
    parts: Sequence[DesignFile],
    symbols: Sequence[tuple[int, ...]],
    outputs: Sequence[tuple[int, ...]],
    rows: Sequence[int],
    columns: Mapping[str, Sequence[str]],
    private: Sequence[str],
    name: str,
    checked: list[str],
) -> tuple[ConformityResult, DependenceResult]:
    """The tests of the pairs (x, y) of every group of a release, in the order of the draws.

    `symbols` and `columns` are those of the records, `rows` the places of their draws in `outputs`. The draws of a
    group may depend on none of the groups before either.
    """
    drawn = zip(*(outputs[row] for row in rows), strict=True)
    groups = list(zip(parts, zip(*symbols, strict=True), drawn, strict=True))
    tables, level = TABLES * len(parts), LEVEL / 6 / len(parts)
    test = of_all([conformity(part.alone, x, y, _identity(part), tables, level) for part, x, y in groups])
    _refuse(test, name, rows, "its record")
    before, tests = {}, []
    for place, (part, x, y) in enumerate(groups, 1):
        tests.append(dependence(weights_of(part.alone, x), x, y, columns, private, before))
        before[f"the draw of group {place}"] = y
    least = min(tests, key=lambda test: test.p_value)
    depends = replace(least, p_value=min(1.0, len(parts) * least.p_value))
    if depends.p_value <= LEVEL / 6:
        raise IntegrityError(
            f"{name} does not come from the design: its draws depend on {depends.strongest}, p = {depends.p_value:.4g} "
            "(records with one identity share a draw of a ledger: --id names its columns)"
        )
    checked.append("released file: the tests find no departure of its pairs from the design")
    absent = [repr(column) for column in private if column not in columns]
    if absent:
        checked.append(f"released file: whether it depends on {', '.join(absent)} was not tested: not in the records")
    return test, depends


def _refuse(test: ConformityResult, name: str, rows: Sequence[int], whose: str) -> None:
    """`IntegrityError` for what an honest release hardly ever gives; `rows` are the tested rows of the file."""
    if test.impossible:
        raise IntegrityError(
            f"{name}, row {rows[test.impossible[0]]} (from 0): the design never releases that for {whose}"
        )
    if test.p_value <= LEVEL / 3:
        raise IntegrityError(f"{name} does not come from the design: p = {test.p_value:.4g}")
    if test.regular <= LEVEL / 3:
        raise IntegrityError(
            f"{name} does not come from the design: its shares are more exact than those of draws, "
            f"p = {test.regular:.4g}"
        )
    if test.unchanged is not None and test.unchanged <= LEVEL / 6:
        raise IntegrityError(
            f"{name} does not come from the design: records were released unchanged, p = {test.unchanged:.4g}"
        )


def _identity(design: DesignFile) -> list[int] | None:
    """The output that is x itself, where the useful columns are what is released."""
    useful = [(entry["column"], entry["labels"]) for entry in design.record["codebook"]["useful"]]
    if useful != [(entry["column"], entry["labels"]) for entry in design.record["released"]]:
        return None
    place = {tuple(codes): y for y, codes in enumerate(design.released)}
    return [place.get(tuple(codes), -1) for codes in design.useful]
