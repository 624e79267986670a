"""A released file: that it is the one that was written, and that it holds only what it may.

A receipt binds a file to a design by their hashes. It is written last: a file without one is not a finished release. It
holds no hash of the records and no randomness.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.archive import digest
from jaxpriv.verifier.csv_text import csv_line, escaped, plain, records_of
from jaxpriv.verifier.designs import DesignFile, GroupsFile
from jaxpriv.verifier.logarithms import upper
from jaxpriv.verifier.records import RECEIPT, unsealed
from jaxpriv.verifier.sequences import COALITIONS
from jaxpriv.verifier.symbols import NUMBER


def unkeepable(name: str, private: Sequence[str], useful: Sequence[str], released: Sequence[str]) -> str | None:
    """Why a column cannot be kept as it is beside what is released; None if it can be."""
    for others, reason in ((private, "is private"), ((*useful, *released), "is released in another form")):
        alike = [other for other in others if plain(other) == plain(name)]
        if name in alike:
            return reason
        if alike:
            return f"has a name that looks like {alike[0]!r}, which {reason}"
    return None


@dataclass(frozen=True)
class Receipt:
    """What a receipt states; its seal has been checked."""

    record: Mapping[str, Any]

    @property
    def design(self) -> str:
        """SHA-256 of the file of the design."""
        return self.record["design"]

    @property
    def rows(self) -> int:
        """Records in the released file."""
        return self.record["released"]["rows"]

    @property
    def columns(self) -> list[str]:
        """The columns of the file: those released by the design, then those kept as they were."""
        return [*self.record["columns"], *self.record["kept"]]

    @property
    def permuted(self) -> bool:
        """Whether the rows are in a random order; otherwise they are in that of the table."""
        return self.record.get("order") == "permuted"

    @property
    def departures(self) -> list[str]:
        """What was done otherwise than `release` does it by default, sentences without a full stop."""
        doubts = []
        ledger = self.record.get("ledger")  # absent from receipts of version 1
        if ledger is None:
            doubts.append("the receipt, of the first version of its format, does not state whether a ledger was kept")
        if ledger == "none":
            doubts.append("no ledger was kept: a second draw for the same records would not be noticed")
        if not self.permuted:
            doubts.append("rows are in the order of the table: what that order tells about a record was released too")
        after = self.record.get("after")
        if after is not None:
            stated = {name: claims["maximal-leakage"]["upper"] for name, claims in after["guarantees"].items()}
            rounded = {name: None if most is None else upper(float(most), 3) for name, most in stated.items()}
            doubts.append(
                "the same records are released by an earlier design too; of maximal leakage, in nats, "
                f"{_by_receivers(rounded)}"
            )
            if after["leakage"] is not None:
                doubts.append(
                    "with the earlier release, on the records of the design and in the units of its measure, "
                    f"{_by_receivers(after['leakage'])}"
                )
        return doubts


def _by_receivers(most: Mapping[str, str | None]) -> str:
    earlier, alone, both = ("inf" if most[name] is None else most[name] for name in COALITIONS)
    return f"receivers of the earlier one have at most {earlier}, of this release alone {alone}, of both {both}"


def read_receipt(data: bytes, name: str) -> Receipt:
    """The receipt of a file; `IntegrityError` if it is damaged or of another kind."""
    receipt = Receipt(unsealed(data, name, RECEIPT))
    if len(set(receipt.columns)) < len(receipt.columns):
        raise IntegrityError(f"{name} names a column twice")
    return receipt


def check_file(receipt: Receipt, data: bytes, name: str) -> None:
    """`IntegrityError` unless the file is, byte for byte, the one that the receipt is about."""
    stated = receipt.record["released"]
    if len(data) != stated["bytes"] or digest(data) != stated["sha256"]:
        raise IntegrityError(f"{name} is not the file that the receipt is about, or was changed since")
    if stated["format"] == "parquet" and not _is_parquet(data):
        raise IntegrityError(f"{name} is no Parquet file, which the receipt states")


def _is_parquet(data: bytes) -> bool:
    """Whether a file has the marks of Parquet at both ends, with its description between them."""
    marked = len(data) >= 12 and data[:4] == data[-4:] == b"PAR1"
    return marked and 0 < int.from_bytes(data[-8:-4], "little") <= len(data) - 12


def check_design(receipt: Receipt, design: DesignFile | GroupsFile, name: str) -> None:
    """`IntegrityError` unless the receipt is of this design."""
    if receipt.design != design.sha256:
        raise IntegrityError(f"{name} is the receipt of another design")
    if receipt.record["columns"] != [entry["column"] for entry in _released(design)]:
        raise IntegrityError(f"{name} names other columns than the design releases")
    private, useful = (
        [entry["column"] for part in design.parts for entry in part.record["codebook"][side]]
        for side in ("private", "useful")
    )
    for column in receipt.record["kept"]:
        reason = unkeepable(column, private, useful, receipt.record["columns"])
        if reason is not None:
            raise IntegrityError(f"{name}: the kept column {column!r} {reason}")


def _released(design: DesignFile | GroupsFile) -> list[Mapping[str, Any]]:
    """The released columns of all groups."""
    return [entry for part in design.parts for entry in part.record["released"]]


def contents_of(
    design: DesignFile | GroupsFile, data: bytes, name: str, kept: Sequence[str]
) -> tuple[list[tuple[int, ...]], dict[str, list[str]]]:
    """(the released symbol y of each group for every record of a CSV file, the texts of its last columns `kept`).

    Raises `IntegrityError`, naming the row, for a combination of labels that the design does not release.
    """
    places, first = [], 0
    for part in design.parts:
        labels = [[escaped(label) for label in entry["labels"]] for entry in part.record["released"]]
        rows = (
            tuple(of_column[code] for of_column, code in zip(labels, codes, strict=True)) for codes in part.released
        )
        places.append((slice(first, first + len(labels)), {row: y for y, row in enumerate(rows)}))
        first += len(labels)
    outputs: list[tuple[int, ...]] = []
    texts: dict[str, list[str]] = {column: [] for column in kept}
    for fields in released_rows(data, name, [*(entry["column"] for entry in _released(design)), *kept]):
        outputs.append(tuple(place.get(tuple(fields[cells]), -1) for cells, place in places))
        for column, text in zip(kept, fields[first:], strict=True):
            texts[column].append(text)
    unknown = [row for row, symbols in enumerate(outputs) if -1 in symbols]
    if unknown:
        raise IntegrityError(
            f"{name}, row {unknown[0]} (from 0): a combination that the design never releases (such rows: "
            f"{len(unknown)})"
        )
    return outputs, texts


def released_rows(data: bytes, name: str, columns: Sequence[str]) -> Iterator[list[str]]:
    """The records of a released CSV with these columns.

    `IntegrityError` for other columns, and for any form but that of `csv_line`: a choice between two forms in each row
    could tell something about its record.
    """
    place = 0
    for line, fields in enumerate(records_of(data, name, codec="utf-8")):
        content = csv_line(fields).encode()
        if not line and fields != [escaped(column) for column in columns]:
            raise IntegrityError(
                f"{name} has other columns than were released; columns that were kept are in its receipt: name that too"
            )
        if not data.startswith(content, place):
            where = f", row {line - 1} (from 0)" if line else ", header"
            raise IntegrityError(f"{name}{where}: quotes or line ends are not those of a released file")
        place += len(content)
        if line:
            yield fields
    if place != len(data):
        raise IntegrityError(f"{name} does not end where its last record does")


def check_kept(
    kept: Mapping[str, Sequence[str]],
    columns: Mapping[str, Sequence[str]],
    covered: Sequence[str],
    name: str,
    rows: Sequence[int] | None,
) -> dict[str, list[str]]:
    """Each kept column of the records, written as it is in the released file `name`.

    `IntegrityError` unless these are the columns of the file, and none is a covered one in other words.

    Args:
        kept: the texts of each kept column in the file.
        columns: those of the columns of the records.
        covered: the private and the useful columns.
        rows: the row of the file for each record. None if it is unknown: then it is compared how often each combination
            of texts occurs.
    """
    if rows is not None:
        kept = {column: [texts[row] for row in rows] for column, texts in kept.items()}
    arranged = sorted if rows is None else list
    written = {}
    for column, texts in kept.items():
        if column not in columns:
            raise IntegrityError(f"{name}: the kept column {column!r} is not in the records")
        # One form for the whole column: a choice in each row could tell something about its record.
        forms = ([escaped(form(value)) for value in columns[column]] for form in _WRITTEN)
        cells_of = next((cells for cells in forms if arranged(cells) == arranged(texts)), None)
        if cells_of is None:
            where = ""
            if rows is not None:
                differ = map(str.__ne__, texts, map(escaped, columns[column]))
                where = f", row {next(row for row, other in zip(rows, differ, strict=True) if other)} (from 0)"
            raise IntegrityError(f"{name}{where}: the kept column {column!r} is not that of the records")
        for other in covered:
            pairs = set(zip(cells_of, columns.get(other, ()), strict=False))
            one_to_one = len({text for text, _ in pairs}) == len({value for _, value in pairs}) == len(pairs)
            if 1 < len(pairs) < len(cells_of) and one_to_one:
                raise IntegrityError(f"{name}: the kept column {column!r} is column {other!r} in other words")
        written[column] = cells_of
    if rows is None and sorted(zip(*written.values(), strict=True)) != sorted(zip(*kept.values(), strict=True)):
        raise IntegrityError(f"{name}: the kept columns do not go together as in the records")
    return written


def _as_float(value: str) -> str:
    return repr(float(value)) if NUMBER.fullmatch(value) else value


def _as_whole(value: str) -> str:
    number = _as_float(value)
    return number.removesuffix(".0")


# How the value of a cell may be written where it was released from a frame: as it is, as true and false, as a number.
_WRITTEN: tuple[Callable[[str], str], ...] = (str, str.lower, str.capitalize, _as_float, _as_whole)
