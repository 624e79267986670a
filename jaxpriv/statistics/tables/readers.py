"""Readers of tables: frames, columns by name, CSV and Parquet files.

Inside there are only `Column`s: whole numbers, real numbers, or text, with a mask of what is missing.
A missing value is what the source itself calls missing (null; NaN in pandas). Words such as "NA" and
"None" are text like any other: Namibia is not missing. In a number column infinities, and NaN where it
does not mean missing, are errors.

CSV is read by Python's own reader, strictly and in one pass: it names the line of a malformed or
ragged record, where faster readers fill short records with nulls. Every CSV column is text; a rule that
needs numbers parses them. Booleans are the texts "true" and "false"; categories take their other spellings too.

Whole numbers that a float would round are integers, texts, or an error.
"""

import datetime
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from jaxpriv.errors import InputError, ResourceError
from jaxpriv.statistics.tables.csv_files import TableFile, header_of, need_columns, read_csv, row_text
from jaxpriv.statistics.tables.parquet_files import decoded
from jaxpriv.verifier.csv_text import READ
from jaxpriv.verifier.symbols import EXACT

if TYPE_CHECKING:
    from narwhals import Series

# A frame of pandas, polars or Arrow; a mapping from names to one-dimensional arrays; the path of a .csv, .tsv or
# .parquet; a `TableFile`, which declares how a CSV is read.
Source: TypeAlias = object

NO_TABLE = "tables are read from .csv, .tsv (also .gz) and .parquet files"

Kind = Literal["integer", "number", "text"]

# What no text of a table may hold: a NUL character, and halves of characters, which no file can be written with.
BROKEN = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Column:
    """One column: int64, float64 or (object) str values (n,), arbitrary where `missing` (n,).

    `factors`: the different values of a text column, (k,), and the place of each row's among them, (n,), where the
    reader
    lists them: rules then read k values in place of n. `origin`: where the rows stand in the table, (n,), if this is
    a part of it.
    """

    name: str
    kind: Kind
    values: np.ndarray
    missing: np.ndarray
    factors: tuple[np.ndarray, np.ndarray] | None = None
    origin: np.ndarray | None = None

    @property
    def texts(self) -> list[str]:
        """Every value as text; a whole number in a column of floats as 1, not 1.0."""
        values = self.values.tolist()
        return [str(int(value) if isinstance(value, float) and value.is_integer() else value) for value in values]

    def mapped(self, function: Callable[[str], object], kind: type) -> np.ndarray:
        """`function` of every value, missing ones too, as an array (n,) of `kind`."""
        if self.factors is None:
            return np.fromiter(map(function, self.values.tolist()), dtype=kind, count=len(self.values))
        distinct, place = self.factors
        return np.fromiter(map(function, distinct.tolist()), dtype=kind, count=len(distinct))[place]

    def part(self, rows: np.ndarray) -> "Column":
        """The rows that a mask (n,) chooses."""
        factors = None if self.factors is None else (self.factors[0], self.factors[1][rows])
        origin = np.flatnonzero(rows) if self.origin is None else self.origin[rows]
        return Column(self.name, self.kind, self.values[rows], self.missing[rows], factors, origin)

    def where(self, row: int) -> str:
        """How messages name a place: by the row of the table, of a part of it too."""
        return f"column {self.name!r}, {row_text(row if self.origin is None else int(self.origin[row]))}"


def read_columns(source: Source, names: Sequence[str]) -> dict[str, Column]:
    """The columns `names` of a source, all of the same length >= 1.

    Raises `InputError` for a column that is absent or occurs twice, of a kind that has no classes
    (lists, times of day ...), with non-finite numbers, or of another length; for series of pandas with different
    indices; for a table without rows; and for a malformed CSV file, naming its line and row. `IntegrityError` for a
    Parquet file that is damaged or incomplete. `ResourceError` if a file cannot be read or a table library is not
    installed.

    Rows count from 0, without the header, in every message about a table.
    """
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"names of columns are texts; one is of type {type(name).__name__}")
        if BROKEN.search(name):
            raise InputError(f"the name of column {name!r} holds a NUL character, or one half of a character")
    if isinstance(source, (str, os.PathLike)):
        source = TableFile(source)
    if isinstance(source, TableFile):
        columns = _from_file(source, names)
    elif isinstance(source, Mapping):
        need_columns(list(source), names, "the table")
        _need_one_index({name: source[name] for name in names})
        columns = {name: column_of(name, source[name]) for name in names}
    else:
        columns = _from_frame(source, names)
    sizes = {name: len(column.values) for name, column in columns.items()}
    first = names[0]
    for name, size in sizes.items():
        if size != sizes[first]:
            raise InputError(f"column {name!r} has {size} rows, column {first!r} has {sizes[first]}")
    if not sizes[first]:
        raise InputError("the table has no rows")
    return columns


# -- frames and arrays -----------------------------------------------------------------------------


