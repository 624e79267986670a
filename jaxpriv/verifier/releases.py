"""A released file: that it is the one that was written, that it holds only what it may, and that it comes from its
design.

A receipt binds a file to a design by their hashes. It is written last: a file without one is not a finished release. It
holds no hash of the records and no randomness.

Does a release come from the design? A Monte Carlo test of exact level on the pairs (x, y) of its records.

Given how often each x occurs, the pairs of a release are independent draws from the rows of W. The same number of
draws is made `tables` times; on the release and on each of those:

    g          sum N ln(N / n_x W): any departure,
    identity   sum N ln(1 - a + a E/W), E the release of x itself, a = 0.05: a share was released as it is,
    merge      sum N ln(1 - a + a V/W), V the mean of the rows: a share was released independently of x,
    swap       the largest log-likelihood ratio of two rows in each other's place, of the pairs of rows that records
               tell apart best,
    residual   the largest N ln(N / n_x W) - N + n_x W of a pair that occurs: a single pair.

Each score is standardised by its mean and deviation over all tables, the release among them, and a table is as strange
as its largest score. The rank of the release by that is its p-value: under the claim every order of the tables is
equally likely (Besag and Clifford 1989), so Pr[p <= a] <= a. The rank of its g from below is another one: counts that
are nearer to n_x W than those of draws. Each p is computed with few tables at first; if it is at most 0.1, again with
more tables of their own, and if that is at most 0.01, with still more: Pr[p <= a] <= a stays true. For a > 0.1 the
first one was at most a, for a > 0.01 the second one, and for a <= 0.01 the last one.

A further test is about records that were released unchanged alone, so that its power can be stated for every number of
records. Its e-value is prod (1 - a + a 1[y = x]/W(x, x)) over all records, of expectation 1 under the claim, so that
Pr[it is 1/level or more] <= level. If a share a of the records or more is released unchanged, it is that large with
probability 0.9 for the a that `_detectable` finds, by Chernoff's bound on its lower tail. Standard library only.
"""

import csv
import functools
import io
import math
import random
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate, combinations
from typing import Any, TypeAlias

from jaxpriv.errors import InputError, IntegrityError, JaxprivError
from jaxpriv.verifier.archive import decompressed, digest
from jaxpriv.verifier.claims import ONE, Matrix, upper
from jaxpriv.verifier.designs import DesignFile, GroupsFile
from jaxpriv.verifier.records import RECEIPT, edge_of, unsealed
from jaxpriv.verifier.sequences import COALITIONS

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


# The useful symbol of every record of a CSV table, by the classes that a design states.
#
# The rules are those of `jaxpriv.statistics.tables`, written again from what they say; what a text means, a number or a
# boolean, is defined here for both. Standard library only.


NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
# From here on float64 does not hold every whole number: one that is this large may have been rounded.
EXACT = 2**53
# The spellings of a boolean that readers of CSV files know (pandas, polars, Arrow), with its one text form.
BOOLEANS = {spelling: form for form in ("false", "true") for spelling in (form, form.capitalize(), form.upper())}

# Stands for a record that is released independently of what it is.
SUPPRESSED = -1


def symbols_of(design: DesignFile, columns: Columns, name: str, unseen: str) -> list[int]:
    """The row x for every record; SUPPRESSED where the rule `unseen` is "suppress" and there is none.

    Raises `InputError` for a table without the useful columns, a value without a class, or with "refuse" a combination
    without a symbol, naming the row.
    """
    coded = []
    for entry in design.record["codebook"]["useful"]:
        texts = [values for column, values in columns if column == entry["column"]]
        if len(texts) != 1:
            raise InputError(f"{name} does not have exactly one column {entry['column']!r}")
        coded.append(map(_coder(entry["rule"], entry["labels"]), texts[0]))
    place: dict[tuple[int, ...], int] = {tuple(codes): x for x, codes in enumerate(design.useful)}
    numbers = []
    for row, codes in enumerate(zip(*coded, strict=True)):
        if -1 in codes:
            raise InputError(f"{name}, row {row} (from 0): a value has no class in the design")
        if codes not in place:
            if unseen == "refuse":
                raise InputError(f"{name}, row {row} (from 0): a combination of classes without a symbol")
            place[codes] = SUPPRESSED if unseen == "suppress" else _nearest(design, codes)
        numbers.append(place[codes])
    return numbers


