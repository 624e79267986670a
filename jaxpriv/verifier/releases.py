"""A released file and its receipt: that the file is the one that was written, and that it holds only what it may.

A receipt binds a file to a design by their hashes. It is written last: a file without one is not a finished release. It
holds no hash of the records and no randomness. Standard library only.
"""

import csv
import gzip
import io
import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxpriv.errors import InputError, IntegrityError, JaxprivError
from jaxpriv.verifier.archive import digest, unsealed
from jaxpriv.verifier.designs import UNSEEN, DesignFile

RECEIPT = "jaxpriv-receipt"
FORMATS = ("csv", "parquet")

# What spreadsheets take for a formula; a number is none.
_FORMULA = re.compile(r"[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def escaped(text: str) -> str:
    """A text as it stands in a released CSV: with an apostrophe before what spreadsheets would compute."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


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


def read_receipt(data: bytes, name: str) -> Receipt:
    """The receipt of a file; `IntegrityError` if it is damaged or of another kind."""
    fields = ("tool", "design", "unseen", "columns", "kept", "released")
    record = unsealed(data, name, RECEIPT, fields)
    released = record["released"]
    good = isinstance(released, dict) and set(released) == {"sha256", "bytes", "rows", "format"}
    good = good and all(type(released[key]) is int and released[key] >= 0 for key in ("bytes", "rows"))
    good = good and released["format"] in FORMATS and record["unseen"] in UNSEEN
    for key in ("columns", "kept"):
        good = good and isinstance(record[key], list) and all(isinstance(one, str) for one in record[key])
    if not good or not record["columns"]:
        raise IntegrityError(f"{name} is not a receipt of a known form")
    return Receipt(record)


def check_file(receipt: Receipt, data: bytes, name: str) -> None:
    """`IntegrityError` unless the file is, byte for byte, the one that the receipt is about."""
    stated = receipt.record["released"]
    if len(data) != stated["bytes"] or digest(data) != stated["sha256"]:
        raise IntegrityError(f"{name} is not the file that the receipt is about, or was changed since")


def check_design(receipt: Receipt, design: DesignFile, name: str) -> None:
    """`IntegrityError` unless the receipt is of this design."""
    if receipt.design != design.sha256:
        raise IntegrityError(f"{name} is the receipt of another design")
    if receipt.record["columns"] != [entry["column"] for entry in design.record["released"]]:
        raise IntegrityError(f"{name} names other columns than the design releases")


def outputs_of(design: DesignFile, data: bytes, name: str, kept: Sequence[str] | None) -> list[int]:
    """The released symbol y of every record of a CSV file.

    `kept` are the columns behind the released ones, None if they are not given. Raises `IntegrityError`, naming the
    row, for a combination of labels that the design does not release.
    """
    entries = design.record["released"]
    names = [escaped(entry["column"]) for entry in entries]
    labels = [[escaped(label) for label in entry["labels"]] for entry in entries]
    place = {
        tuple(own[code] for own, code in zip(labels, codes, strict=True)): y for y, codes in enumerate(design.released)
    }
    rows = records_of(data, name)
    header = next(rows)
    wanted = names if kept is None else [*names, *map(escaped, kept)]
    if header[: len(wanted)] != wanted or (kept is not None and len(header) > len(wanted)):
        raise IntegrityError(f"{name} has other columns than the design releases")
    width = len(names)
    outputs = [place.get(tuple(fields[:width]), -1) for fields in rows]
    if -1 in outputs:
        row = outputs.index(-1)
        raise IntegrityError(
            f"{name}, row {row} (from 0): a combination that the design never releases (such rows: {outputs.count(-1)})"
        )
    return outputs


def records_of(data: bytes, name: str, error: type[JaxprivError] = IntegrityError) -> Iterator[list[str]]:
    """The header and the records of a CSV file, all of one length; `error` for anything else."""
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = next(reader, None)
        if not header:
            raise error(f"{name} is empty")
        yield header
        for fields in reader:
            if len(fields) != len(header):
                raise error(f"{name}, line {reader.line_num}: another number of fields than the header has")
            yield fields
    except (UnicodeDecodeError, csv.Error):
        raise error(f"{name} is not well-formed CSV in UTF-8") from None


def reading(settings: Sequence[str]) -> dict[str, Any]:
    """The settings of --read: delimiter=C, encoding=NAME, names=A,B, blanks, nfc; `InputError` for others."""
    given: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if name in given:
            raise InputError(f"--read gives {name} twice")
        if name in ("blanks", "nfc") and not equals:
            given[name] = True
        elif name in ("delimiter", "encoding") and value:
            given[name] = "\t" if value in ("tab", "\\t") else value
        elif name == "names" and value:
            given[name] = tuple(value.split(","))
        else:
            raise InputError(f"--read {text!r} is none of delimiter=C, encoding=NAME, names=A,B, blanks and nfc")
    return given


def plain_csv(data: bytes, name: str, settings: Sequence[str]) -> bytes:
    """A table in the dialect of `settings` (.gz and .tsv by its name) as CSV in UTF-8 with a header."""
    given, suffixes = reading(settings), name.lower()
    try:
        if suffixes.endswith(".gz"):
            data, suffixes = gzip.decompress(data), suffixes[:-3]
        if not given and not suffixes.endswith(".tsv"):
            return data
        codec = given.get("encoding", "utf-8").replace("utf-8", "utf-8-sig")
        mark = given.get("delimiter", "\t" if suffixes.endswith(".tsv") else ",")
        stream = io.StringIO(newline="")
        writer = csv.writer(stream)
        if "names" in given:
            writer.writerow(given["names"])
        rows = list(csv.reader(io.StringIO(data.decode(codec), newline=""), strict=True, delimiter=mark))
        width = len(given.get("names", rows[0] if rows else ()))
        while "blanks" in given and rows and len(rows[-1]) < width and not "".join(rows[-1]).strip():
            rows.pop()
        for fields in rows:
            texts = [field.strip() for field in fields] if "blanks" in given else fields
            writer.writerow([unicodedata.normalize("NFC", text) for text in texts] if "nfc" in given else texts)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{name} is not a complete gzip file, or is damaged") from None
    except (LookupError, UnicodeError, TypeError, ValueError, csv.Error):
        raise InputError(f"{name} cannot be read as --read states") from None
    return stream.getvalue().encode()
