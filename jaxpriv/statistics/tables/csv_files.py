"""CSV files in a stated dialect: delimiter, encoding, compression, a missing header, blanks, composed letters.

Nothing is guessed, and nothing is changed that was not asked for. A file is read strictly, in one pass and line by
line; a line that is too long for any table is refused before it is in memory.
"""

import csv
import gzip
import io
import os
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jaxpriv._runtime.near import near
from jaxpriv._runtime.resources import need_memory
from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.verifier.csv_text import number_form, plain, plain_number
from jaxpriv.verifier.symbols import NUMBER

if TYPE_CHECKING:
    from _csv import Reader


ENCODINGS = {"utf-8": "utf-8-sig", "latin-1": "latin-1", "cp1252": "cp1252", "utf-16": "utf-16"}
_AT_ONCE = 2**15  # records that are looked at together, at most
_CELLS = 2**21  # fields of those, at most
_LONGEST = 2**24  # characters of a line

# For each column its different texts and the place of each record among them.
Factors = tuple[list[str], np.ndarray]


@dataclass(frozen=True)
class TableFile:
    """A file and how it is read, in place of a path: every function and command that reads tables takes it.

    Attributes:
        path: .csv, .tsv (both also with .gz behind) or .parquet.
        delimiter: one character; None: a tab for .tsv, a comma otherwise.
        encoding: utf-8 (a byte order mark is no part of the first name), latin-1, cp1252 or utf-16.
        names: the names of all columns of a file without a header; None: the first record has them.
        decimal, thousands: the marks of numbers, "," and "." in 1.234,5. Values that are numbers so written are read
            with a point and without groups, as 1234.5; one that has another mark is an error.
        empty: texts that stand for an empty cell, as NA does in files of R. Names of columns are not changed.
        blanks: leave out blanks around names and values, and blank lines at the end of the file.
        nfc: compose letters and their accents (Unicode NFC), in names and values.

    All but the path are for CSV. Raises `InputError` for other values.
    """

    path: str | os.PathLike[str]
    delimiter: str | None = None
    encoding: str = "utf-8"
    names: tuple[str, ...] | None = None
    decimal: str = "."
    thousands: str = ""
    empty: tuple[str, ...] = ()
    blanks: bool = False
    nfc: bool = False

    def __post_init__(self) -> None:
        mark = self.delimiter
        if mark is not None and (not isinstance(mark, str) or len(mark) != 1 or mark in '"\r\n'):
            raise InputError("delimiter must be one character, no quote and no line break")
        if self.encoding not in ENCODINGS:
            raise InputError(f"encoding must be one of {', '.join(ENCODINGS)}")
        if self.names is not None:
            names = () if isinstance(self.names, str) else tuple(self.names)
            if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
                raise InputError("names must be the different names of all columns, none of them empty")
            object.__setattr__(self, "names", names)
        number_form(self.decimal, self.thousands)
        texts = () if isinstance(self.empty, str) else tuple(self.empty)
        if self.empty and not (texts and all(isinstance(text, str) for text in texts)):
            raise InputError("empty must be the texts that stand for an empty cell")
        object.__setattr__(self, "empty", texts)

    @property
    def kind(self) -> str | None:
        """`csv` or `parquet`, by the name of the file; None for another one."""
        name = Path(self.path).name.lower()
        if name.endswith(".parquet"):
            return "parquet"
        return "csv" if name.removesuffix(".gz").endswith((".csv", ".tsv")) else None

    @property
    def changed(self) -> bool:
        """Whether anything about CSV was stated."""
        return self != TableFile(self.path)

    def tidy(self, text: str) -> str:
        """A name as it is taken."""
        if self.blanks:
            text = text.strip()
        return unicodedata.normalize("NFC", text) if self.nfc else text

    def value(self, text: str) -> str:
        """A value as it is taken; `ValueError` for a number in other marks."""
        text, marks = self.tidy(text), (self.decimal, self.thousands)
        if text in self.empty:
            return ""
        if NUMBER.fullmatch(text) and not number_form(*marks).fullmatch(text):
            raise ValueError
        return plain_number(text, *marks)