def _nearest(design: DesignFile, codes: tuple[int, ...]) -> int:
    def apart(x: int) -> int:
        return sum(code != released for code, released in zip(design.useful[x], codes, strict=True))

    return min(range(len(design.useful)), key=apart)


def number_of(text: str) -> float | Decimal:
    """The number of a text: float64, exact from 2^53 on where all digits are given; NaN if it is no decimal number.

    Below 2^53 a whole number is a float64. The others are rounded to the nearest one, as edges are, and so are those
    with an exponent, which states no digit beyond its own.
    """
    if not NUMBER.fullmatch(text):
        return math.nan
    value = float(text)
    if -EXACT < value < EXACT or math.isinf(value) or "e" in text.lower():
        return value
    return Decimal(text)


def codes_by_text(values: Sequence[str]) -> dict[str, int]:
    """The place of every value, and for the other spellings of a boolean that of the only value that is one of them."""
    codes = {value: code for code, value in enumerate(values)}
    forms = [BOOLEANS.get(value) for value in values]
    for spelling, form in BOOLEANS.items():
        if spelling not in codes and forms.count(form) == 1:
            codes[spelling] = forms.index(form)
    return codes


def _coder(rule: Mapping[str, Any], labels: list[str]) -> Callable[[str], int]:
    """A text as its code; -1 without one. Classes for other and missing values come last, in that order."""
    extras = [name for name in ("other", "missing") if rule[name] is not None]
    first = len(labels) - len(extras)
    extra = {name: first + place for place, name in enumerate(extras)}
    tokens = set(rule["tokens"])
    if rule["kind"] == "categories":
        codes = codes_by_text(rule["values"])

        def classed(text: str) -> int:
            return codes.get(text[: rule.get("first")], extra.get("other", -1))
    else:
        edges = [edge_of(edge) for edge in rule["edges"]]

        def classed(text: str) -> int:
            value = number_of(text)
            if not math.isfinite(value):
                return -1
            if not edges[0] <= value <= edges[-1]:
                return extra.get("other", -1)
            return min(bisect_right(edges, value) - 1, len(edges) - 2)

    cache: dict[str, int] = {}

    def code(text: str) -> int:
        if text not in cache:
            cache[text] = extra.get("missing", -1) if text in tokens else classed(text)
        return cache[text]

    return code


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


# Tables of the first two rounds with the p-values above which they are the last, and of a third one: p-values down to
# 1/3500.
_ROUNDS, TABLES = ((99, 0.1), (999, 0.01)), 3499
# The level for which `detectable` is stated where no other one is given, and its power.
_LEVEL, _POWER = 0.001, 0.9
# The share a of the alternatives in the head of this file.
_MIXED = 0.05
# Additions for the swaps of one table, at most; the logarithm of a probability of 0 there.
_SWAPS, _NEVER = 4000, math.log(1e-12)
# The t of Chernoff's bound that are tried; each of them gives a bound.
_CHERNOFF = tuple(step / 20 for step in range(1, 20))


@dataclass(frozen=True)
class ConformityResult:
    """`p_value` of the claim "released by this design", 0 if a pair is impossible (`impossible` rows, from 0).

    `regular`: that of counts which are nearer to their expectations than those of draws. `unchanged`: that of the test
    against a share of records that were released as they are. `detectable`: the least share that this test finds in
    nine of ten cases at its level with this many records; infinite if it does not find all of them. Both are None where
    what is released has other columns.
    """

    p_value: float
    regular: float
    tables: int
    impossible: tuple[int, ...]
    unchanged: float | None
    detectable: float | None


def conformity(
    rows: Matrix,
    symbols: Sequence[int],
    outputs: Sequence[int],
    identity: Sequence[int] | None,
    tables: int = TABLES,
    level: float = _LEVEL,
) -> ConformityResult:
    """Test pairs (x, y), equally many of each, against the integer table `rows`.

    `identity`: the output that is x itself, for every x (-1 where there is none); None if outputs are of another kind.
    `level`: of the test against records that were released unchanged.
    """
    weights = weights_of(rows, symbols)
    counts = {x: [0] * len(rows[0]) for x in weights}
    impossible = []
    for row, (x, y) in enumerate(zip(symbols, outputs, strict=True)):
        counts[x][y] += 1
        if weights[x][y] == 0.0:
            impossible.append(row)
    unchanged = None if identity is None else {x: -1 if x == SUPPRESSED else identity[x] for x in weights}
    test = conformity_of_counts(weights, counts, unchanged, tables, _generator(), level)
    return replace(test, impossible=tuple(impossible[:10]))


