"""Check a design, its audit and what was released with it, with Python's standard library alone.

    jaxpriv verify DESIGN.zip --private AUDIT.zip

Nothing of NumPy or JAX is imported, and nothing of the rest of jaxpriv but its exceptions. Numbers are whole numbers
and fractions; logarithms are enclosed and rounded outwards. What a file states is never used, only compared with what
was computed. `docs/how-to/release.md` lists what is proved and what is not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jaxpriv.errors import InputError, IntegrityError, NotCertifiedError
from jaxpriv.verifier.archive import Json, read_file
from jaxpriv.verifier.claims import Claim
from jaxpriv.verifier.designs import BY_SOLVER, Audit, DesignFile, read_audit, read_design
from jaxpriv.verifier.orders import order_by_column, read_order
from jaxpriv.verifier.releases import (
    ConformityResult,
    Receipt,
    chance_of_order,
    check_design,
    check_file,
    conformity,
    conformity_of_totals,
    outputs_of,
    plain_csv,
    read_receipt,
    records_of,
    symbols_of,
)

__all__ = ["Audit", "DesignFile", "Findings", "Receipt", "read_audit", "read_design", "read_receipt", "verify"]

# A release that is less likely than this to come from its design is refused.
LEVEL = 0.001
# Rows that are said to be in a random order and follow the records by a chance of less than this are not.
_ORDERED = 1e-6


@dataclass(frozen=True)
class Findings:
    """Everything that was found true; what is not so is an `IntegrityError`.

    Attributes:
        design: SHA-256 of the design, None if only a receipt was read.
        guarantees: what holds for every population.
        claims: numbers on the records of the design; empty without the audit.
        rows: records of the released file, None without one.
        conformity: the test of the released file against its records, None without them.
        paired: how its rows were paired with records: by the "order" file, an "id" column or the order of the
            "table"; None if they were not, and only the totals of both were compared.
        checked: what was checked, sentences.
    """

    design: str | None
    guarantees: Mapping[str, Claim]
    claims: Mapping[str, Claim]
    rows: int | None
    conformity: ConformityResult | None
    paired: str | None = None
    checked: tuple[str, ...] = field(default=())

    @property
    def record(self) -> Json:
        """As JSON."""
        test = self.conformity
        return {
            "design": self.design,
            "without_data": {name: claim.record for name, claim in self.guarantees.items()},
            "on_the_design": {name: claim.record for name, claim in self.claims.items()},
            "released_rows": self.rows,
            "conformity": None
            if test is None
            else {
                "p_value": repr(test.p_value),
                "tables": test.tables,
                "impossible": list(test.impossible),
                "detectable": None if test.detectable is None else repr(test.detectable),
            },
            "paired": self.paired,
            "checked": list(self.checked),
        }

    @property
    def text(self) -> str:
        """As lines: intervals hold what is stated, rounded outwards."""
        lines = [] if self.design is None else [f"design {self.design}"]
        lines += [f"  {name}: {_interval(claim)} whatever the population is" for name, claim in self.guarantees.items()]
        for name, claim in self.claims.items():
            source = "as the solver states it" if name in BY_SOLVER else "on the records of the design"
            lines.append(f"  {name}: {_interval(claim)} {source}")
        if self.conformity is not None and self.paired is None:
            lines.append(f"  release: {_UNPAIRED}")
        if self.conformity is not None:
            test = self.conformity
            lines.append(
                f"  release: test of the claim that it comes from the design: p = {test.p_value:.4g} ({test.tables} "
                "simulated releases; a large p is no proof)"
            )
            if test.detectable is not None:
                lines.append(
                    f"  release: if {100 * test.detectable:.3g} % of the records were released unchanged, the test "
                    "would find it in nine of ten cases (level 0.001)"
                )
        return "\n".join([*lines, *self.checked]) + "\n"


_UNPAIRED = (
    "rows are not paired with records (no order file, no id column): only how often each combination was released is "
    "compared, which finds fewer departures"
)


def _interval(claim: Claim) -> str:
    unit = "" if claim.unit in ("distortion", "excess") else f" {claim.unit}"
    if claim.upper is None:
        return "inf" if claim.lower is None else f"at least {claim.lower}{unit}"
    return f"at most {claim.upper}{unit}" if claim.lower in (None, "0") else f"[{claim.lower}, {claim.upper}]{unit}"


def verify(
    file: str | Path,
    *,
    private: str | Path | None = None,
    design: str | Path | None = None,
    receipt: str | Path | None = None,
    released: str | Path | None = None,
    records: str | Path | None = None,
    read: Sequence[str] = (),
    order: str | Path | None = None,
    id_column: str | None = None,
) -> Findings:
    """Check a design or a receipt, and what belongs to it.

    Args:
        file: DESIGN.zip or a receipt.
        private: AUDIT.zip: counts and certificate of the design.
        design, receipt: the other one of the two.
        released: the released file.
        records: the CSV table that it was released from: then pairs are tested against the design. Rows in a random
            order are paired by `order` or `id_column`; without both only the totals of the two files are compared.
        read: how `records` is read, as --read of the commands has it: "delimiter=;", "encoding=latin-1", "names=A,B",
            "blanks", "nfc".
        order: the order of the rows, a file that `release` wrote for the owner.
        id_column: a kept column by which rows and records are paired.

    Raises `IntegrityError` for whatever is not as it is stated, `NotCertifiedError` for a design that exceeds its
    target, `InputError` for files that are absent or do not go together, `ResourceError` for what cannot be read.
    """
    data = read_file(file)
    if not data:
        raise IntegrityError(f"{file} is empty")
    is_receipt = data[:1] == b"{"
    if (is_receipt and receipt is not None) or (not is_receipt and design is not None):
        raise InputError(f"{file} is itself what {'receipt' if is_receipt else 'design'} names; give one of the two")
    receipt_file, design_file = (file, design) if is_receipt else (receipt, file)
    checked: list[str] = []
    known = None if design_file is None else read_design(read_file(design_file), str(design_file))
    if known is not None:
        checked.append("design: rows sum to 2^62, hashes and stated guarantees agree")
    audit = None
    if private is not None:
        if known is None:
            raise InputError(
                "private goes with a design; name it too (on the command line before --private, or as --design)"
            )
        audit = read_audit(read_file(private), known, str(private))
        checked.append("audit: belongs to the design; every stated number was computed again from counts and table")
        if any(name in audit.claims for name in BY_SOLVER):
            checked[-1] += f", except {' and '.join(BY_SOLVER)}"
            checked.append(
                "solver_bound: by a branch and bound in float64 when the design was made, which is not repeated here; "
                "lower_bound is what exact arithmetic proves without it"
            )
        excess = audit.claims.get("excess")
        if excess is not None and excess.upper != "0":
            raise NotCertifiedError(f"the design exceeds its target by as much as {excess.upper}")
    stated = None if receipt_file is None else read_receipt(read_file(receipt_file), str(receipt_file))
    if stated is not None:
        checked.append("receipt: not damaged")
        checked += [f"receipt: {sentence}" for sentence in stated.departures]
        if known is not None:
            check_design(stated, known, str(receipt_file))
            checked.append("receipt: of this design")
    if released is None and records is not None:
        raise InputError("records goes with released: the pairs of both are tested")
    if records is None and read:
        raise InputError("read goes with records: it is about them")
    if records is None and (order is not None or id_column is not None):
        raise InputError("order and id_column go with records: they pair them with released rows")
    if order is not None and id_column is not None:
        raise InputError("order and id_column pair the same rows; give one of the two")
    rows, test, paired = None, None, None
    if released is not None:
        pairing = (order, id_column)
        rows, test, paired = _release(known, stated, released, records, read, pairing, checked)
    return Findings(
        None if known is None else known.sha256,
        {} if known is None else known.guarantees,
        {} if audit is None else audit.claims,
        rows,
        test,
        paired,
        tuple(checked),
    )


def _release(
    design: DesignFile | None,
    receipt: Receipt | None,
    released: str | Path,
    records: str | Path | None,
    read: Sequence[str],
    pairing: tuple[str | Path | None, str | None],
    checked: list[str],
) -> tuple[int, ConformityResult | None, str | None]:
    data, name = read_file(released), str(released)
    if receipt is None and design is None:
        raise InputError("released goes with a design or a receipt; name one")
    if receipt is not None:
        check_file(receipt, data, name)
        checked.append("released file: the one that the receipt is about")
    if receipt is not None and receipt.record["released"]["format"] != "csv":
        if records is not None:
            raise InputError(f"{name}: pairs are tested of CSV files")
        return receipt.rows, None, None
    if design is None:
        rows = sum(1 for _ in records_of(data, name)) - 1
    else:
        outputs = outputs_of(design, data, name, None if receipt is None else receipt.record["kept"])
        rows = len(outputs)
        checked.append("released file: every record is one that the design releases")
    if receipt is not None and rows != receipt.rows:
        raise IntegrityError(f"{name} has another number of records than the receipt states")
    if design is None or records is None:
        return rows, None, None
    unseen = design.record["unseen"] if receipt is None else receipt.record["unseen"]
    table = plain_csv(read_file(records), str(records), read)
    symbols = symbols_of(design, table, str(records), unseen)
    if len(symbols) != rows:
        raise IntegrityError(f"{name} has {rows} records, {records} has {len(symbols)}")
    if not symbols:
        raise InputError(f"{records} has no records")
    if receipt is not None and receipt.permuted and chance_of_order(design.rows, symbols, outputs) < _ORDERED:
        raise IntegrityError(
            f"{name} does not come from the design as the receipt states it: rows are said to be in a random order and "
            f"follow those of {records}"
        )
    place, paired = _paired(receipt, data, name, rows, table, str(records), *pairing)
    if place is None:
        test = conformity_of_totals(design.rows, symbols, outputs, _identity(design))
    else:
        test = conformity(design.rows, [symbols[row] for row in place], outputs, _identity(design))
    if test.impossible:
        which = "any of the records" if place is None else "its record"
        raise IntegrityError(f"{name}, row {test.impossible[0]} (from 0): the design never releases that for {which}")
    if test.p_value <= LEVEL:
        raise IntegrityError(f"{name} does not come from the design: p = {test.p_value:.4g}")
    what = "its totals" if place is None else "its pairs"
    checked.append(f"released file: the test finds no departure of {what} from the design")
    return rows, test, paired


def _paired(
    receipt: Receipt | None,
    data: bytes,
    name: str,
    rows: int,
    table: bytes,
    records: str,
    order: str | Path | None,
    id_column: str | None,
) -> tuple[Sequence[int] | None, str | None]:
    """(the record of each released row, by what it is known), (None, None) where it is not known."""
    if id_column is not None:
        return order_by_column(data, name, table, records, id_column), "id"
    in_order = receipt is not None and not receipt.permuted
    if order is not None:
        if in_order:
            raise InputError("order is about rows in a random order; by their receipt these are in that of the table")
        return read_order(read_file(order), str(order), data, rows), "order"
    return (range(rows), "table") if in_order else (None, None)


def _identity(design: DesignFile) -> list[int] | None:
    """The output that is x itself, where the useful columns are what is released."""
    useful = [(entry["column"], entry["labels"]) for entry in design.record["codebook"]["useful"]]
    if useful != [(entry["column"], entry["labels"]) for entry in design.record["released"]]:
        return None
    place = {tuple(codes): y for y, codes in enumerate(design.released)}
    return [place.get(tuple(codes), -1) for codes in design.useful]