def _need_one_index(columns: Mapping[str, Any]) -> None:
    """Refuse series whose rows pandas would match by their index: here they would be matched by their places."""
    series = [(name, values) for name, values in columns.items() if _is_native(values, "is_pandas_like_series")]
    for name, values in series[1:]:
        first, other = series[0]
        if len(values) == len(other) and not values.index.equals(other.index):
            raise InputError(
                f"columns {first!r} and {name!r} are series with different indices; make one frame of them, or reset "
                "the indices, if rows belong together by their places"
            )


def _from_frame(source: object, names: Sequence[str]) -> dict[str, Column]:
    parts = parts_of_frame(source)
    need_columns([name for name, _ in parts], names, "the table")
    series = dict(parts)
    return {name: column_of(name, series[name]) for name in names}


def parts_of_frame(source: object) -> list[tuple[str, object]]:
    """The name and the series of each column of a frame, in their order; `InputError` for what is no frame."""
    try:
        import narwhals as nw  # an extra
    except ImportError as error:
        raise ResourceError("frames need narwhals: pip install 'jaxpriv[tables]', or pass columns by name") from error
    given: Any = source  # refused below where it is no frame
    try:
        frame = nw.from_native(given, eager_only=True)
    except TypeError:
        raise InputError(
            "the table must be an eager pandas, polars or Arrow frame, a mapping from names to arrays, or a path"
        ) from None
    except nw.exceptions.DuplicateError:
        raise InputError("two columns of the table have the same name; rename them") from None
    return [(series.name, series) for series in frame.iter_columns()]


def _from_series(nw: ModuleType, name: str, series: "Series[Any]") -> Column:
    kind, missing = series.dtype, np.asarray(series.is_null().to_numpy(), dtype=bool)
    if kind in (nw.String, nw.Categorical, nw.Enum):
        texts = series if kind == nw.String else series.cast(nw.String)
        # A list: on its way to an array of text a NUL at the end would be dropped.
        return _text(name, texts.fill_null("").to_list(), missing)
    if kind in (nw.Int128, nw.UInt128):
        raise _beyond(name)
    if kind.is_numeric():
        values = (series if kind.is_integer() else series.cast(nw.Float64)).fill_null(0).to_numpy()
        if kind.is_decimal() and (abs(values) >= EXACT).any():
            raise _rounded(name)
    elif kind == nw.Boolean:
        values = series.fill_null(False).to_numpy().astype(bool)
    elif kind in (nw.Object, nw.Unknown, nw.Date, nw.Datetime):  # narwhals does not know America/New_York
        values = series.to_numpy()
    else:
        raise _unusable(name)
    return _of_kind(name, values, missing)


def column_of(name: str, values: object) -> Column:
    """A series of pandas, polars or Arrow, or an array, as a column.

    Dates, with or without a time, are texts in the shortest form of ISO 8601 and UTC: "2026-01-31".
    """
    if isinstance(values, Column):  # read before
        return values
    if is_series(values):
        import narwhals as nw

        given: Any = values
        return _from_series(nw, name, nw.from_native(given, series_only=True))
    return _from_array(name, values)


def is_series(values: object) -> bool:
    """Whether it is a series of a table library; without narwhals none is known."""
    return _is_native(values, "is_into_series")


def is_frame(values: object) -> bool:
    """Whether it is a frame of a table library; without narwhals none is known."""
    return _is_native(values, "is_into_dataframe")


def _is_native(values: object, asked: str) -> bool:
    if isinstance(values, (np.ndarray, list, tuple)):
        return False
    try:
        from narwhals import dependencies  # an extra
    except ImportError:
        return False
    return getattr(dependencies, asked)(values)


def _from_array(name: str, values: object) -> Column:
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        missing = np.ma.getmaskarray(values)
        values = np.ma.getdata(values)
    else:
        values = _as_array(name, values)
        missing = np.zeros(values.shape, dtype=bool)
    if values.ndim != 1:
        raise InputError(f"column {name!r} has {values.ndim} dimensions; 1 needed")
    return _of_kind(name, values, missing)


def _of_kind(name: str, values: np.ndarray, missing: np.ndarray) -> Column:
    match values.dtype.kind:
        case "b":
            return _logical(name, values, missing)
        case "i" | "u":
            return _whole(name, values, missing)
        case "f":
            return _number(name, values, missing)
        case "U":
            return _text(name, values.tolist(), missing)
        case "M":
            return _dates(name, values, missing | np.isnat(values))
        case "O":
            gaps = missing | np.array([value is None for value in values], dtype=bool)
            return _from_objects(name, values, gaps)
    raise _unusable(name)