def of_all(tests: Sequence[ConformityResult]) -> ConformityResult:
    """One result of those of several groups of columns: the least p-values, times the number of groups.

    A share of records that were released unchanged was so in every group: the one that finds the least share counts.
    """

    def least(values: Sequence[float]) -> float:
        return min(1.0, len(tests) * min(values))

    unchanged = [test.unchanged for test in tests if test.unchanged is not None]
    detectable = [test.detectable for test in tests if test.detectable is not None]
    return ConformityResult(
        least([test.p_value for test in tests]),
        least([test.regular for test in tests]),
        max(test.tables for test in tests),
        tuple(sorted({row for test in tests for row in test.impossible})),
        least(unchanged) if unchanged else None,
        min(detectable, default=None),
    )


def _generator() -> random.Random:
    return random.Random(random.SystemRandom().getrandbits(256))


def conformity_of_counts(
    weights: Mapping[int, list[float]],
    counts: Mapping[int, list[int]],
    identity: Mapping[int, int] | None,
    tables: int,
    generator: random.Random,
    level: float = _LEVEL,
) -> ConformityResult:
    """The test of counts: for each x that occurs its row of W, how often each y was released, and the y that is x.

    `impossible` is left empty.
    """
    totals = {x: sum(row) for x, row in counts.items()}
    unchanged, share = (None, None) if identity is None else _unchanged(weights, counts, identity, level)
    if any(n and not w for x, row in counts.items() for n, w in zip(row, weights[x], strict=True)):
        return ConformityResult(0.0, 1.0, 0, (), unchanged, share)
    places = dict.fromkeys(weights, -1) if identity is None else identity
    alternatives = _alternatives(weights, totals)
    drawn = _drawing(weights, totals, generator)
    seen = _scores(weights, counts, places, alternatives)
    p, regular, size = _p_values(seen, lambda: _scores(weights, drawn(), places, alternatives), tables)
    return ConformityResult(p, regular, size, (), unchanged, share)


def conformity_of_totals(
    rows: Matrix, symbols: Sequence[int], outputs: Sequence[int], identity: Sequence[int] | None, tables: int = TABLES
) -> ConformityResult:
    """The same claim where it is unknown which record a released row is of: only how often each y occurs.

    The totals N have the mean E = sum n_x W. Scores: g = sum N ln(N / E), identity = sum N ln(1 - a + a I/E) where I is
    how many records are y themselves, and residual, of N against E. `impossible` rows are released for no record at
    all. Arguments as for `conformity`.
    """
    weights, totals = weights_of(rows, symbols), Counter(symbols)
    size = len(rows[0])
    expected = [math.fsum(n * weights[x][y] for x, n in totals.items()) for y in range(size)]
    unchanged = [0] * size
    for x, n in totals.items():
        if identity is not None and x != SUPPRESSED and identity[x] >= 0:
            unchanged[identity[x]] += n
    impossible = [row for row, y in enumerate(outputs) if not expected[y]]
    if impossible:
        return ConformityResult(0.0, 1.0, 0, tuple(impossible[:10]), None, None)

    def scores(counts: Sequence[int]) -> tuple[float, ...]:
        ratios = [(n, n * math.log(n / e), e, i) for n, e, i in zip(counts, expected, unchanged, strict=True) if n]
        return (
            sum(term for _, term, _, _ in ratios),
            sum(n * math.log1p(_MIXED * (i / e - 1.0)) for n, _, e, i in ratios),
            max(term - n + e for n, term, e, _ in ratios),
        )

    drawn = _drawing(weights, totals, _generator())
    seen = Counter(outputs)
    p, regular, made = _p_values(
        scores([seen[y] for y in range(size)]),
        lambda: scores([sum(column) for column in zip(*drawn().values(), strict=True)]),
        tables,
    )
    return ConformityResult(p, regular, made, (), None, None)


def chance_of_order(rows: Matrix, symbols: Sequence[int], outputs: Sequence[int]) -> float:
    """A bound on the chance that released rows in a random order agree as well with the records as they stand.

    T = sum a(x, y) over records and the rows in the same place, a = W(y|x) / max_x W(y|x). In a random order it has
    the mean M of all pairs, and Pr[T - M >= t] <= 2 exp(-t^2 / (4 M + 2 t)) (Chatterjee 2007, proposition 1.1).
    """
    weights, pairs = weights_of(rows, symbols), Counter(zip(symbols, outputs, strict=True))
    largest = [max(column) for column in zip(*weights.values(), strict=True)]
    records, released = Counter(symbols), Counter(outputs)

    def agreement(x: int, y: int) -> float:
        return weights[x][y] / largest[y] if largest[y] else 0.0

    seen = math.fsum(n * agreement(x, y) for (x, y), n in pairs.items())
    mean = math.fsum(n * m * agreement(x, y) for x, n in records.items() for y, m in released.items()) / len(symbols)
    beyond = seen - mean
    return min(2.0 * math.exp(-(beyond**2) / (4.0 * mean + 2.0 * beyond)), 1.0) if beyond > 0 else 1.0