def row_text(row: int) -> str:
    """How messages name a row, of a file too: there the header and line breaks inside fields are lines as well."""
    return f"row {int(row)} (from 0)"


def need_columns(present: Sequence[str], names: Sequence[str], table: str, *, repeated: bool = False) -> None:
    """Every name, exactly once unless columns may be `repeated`. Of other names only one that resembles it is shown:
    without a header they are data.
    """
    for name in names:
        count = list(present).count(name)
        if count > 1 and not repeated:
            raise InputError(f"{table} has {count} columns named {name!r}; rename them")
        if not count:
            raise InputError(f"{table} has no column {name!r} among its {len(present)}{_hint(name, present)}")


def _hint(name: str, present: Sequence[str]) -> str:
    """What a column that is not among those `present` may be about."""
    if name.isdigit() or len(set(present)) < len(present) or any(NUMBER.fullmatch(str(column)) for column in present):
        return "; for a file without a header name all its columns, on the command line --read names=A,B"
    return _other_delimiter(present) or near(name, map(str, present), plain)


@contextmanager
def _reading(file: TableFile) -> Iterator["Reader"]:
    """The records of a CSV file; within it what is malformed is an error that names the line, where one is known."""
    path = Path(file.path)
    name = path.name.lower()
    content = gzip.open(path, "rb") if name.endswith(".gz") else open(path, "rb")  # noqa: SIM115
    with io.TextIOWrapper(content, encoding=ENCODINGS[file.encoding], newline="") as stream:  # type: ignore[arg-type]
        mark = file.delimiter or ("\t" if name.removesuffix(".gz").endswith(".tsv") else ",")
        reader = csv.reader(_lines(stream, file), strict=True, delimiter=mark)
        try:
            yield reader
        except csv.Error:
            raise InputError(
                f"{file.path}, line {reader.line_num}: not well-formed CSV (quotes, or a field too long)"
            ) from None
        except UnicodeError:
            raise InputError(
                f"{path}{_undecodable(file)} is not {file.encoding} text; name its encoding, one of "
                f"{', '.join(ENCODINGS)}: on the command line --read encoding=NAME"
            ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise IntegrityError(f"{path} is not a complete gzip file, or is damaged") from None


def _lines(stream: io.TextIOWrapper, file: TableFile) -> Iterator[str]:
    """The lines; one that is longer than any of a table is refused while it is read."""
    number = 0
    while line := stream.readline(_LONGEST):
        number += 1
        if len(line) == _LONGEST:
            raise InputError(f"{file.path}, line {number}: longer than {_LONGEST} characters")
        if "\0" in line:
            raise InputError(
                f"{file.path}, line {number}: a NUL character, which no text of a table holds; if the file has another "
                f"encoding than {file.encoding}, name it: on the command line --read encoding=NAME"
            )
        yield line


class _Places(dict[str, int]):
    """The place of each text among the different ones, in the order in which they come."""

    def __missing__(self, text: str) -> int:
        self[text] = place = len(self)
        return place


def read_csv(file: TableFile, names: Sequence[str]) -> dict[str, Factors]:
    """The columns `names` of a CSV file; several columns of one name are one if they hold the same texts.

    Raises `InputError` naming the line and the row of what is malformed, `IntegrityError` for a damaged .gz.
    """
    with _reading(file) as reader:
        first, header = _header(reader, file)
        need_columns(header, names, str(file.path), repeated=True)
        wanted = [(name, k) for name in names for k, column in enumerate(header) if column == name]
        fields = [itemgetter(k) for _, k in wanted]
        text_places: list[_Places] = [_Places() for _ in wanted]
        parts: list[list[np.ndarray]] = [[] for _ in wanted]
        rest, rows = _even(reader, file, [] if file.names is None else [first], len(header)), 0
        while records := list(islice(rest, max(1, min(_AT_ONCE, _CELLS // len(header))))):
            rows += len(records)
            need_memory(2 * 8.0 * rows * len(names), f"{file.path}: {rows} rows", "read fewer columns")
            for field, places, part in zip(fields, text_places, parts, strict=True):
                texts = map(places.__getitem__, map(field, records))
                part.append(np.fromiter(texts, dtype=np.int64, count=len(records)))
    columns: dict[str, Factors] = {}
    for (name, _), places, part in zip(wanted, text_places, parts, strict=True):
        texts, place = list(places), np.concatenate([*part, np.zeros(0, dtype=np.int64)])
        before, rows_before = columns.setdefault(name, (texts, place))
        if texts != before or not np.array_equal(place, rows_before):
            raise InputError(f"{file.path} has {header.count(name)} columns named {name!r}, which differ; rename them")
    return {name: _tidied(file, name, *column) for name, column in columns.items()}


def header_of(file: TableFile) -> list[str]:
    """The names of all columns of a CSV file; errors as for `read_csv`."""
    with _reading(file) as reader:
        return _header(reader, file)[1]


def _header(reader: "Reader", file: TableFile) -> tuple[list[str], list[str]]:
    """The first record, and the names of all columns."""
    first = next(reader, None)
    if first is None:
        raise InputError(f"{file.path} is empty")
    return first, [file.tidy(name) for name in first] if file.names is None else list(file.names)


def _even(reader: "Reader", file: TableFile, first: list[list[str]], width: int) -> Iterator[list[str]]:
    """The records, after `first`, without blank lines at the end if they are left out.

    The first of another width is an `InputError` that names its line: a few compressed bytes may stand for many long
    ones. A blank field of a single column is a value.
    """
    wrong = None
    for row, fields in enumerate(chain(first, reader)):
        if wrong is None and len(fields) == width:
            yield fields
            continue
        wrong = wrong or (reader.line_num, row, fields)
        if not file.blanks or len(fields) >= width or "".join(fields).strip():
            line, row, fields = wrong
            hint = "" if fields else " (the line is blank: remove it; at the end of a file --read blanks does)"
            raise InputError(f"{file.path}, line {line}, {row_text(row)}: {len(fields)} fields, {width} needed{hint}")


def _tidied(file: TableFile, name: str, distinct: list[str], place: np.ndarray) -> Factors:
    if replace(file, delimiter=None, encoding="utf-8", names=None) == TableFile(file.path):
        return distinct, place
    merged, index = _Places(), np.zeros(len(distinct), dtype=np.int64)
    for at, text in enumerate(distinct):
        try:
            index[at] = merged[file.value(text)]
        except ValueError:
            row = row_text(np.flatnonzero(place == at)[0])
            raise InputError(
                f"column {name!r}, {row} is a number in other marks than decimal={file.decimal} and "
                f"thousands={file.thousands or 'none'}"
            ) from None
    return list(merged), index[place] if len(index) else place


def _other_delimiter(header: Sequence[str]) -> str:
    """What a header of one field may be about; empty for others."""
    marks = {";": (";", "';'"), "\t": ("tab", "a tab"), "|": ("|", "'|'")}
    delimiters = [names for mark, names in marks.items() if len(header) == 1 and mark in header[0]]
    if not delimiters:
        return ""
    ((option, shown), *_) = delimiters
    return f"; its first line has {shown}: name the delimiter, on the command line --read 'delimiter={option}'"


def _undecodable(file: TableFile) -> str:
    """`, line N` of the first line that is not of the encoding, where lines can be separated before decoding."""
    if file.encoding == "utf-16":
        return ""
    opened = gzip.open if str(file.path).lower().endswith(".gz") else open
    with opened(file.path, "rb") as stream:
        number = 0
        while line := stream.readline(_LONGEST):
            number += 1
            try:
                line.decode(file.encoding)
            except UnicodeError:
                return f", line {number},"
    return ""