def _as_array(name: str, values: object) -> np.ndarray:
    """An array of what is there: NumPy would turn a list of texts and other things into texts, NaN into "nan".

    It would also round large whole numbers of a list that has negative ones or floats as well.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"column {name!r} holds sequences of several lengths; make it text or numbers first") from None
    if array.ndim == 1 and isinstance(values, (list, tuple)):
        whole = array.dtype.kind == "f" and any(isinstance(value, int) and abs(value) >= EXACT for value in values)
        if array.dtype.kind == "U" or whole:
            return _objects(values)
    return array


def _objects(values: Sequence[object]) -> np.ndarray:
    """The things themselves: an array of text has the width of its longest entry, and drops NULs at the end."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _from_objects(name: str, values: np.ndarray, missing: np.ndarray) -> Column:
    """A column without a type of its own, which all its values that are not missing have."""
    present = values[~missing].tolist()

    def only(*kinds: type) -> bool:
        return all(isinstance(value, kinds) for value in present)

    if only(str):
        return _text(name, np.where(missing, "", values).tolist(), missing)
    if only(bool, np.bool_):
        return _logical(name, np.where(missing, False, values), missing)
    if only(datetime.date, np.datetime64):
        return _from_dates(name, values, missing)
    whole = [value for value in present if isinstance(value, (int, np.integer))]
    if only(int, float, np.integer, np.floating) and not any(isinstance(value, bool) for value in whole):
        large = max(map(abs, map(int, whole)), default=0)
        if len(whole) < len(present):
            if large >= EXACT:
                raise _rounded(name)
            return _number(name, np.where(missing, 0.0, values).astype(np.float64), missing)
        if large >= 2**63:
            raise _beyond(name)
        return _whole(name, np.where(missing, 0, values).astype(np.int64), missing)
    raise InputError(
        f"column {name!r} holds things of several kinds, or neither numbers, text nor dates; make it one of them first"
    )


def _unusable(name: str) -> InputError:
    return InputError(
        f"column {name!r} holds neither numbers, text, dates nor true and false; make it one of them first"
    )


def _beyond(name: str) -> InputError:
    return InputError(f"column {name!r} holds whole numbers beyond 64 bits with a sign; make it text first")


def _rounded(name: str) -> InputError:
    return InputError(f"column {name!r} holds numbers beyond 2^53 that floats would round; make it text first")


def _dates(name: str, values: np.ndarray, missing: np.ndarray) -> Column:
    return _text(name, np.datetime_as_string(values, unit="auto").tolist(), missing)


def _from_dates(name: str, values: np.ndarray, missing: np.ndarray) -> Column:
    """The same of things: dates of Python, pandas and NumPy."""
    present = np.where(missing, datetime.date(1970, 1, 1), values)
    instants = np.array([_instant(value) for value in present.tolist()])
    return _dates(name, instants, missing | np.isnat(instants))


def _instant(value: datetime.date | np.datetime64) -> np.datetime64:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(getattr(value, "asm8", value))  # of pandas: with nanoseconds


def _logical(name: str, values: np.ndarray, missing: np.ndarray) -> Column:
    return _text(name, np.where(values.astype(bool), "true", "false").tolist(), missing)


def _whole(name: str, values: np.ndarray, missing: np.ndarray) -> Column:
    if values.dtype.kind == "u" and np.any(values > np.iinfo(np.int64).max):
        raise _beyond(name)
    return Column(name, "integer", values.astype(np.int64), missing)


def _number(name: str, values: np.ndarray, missing: np.ndarray) -> Column:
    column = Column(name, "number", np.where(missing, 0.0, values.astype(np.float64)), missing)
    bad = np.flatnonzero(~np.isfinite(column.values))
    if bad.size:
        kind = "NaN" if np.isnan(column.values[bad[0]]) else "infinite"
        raise InputError(f"{column.where(bad[0])} is {kind} ({bad.size} of the column are not finite)")
    return column


def _text(name: str, values: Sequence[str], missing: np.ndarray) -> Column:
    column = Column(name, "text", _objects(values), missing)
    broken = next((row for row, text in enumerate(column.values) if BROKEN.search(text)), None)
    if broken is not None:
        raise InputError(f"{column.where(broken)} holds a NUL character, or one half of a character")
    return column


# -- files -----------------------------------------------------------------------------------------


def check_header(file: TableFile, names: Sequence[str]) -> None:
    """Refuse a CSV file without one of the columns `names`, as `read_columns`, by its first record alone."""
    if file.kind == "csv":
        with _opening(file):
            need_columns(header_of(file), names, str(file.path), repeated=True)


def _from_file(file: TableFile, names: Sequence[str]) -> dict[str, Column]:
    if file.kind is None:
        raise InputError(f"{Path(file.path)}: {NO_TABLE}")
    with _opening(file):
        return _from_csv(file, names) if file.kind == "csv" else _from_parquet(file, names)


@contextmanager
def _opening(file: TableFile) -> Iterator[None]:
    """What the system says of a file, as errors."""
    path = Path(file.path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for ever
            raise InputError(f"{path} is not a regular file")
        yield
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror or type(error).__name__}") from error


def _from_csv(file: TableFile, names: Sequence[str]) -> dict[str, Column]:
    columns = {}
    for name, (distinct, place) in read_csv(file, names).items():
        texts = _objects(distinct)
        columns[name] = Column(name, "text", texts[place], np.zeros(len(place), dtype=bool), (texts, place))
    return columns


def _from_parquet(file: TableFile, names: Sequence[str]) -> dict[str, Column]:
    if file.changed:
        raise InputError(f"{file.path}: {READ} are about CSV files")
    present, frame = decoded(Path(file.path), names)
    need_columns(present, names, str(file.path))
    return _from_frame(frame, names)