def _drawing(
    weights: Mapping[int, list[float]], totals: Mapping[int, int], generator: random.Random
) -> Callable[[], dict[int, list[int]]]:
    """Draws tables of counts under the claim: for each x as many outputs from its row of W as the release has."""
    running = {x: list(accumulate(row)) for x, row in weights.items()}
    return lambda: {x: _multinomial(totals[x], row, running[x], generator) for x, row in weights.items()}


def _p_values(seen: tuple[float, ...], drawn: Callable[[], tuple[float, ...]], tables: int) -> tuple[float, float, int]:
    """The rank of the scores `seen` among those `drawn` under the claim, that of g from below, and how many were drawn.

    g is the first of the scores.
    """
    p_values, last, size = (0.0, 0.0), 1.0, 0
    rounds = [(min(size, tables), least) for size, least in _ROUNDS] + [(tables, 0.0)] * (tables > _ROUNDS[-1][0])
    for size, least in rounds:
        scores = [seen, *(drawn() for _ in range(size))]
        strange = [max(row) for row in zip(*map(_standardised, zip(*scores, strict=True)), strict=True)]
        beyond = (
            sum(score >= strange[0] for score in strange),
            sum(round(score[0], 9) <= round(seen[0], 9) for score in scores),
        )
        p_values = tuple(n / len(scores) if p <= last else p for n, p in zip(beyond, p_values, strict=True))
        last = least
        if min(p_values) > least:
            break
    p, regular = p_values
    return p, regular, size


def weights_of(rows: Matrix, symbols: Sequence[int]) -> dict[int, list[float]]:
    """W of every x that occurs; of a suppressed record the mean of all rows."""
    used = set(symbols)
    weights = {x: [entry / ONE for entry in rows[x]] for x in used if x != SUPPRESSED}
    if SUPPRESSED in used:
        weights[SUPPRESSED] = [sum(column) / (len(rows) * ONE) for column in zip(*rows, strict=True)]
    return weights


@dataclass(frozen=True)
class _Alternatives:
    """ln(1 - a + a V/W) for every x, V the mean row; pairs of rows with the logarithms of their ratios."""

    merge: dict[int, list[float]]
    swaps: list[tuple[int, int, list[float]]]


