"""The text of tables: how a released CSV is written, and how tables of other dialects become one."""

import csv
import functools
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from jaxpriv.errors import InputError, IntegrityError, JaxprivError
from jaxpriv.verifier.archive import decompressed

# What spreadsheets take for a formula: some skip blanks, control characters and marks without width before it, and some
# take a tab or a line break alone for the start of one. A number is none.
_FORMULA = re.compile(r"'*(?:[\t\r\n]|[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2060-\u2064\ufeff]*[=+\-@＝＋－＠﹢﹣﹦﹫])")


_PLAIN_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def escaped(text: str) -> str:
    """A text as it stands in a released CSV: with an apostrophe before what spreadsheets would compute.

    Such a text with apostrophes before it gets a further one, so that no two texts become the same.
    """
    return f"'{text}" if _FORMULA.match(text) and not _PLAIN_NUMBER.fullmatch(text) else text


_QUOTED = re.compile(r'["\r\n]')  # beside commas


def csv_line(cells: Sequence[str]) -> str:
    """The one form of a record of a released CSV: quotes where they are needed and nowhere else, and a line feed."""
    line = ",".join(cells)
    if line.count(",") >= len(cells) or _QUOTED.search(line):
        line = ",".join([_quoted(cell) if "," in cell or _QUOTED.search(cell) else cell for cell in cells])
    return (line or '""') + "\n"


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def column_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """One name or several, as several: a text is one name, not its letters."""
    return tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (names,)


def plain(name: str) -> str:
    """A name without blanks, case and composition: names that look alike have the same."""
    return "".join(unicodedata.normalize("NFKC", name).split()).casefold()


def records_of(
    data: bytes, name: str, error: type[JaxprivError] = IntegrityError, codec: str = "utf-8-sig"
) -> Iterator[list[str]]:
    """The header and the records of a CSV file, all of one length; `error` for anything else."""
    try:
        content = data.decode(codec)
        if "\0" in content:
            line = content.count("\n", 0, content.index("\0")) + 1
            raise error(f"{name}, line {line}: a NUL character, which no text of a table holds")
        reader = csv.reader(io.StringIO(content, newline=""), strict=True)
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


# The name and the texts of every column of a table, in which a name may occur twice.
Columns: TypeAlias = list[tuple[str, list[str]]]


def columns_of(data: bytes, name: str) -> Columns:
    """The name and the texts of every column of the records; `InputError` for what is no CSV table in UTF-8."""
    rows = records_of(data, name, InputError)
    columns: Columns = [(column, []) for column in next(rows)]
    seen: dict[str, str] = {}  # one object for equal texts
    for fields in rows:
        for (_, texts), text in zip(columns, fields, strict=True):
            texts.append(seen.setdefault(text, text))
    return columns


def reading(settings: Sequence[str]) -> dict[str, Any]:
    """The settings of --read by their names; `InputError` for others."""
    given: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if name in given:
            raise InputError(f"--read gives {name} twice")
        if name in ("blanks", "nfc") and not equals:
            given[name] = True
        elif name in ("delimiter", "encoding", "decimal", "thousands") and value:
            given[name] = "\t" if value in ("tab", "\\t") else value
        elif name in ("names", "empty") and value:
            given[name] = tuple(value.split(","))
        else:
            raise InputError(f"--read {text!r} is none of {READ}")
    return given


READ = "delimiter=C, encoding=NAME, names=A,B, decimal=C, thousands=C, empty=A,B, blanks and nfc"


@functools.cache
def number_form(decimal: str, thousands: str) -> re.Pattern[str]:
    """Numbers with this decimal mark, and where `thousands` is not empty with this mark between groups of three digits.

    Raises `InputError` for marks that are none.
    """
    if decimal not in (".", ",") or thousands == decimal or not re.fullmatch(r"[^\w+-]?|_", thousands):
        raise InputError("decimal must be a point or a comma, thousands another mark, no letter, digit or sign")
    mark = re.escape(decimal)
    whole = f"[0-9]{{1,3}}({re.escape(thousands)}[0-9]{{3}})+|[0-9]+" if thousands else "[0-9]+"
    return re.compile(rf"\s*[+-]?(({whole})({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)


def plain_number(text: str, decimal: str, thousands: str) -> str:
    """A number in these marks with a point and without groups; any other text as it is."""
    if not number_form(decimal, thousands).fullmatch(text):
        return text
    return text.replace(thousands, "").replace(decimal, ".")


def plain_csv(data: bytes, name: str, settings: Sequence[str]) -> bytes:
    """A table in the dialect of `settings` (.gz and .tsv by its name) as CSV in UTF-8 with a header."""
    given, suffixes = reading(settings), name.lower()
    if suffixes.endswith(".gz"):
        data, suffixes = decompressed(data, name), suffixes[:-3]
    if not given and not suffixes.endswith(".tsv"):
        return data
    try:
        codec = given.get("encoding", "utf-8").replace("utf-8", "utf-8-sig")
        mark = given.get("delimiter", "\t" if suffixes.endswith(".tsv") else ",")
        stream = io.StringIO(newline="")
        writer = csv.writer(stream)
        marks = given.get("decimal", "."), given.get("thousands", "")
        if "names" in given:
            writer.writerow(given["names"])
        rows = list(csv.reader(io.StringIO(data.decode(codec), newline=""), strict=True, delimiter=mark))
        width = len(given.get("names", rows[0] if rows else ()))
        while "blanks" in given and rows and len(rows[-1]) < width and not "".join(rows[-1]).strip():
            rows.pop()
        for place, fields in enumerate(rows):
            texts = [field.strip() for field in fields] if "blanks" in given else fields
            texts = [unicodedata.normalize("NFC", text) for text in texts] if "nfc" in given else texts
            if place or "names" in given:
                empty = given.get("empty", ())
                texts = ["" if text in empty else plain_number(text, *marks) for text in texts]
            writer.writerow(texts)
    except (LookupError, UnicodeError, TypeError, ValueError, csv.Error):
        raise InputError(f"{name} cannot be read as --read states") from None
    return stream.getvalue().encode()