def _alternatives(weights: Mapping[int, list[float]], totals: Mapping[int, int]) -> _Alternatives:
    records = sum(totals.values())
    size = len(next(iter(weights.values())))
    mean = [sum(totals[x] * row[y] for x, row in weights.items()) / max(records, 1) for y in range(size)]
    merge = {
        x: [math.log1p(_MIXED * (v / w - 1.0)) if w else 0.0 for v, w in zip(mean, row, strict=True)]
        for x, row in weights.items()
    }
    logs = {x: [math.log(w) if w else _NEVER for w in row] for x, row in weights.items()}
    used = sorted(weights, key=lambda x: -totals[x])[: int(math.sqrt(2 * _SWAPS)) + 1]

    def separation(pair: tuple[int, int]) -> float:
        first, second = (weights[x] for x in pair)
        apart = sum((a - b) ** 2 / (a + b) for a, b in zip(first, second, strict=True) if a + b)
        return apart * min(totals[pair[0]], totals[pair[1]])

    pairs = sorted(combinations(used, 2), key=separation, reverse=True)[: max(1, _SWAPS // size)]
    swaps = [(a, b, [v - u for u, v in zip(logs[a], logs[b], strict=True)]) for a, b in pairs]
    return _Alternatives(merge, swaps)


def _scores(
    weights: Mapping[int, list[float]],
    counts: Mapping[int, list[int]],
    identity_of: Mapping[int, int],
    alternatives: _Alternatives,
) -> tuple[float, ...]:
    g = identity = residual = merge = 0.0
    for x, row in counts.items():
        total, mass = sum(row), weights[x]
        for seen, weight in zip(row, mass, strict=True):
            if seen:
                expected = total * weight
                g += seen * math.log(seen / expected)
                residual = max(residual, seen * math.log(seen / expected) - seen + expected)
        if identity_of[x] >= 0 and mass[identity_of[x]]:
            identity += row[identity_of[x]] * math.log1p(_MIXED / (1 - _MIXED) / mass[identity_of[x]])
        merge += sum(map(float.__mul__, alternatives.merge[x], map(float, row)))
    swap = max(
        (
            sum((n - m) * ratio for n, m, ratio in zip(counts[a], counts[b], ratios, strict=True))
            for a, b, ratios in alternatives.swaps
        ),
        default=0.0,
    )
    return g, identity, merge, swap, residual


def _standardised(values: Sequence[float]) -> list[float]:
    """Less the mean, over the deviation; equal values are 0. Rounded, so that ties stay ties."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [round((value - mean) / deviation, 9) if deviation > 0 else 0.0 for value in values]


def _unchanged(
    weights: Mapping[int, list[float]], counts: Mapping[int, list[int]], identity: Mapping[int, int], level: float
) -> tuple[float | None, float | None]:
    """(the p-value of the test against records that were released as they are, the share that it finds)."""
    cells = [
        (sum(row), row[identity[x]], weights[x][identity[x]])
        for x, row in counts.items()
        if identity[x] >= 0 and weights[x][identity[x]]
    ]
    if all(weight == 1.0 for _, _, weight in cells):
        return None, None
    share = _detectable([(n, weight) for n, _, weight in cells], level)
    evidence = unchanged_evidence(cells, 0.5 if math.isinf(share) else share)
    return math.exp(-max(evidence, 0.0)), share


def unchanged_evidence(cells: Sequence[tuple[int, int, float]], share: float) -> float:
    """The logarithm of the e-value against a `share` of records that were released as they are.

    `cells` has for each x how often it occurs, how often it was released as it is, and W(x, x).
    """
    return math.fsum(
        same * math.log1p(share * (1 / weight - 1)) + (n - same) * math.log1p(-share) for n, same, weight in cells
    )


def _detectable(cells: Sequence[tuple[int, float]], level: float) -> float:
    """The least share a, to three digits, whose e-value is at least 1/level with probability 0.9 where a is released.

    `cells`: for each x how often it occurs, n, and w = W(x, x). With e the e-value and 0 < t < 1, by Chernoff,

        Pr[e < 1/level] <= level^-t E[e^-t] = level^-t prod_x ((w + a (1-w))^(1-t) w^t + (1-w) (1-a)^(1-t))^n.

    It decreases as a grows: what a smaller share gives is that of a larger one with some records drawn again.
    """

    def missed(share: float, t: float) -> float:
        moments = (
            n * math.log((w + share * (1 - w)) ** (1 - t) * w**t + (1 - w) * (1 - share) ** (1 - t)) for n, w in cells
        )
        return math.fsum(moments) - t * math.log(level)

    def detectable(share: float) -> bool:
        return any(missed(share, t) <= math.log(1 - _POWER) for t in _CHERNOFF)

    low, high = 0.0, 0.999
    if not detectable(high):
        return math.inf
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if detectable(middle) else (middle, high)
    digits = 10.0 ** (2 - math.floor(math.log10(high)))
    return min(math.ceil(high * digits) / digits, 0.999)


def _multinomial(count: int, weights: list[float], running: list[float], generator: random.Random) -> list[int]:
    seen = [0] * len(weights)
    if count < 20 * len(weights):
        for y in generator.choices(range(len(weights)), cum_weights=running, k=count):
            seen[y] += 1
        return seen
    left, mass = count, 1.0
    for y, weight in enumerate(weights):
        if not left:
            break
        if weight:
            seen[y] = left if weight >= mass else _binomial(left, weight / mass, generator)
        left, mass = left - seen[y], mass - weight
    if left:  # the rest of a mass that rounding left over
        seen[max(range(len(weights)), key=weights.__getitem__)] += left
    return seen


def _binomial(count: int, chance: float, generator: random.Random) -> int:
    """By order statistics: a beta variable splits the count in halves (Devroye 1986, section X.4.4)."""
    successes = 0
    while count > 32:
        half = (count + 1) // 2
        split = generator.betavariate(half, count + 1 - half)
        if split <= chance:
            successes += half
            count -= half
            chance = (chance - split) / (1.0 - split)
        else:
            count = half - 1
            chance /= split
    return successes + sum(generator.random() < chance for _ in range(count))
