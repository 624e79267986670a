"""From a table of records to a joint distribution, through an explicit and stored discretisation.

    table = count_table("people.csv", private="income", useful=["age", "education"], rules={"age": Quantiles(5)})
    table.dataset.joint                       # (S, X), with counts, labels and attribute codes
    table.codebook.save("codebook.json")      # the classes, without a count
    Codebook.load("codebook.json").encode(new_records)

Records come in as pandas, polars or Arrow frames, as columns by name, or as CSV and Parquet files
(`readers`: the only place that imports a table library). A `Codebook` states to which class each value
belongs (`rules`); nothing else is done to a value, and what no class holds is an error, or the class
that was declared for it. No message shows a value: it names column, row (from 0, without the header)
and rule.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from jaxpriv._runtime.files import atomic_write
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.near import near
from jaxpriv.data.datasets._layout import Dataset, Side, counted, distinct_rows, places_of
from jaxpriv.errors import InputError, IntegrityError
from jaxpriv.statistics.tables.csv_files import TableFile
from jaxpriv.statistics.tables.readers import Column, Source, read_columns, row_text
from jaxpriv.statistics.tables.rules import (
    Categories,
    Edges,
    FittedRule,
    Quantiles,
    Rule,
    column_distortion,
    default_rule,
    numbers_of,
)
from jaxpriv.verifier.archive import read_file, strict
from jaxpriv.verifier.records import CODEBOOK, WHOLE, check_codebook, edge_of
from jaxpriv.verifier.symbols import NUMBER

__all__ = [
    "Categories",
    "Codebook",
    "CountedTable",
    "Edges",
    "Quantiles",
    "Records",
    "Rule",
    "Source",
    "TableFile",
    "column_distortion",
    "count_table",
    "fit_codebook",
]
__dir__ = names_of(__name__)


# A codebook of a million labels of 60 letters; a larger file is not parsed.
_MAX_BYTES = 2**26
_KINDS: Mapping[str, type] = {"categories": Categories, "edges": Edges}


@dataclass(frozen=True)
class Codebook:
    """A stored discretisation: what is private, what is useful, and a fitted rule for each column.

    A column that is private AND useful (age in the census) is in both; it must be declared as such
    where the codebook is fitted, because its values are released as they are. A codebook holds
    class labels and edges, never a count or a record.

    A category column may have no values: its classes are then those of the rows that are encoded (see
    `without_private_values`).
    """

    private: tuple[str, ...]
    useful: tuple[str, ...]
    rules: Mapping[str, FittedRule] = field(repr=False)  # they hold values of records

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column once, the private ones first."""
        return tuple(dict.fromkeys((*self.private, *self.useful)))

    def encode(self, source: Source) -> "Records":
        """The rows of a source as codes; a value without a class is an `InputError` naming column and row.

        A column whose values the codebook does not hold has the classes that occur; the codebook of the result
        holds them.
        """
        columns = read_columns(source, self.columns)
        book = replace(self, rules={name: self.rules[name].fit(column) for name, column in columns.items()})
        return Records(book, *(book._codes(columns, names) for names in (self.private, self.useful)))

    def without_private_values(self) -> "Codebook":
        """The codebook that may be published: it names no value of a category column that is private alone.

        A value that is named is that of some record, and a reader who has all other records can infer which one.
        """
        hidden = set(self.private) - set(self.useful)
        rules = {
            name: rule.without_values() if name in hidden and isinstance(rule, Categories) else rule
            for name, rule in self.rules.items()
        }
        return replace(self, rules=rules)

    def encode_useful(self, source: Source) -> np.ndarray:
        """Codes `(n, b)` of the useful columns alone, for rows whose private columns are not known."""
        return self._codes(read_columns(source, self.useful), self.useful)

    def side(self, names: tuple[str, ...], codes: np.ndarray) -> Side:
        """Codes of the columns `names` with their labels, as `datasets` counts them."""
        return Side(names, tuple(self.rules[name].labels for name in names), codes)

    @property
    def fingerprint(self) -> np.ndarray:
        """32 bytes, uint8, that identify the useful columns, their order and their classes."""
        useful = [[name, rule_record(self.rules[name])] for name in self.useful]
        return np.frombuffer(hashlib.sha256(json.dumps(useful).encode()).digest(), dtype=np.uint8)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the codebook as JSON, whole or not at all."""
        atomic_write(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Codebook":
        """The codebook of a file; `IntegrityError` if it is not one that `save` wrote.

        Raises `InputError` if it is absent or no regular file, `ResourceError` if it cannot be read or is too large.
        """
        content = read_file(path, _MAX_BYTES)
        try:
            return cls.from_json(content.decode())
        except UnicodeDecodeError:
            raise IntegrityError(f"{path} is not a codebook: it is not UTF-8 text") from None
        except IntegrityError as error:
            raise IntegrityError(f"{path} is not a codebook: {error}") from None

    def to_json(self) -> str:
        """Strict JSON; infinite edges are texts, and so are whole numbers that no float64 is."""
        record = {
            "format": CODEBOOK,
            "version": 1,
            "private": self.private,
            "useful": self.useful,
            "columns": {name: rule_record(self.rules[name]) for name in self.columns},
        }
        return json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Codebook":
        """The inverse of `to_json`; `IntegrityError` naming the field that is missing, unknown or wrong."""
        record: Any = strict(text.encode(errors="surrogatepass"), "it", plain=False)
        columns = record.get("columns") if isinstance(record, dict) else None
        for rule in columns.values() if isinstance(columns, dict) else ():
            if isinstance(rule, dict) and isinstance(rule.get("edges"), list):
                rule["edges"] = list(map(_edge_text, rule["edges"]))
        check_codebook(record, "it")
        rules = {name: rule_of(rule, f"column {name!r}") for name, rule in record["columns"].items()}
        return cls(tuple(record["private"]), tuple(record["useful"]), rules)

    def _codes(self, columns: Mapping[str, Column], names: tuple[str, ...]) -> np.ndarray:
        return np.stack([self.rules[name].encode(columns[name]) for name in names], axis=1)


@dataclass(frozen=True, eq=False)
class Records:
    """Rows as codes: `private` (n, a) and `useful` (n, b) int64, columns in the order of the codebook."""

    codebook: Codebook
    private: np.ndarray
    useful: np.ndarray

    __repr__ = summary


def fit_codebook(
    source: Source,
    *,
    private: str | Sequence[str],
    useful: str | Sequence[str],
    rules: Mapping[str, Rule | None] | None = None,
    shared: str | Sequence[str] = (),
) -> Codebook:
    """The codebook of a table.

    Args:
        source: a pandas, polars or Arrow frame, columns by name, or a .csv or .parquet file.
        private, useful: the name of a column, or a sequence of names, for each.
        rules: a mapping from columns to rules; text and whole numbers are `Categories()` without one, real
            numbers need one.
        shared: the column or columns that are private and released all the same (age, say): each of them
            reveals its own value fully. Any other column on both sides is an error.

    Raises `InputError` for a column on both sides that is not in `shared` (or the reverse), a column
    named twice, rules for other columns, a constant column, a single private class, and whatever
    `read_columns` and the rules refuse; naming column and row, never a value.
    """
    private, useful = _sides(private, useful, rules, shared)
    columns = read_columns(source, tuple(dict.fromkeys((*private, *useful))))
    fitted = {name: ((rules or {}).get(name) or default_rule(column)).fit(column) for name, column in columns.items()}
    for name, rule in fitted.items():
        codes = rule.encode(columns[name])
        if (codes == codes[0]).all():
            what = "all rows are of one class, so there is nothing to hide" if name in private else "it is constant"
            if (columns[name].values != columns[name].values[0]).any():
                what = "its rule has all rows in one class; give it another rule (on the command line --bins), or"
            else:
                what += ";"
            raise InputError(f"column {name!r}: {what} leave it out")
    return Codebook(private, useful, fitted)


def _sides(
    private: object, useful: object, rules: object, shared: str | Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The private and the useful columns, where all that is asked of a codebook belongs together."""
    private, useful = columns_of(private, "private"), columns_of(useful, "useful")
    shared = columns_of(shared, "shared") if shared else ()
    rules = {} if rules is None else rules
    both = set(private) & set(useful)
    for name in (*private, *useful):
        if name in both and name not in shared:
            raise InputError(
                f"column {name!r} is private and useful: it would be released; if it must be, name it in `shared`"
            )
    for name in shared:
        if name not in both:
            raise InputError(f"shared column {name!r} is not among both the private and the useful columns")
    if not isinstance(rules, Mapping):
        raise InputError("rules must be a mapping from columns to rules")
    names = tuple(dict.fromkeys((*private, *useful)))
    for name, rule in rules.items():
        if name not in names:
            raise InputError(f"rules has column {name!r}, which is neither private nor useful{near(name, names)}")
        if not isinstance(rule, Rule | None):
            raise InputError(f"rules[{name!r}] must be Categories, Edges or Quantiles")
    return private, useful


def columns_of(names: object, argument: str) -> tuple[str, ...]:
    """One or more names of columns, none twice; `argument`: what an error calls them."""
    chosen = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else ()
    if not chosen or not all(isinstance(name, str) for name in chosen):
        raise InputError(f"{argument} must be one or more names of columns")
    for place, name in enumerate(chosen):
        if name in chosen[:place]:
            raise InputError(f"{argument} names column {name!r} twice")
    return chosen


# -- JSON ------------------------------------------------------------------------------------------


def rule_record(rule: FittedRule) -> dict[str, Any]:
    """The fields of a rule by their names, for JSON."""
    record = {"kind": next(name for name, rule_type in _KINDS.items() if isinstance(rule, rule_type)), **vars(rule)}
    record.pop("least", None)  # fitting uses it up
    if record.get("first", 0) is None:  # as rules without it were always written
        del record["first"]
    if isinstance(rule, Edges):
        record["edges"] = [
            edge if isinstance(edge, float) and math.isfinite(edge) else str(edge) for edge in rule.edges
        ]
    return record


def rule_of(record: Mapping[str, Any], where: str) -> FittedRule:
    """The rule of a record of `jaxpriv.verifier.records`, with edges as texts; `IntegrityError` if it is none."""
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
    if "edges" in given:
        given["edges"] = tuple(map(edge_of, given["edges"]))
    try:
        return _KINDS[given.pop("kind")](**given)
    except InputError as error:
        raise IntegrityError(f"{where}: {error}") from None


def _edge_text(edge: object) -> str | None:
    """An edge of a file: a number, or the text of an end or of a whole number that no float64 is."""
    if isinstance(edge, str):
        return edge if edge in ("-inf", "inf") or WHOLE.fullmatch(edge) else None
    return repr(edge)


# Below this many rows for each symbol the joint is mostly noise: with one row each, P(s|x) is 0 or 1. It is the least
# expected count that the chi-squared test asks for (Cochran 1954).
ROWS_PER_SYMBOL = 5


def enough_rows(rows: int, what: str, codebook: Codebook, symbols: Mapping[str, int], *, sparse: bool) -> bool:
    """Whether there are five rows for each of the `useful` and the `private` symbols, so many of which occur.

    `what` is the name of the rows in the `InputError` that is raised if there are not, unless `sparse` declares it.
    """
    for side, size in symbols.items():
        if rows >= ROWS_PER_SYMBOL * size:
            continue
        if sparse:
            return False
        names = getattr(codebook, side)
        widest = max(names, key=lambda name: len(codebook.rules[name].labels))
        rule = codebook.rules[widest]
        words = isinstance(rule, Categories) and not all(map(NUMBER.fullmatch, rule.values or ()))
        repair = "categories:10" if words else "quantiles:4"
        single = " (leave it out if it identifies the records)" if len(rule.labels) > 0.9 * rows else ""
        raise InputError(
            f"{rows} {what} make {size} {side} symbols, fewer than {ROWS_PER_SYMBOL} rows each; column {widest!r} has "
            f"{len(rule.labels)} classes: use fewer classes (on the command line --bins {widest}={repair}) or columns"
            f"{single}, or declare with `sparse` that this is meant"
        )
    return True


@dataclass(frozen=True, eq=False)
class CountedTable:
    """The joint of a table, and how it came about.

    Attributes:
        dataset: joint, counts, labels and attribute codes of the symbols that occur.
        codebook: the classes.
        private_symbols, useful_symbols: `(n,)` int64, the s and the x of every row.
        sparse: whether there are fewer than five rows for each useful or each private symbol. What is measured on
            such a joint may be far from the population.
    """

    dataset: Dataset
    codebook: Codebook
    private_symbols: np.ndarray
    useful_symbols: np.ndarray
    sparse: bool

    __repr__ = summary

    def symbols_of(self, source: Source) -> np.ndarray:
        """The useful symbol x `(n,)` of new rows; private columns are not read.

        Raises `InputError` naming the row of a combination of classes that the table did not have,
        and as `Codebook.encode`.
        """
        symbols = places_of(self.codebook.encode_useful(source), self.dataset.useful_attributes)
        unseen = np.flatnonzero(symbols < 0)
        if unseen.size:
            raise InputError(
                f"{row_text(unseen[0])} combines the classes of {', '.join(map(repr, self.codebook.useful))} as no "
                f"row of the table did (such rows: {unseen.size})"
            )
        return symbols


def count_table(
    source: Source,
    *,
    private: str | Sequence[str] = (),
    useful: str | Sequence[str] = (),
    rules: Mapping[str, Rule | None] | None = None,
    shared: str | Sequence[str] = (),
    codebook: Codebook | None = None,
    sparse: bool = False,
    weights: str | None = None,
    name: str = "a table of records",
) -> CountedTable:
    """The joint distribution of a table: classes as in `fit_codebook` (or a given `codebook`), then counts.

    Symbols are the combinations of classes that occur, in the order of their codes. `sparse=True`
    declares that fewer than five rows for each useful or private symbol are meant; otherwise that is an error.
    `name` becomes `dataset.source`.

    `weights` names a column of survey weights, finite numbers >= 0 with a positive total: the joint is then that of the
    weighted records, while the counts are still of records. Bounds for a population from counts do not apply to it.

    Raises `InputError` as `fit_codebook`, for too many symbols, and if both or neither of `codebook`
    and columns are given.
    """
    if codebook is not None and (private or useful or rules or shared):
        raise InputError("a codebook has its own columns and rules: give either a codebook or columns")
    sides = _sides(private, useful, rules, shared) if codebook is None else (codebook.private, codebook.useful)
    names = list(dict.fromkeys(chain(*sides)))
    if weights in names:
        raise InputError(f"weights: column {weights!r} is private or useful")
    columns = read_columns(source, names if weights is None else [*names, weights])  # a file is read once
    if codebook is None:
        codebook = fit_codebook(columns, private=private, useful=useful, rules=rules, shared=shared)
    records = codebook.encode(columns)
    codebook = records.codebook
    rows = len(records.private)
    coded = {
        "useful": codebook.side(codebook.useful, records.useful),
        "private": codebook.side(codebook.private, records.private),
    }
    symbols = {
        side: len(distinct_rows(coding.codes, list(map(len, coding.values)))[0]) for side, coding in coded.items()
    }
    enough = enough_rows(rows, "rows", codebook, symbols, sparse=sparse)
    dataset, s, x = counted(coded["private"], coded["useful"], np.ones(rows, dtype=np.int64), name)
    if weights is not None:
        dataset = _weighted(dataset, columns[weights], s, x)
    return CountedTable(dataset, codebook, s, x, not enough)


def _weighted(dataset: Dataset, column: Column, s: np.ndarray, x: np.ndarray) -> Dataset:
    """The dataset with the joint of the weighted records."""
    weights = numbers_of(column)
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        raise InputError(f"{column.where(negative[0])} is negative (such rows: {negative.size}); weights are >= 0")
    joint = np.zeros(dataset.joint.shape)
    np.add.at(joint, (s, x), weights)
    if not (joint.sum() > 0 and np.isfinite(joint.sum())):
        raise InputError(f"column {column.name!r}: the weights must have a positive finite sum")
    if not (joint.sum(axis=1) > 0).all() or not (joint.sum(axis=0) > 0).all():
        raise InputError(f"column {column.name!r}: all records of a symbol have weight 0; leave them out")
    joint /= joint.sum()
    joint.setflags(write=False)
    return replace(dataset, joint=joint)
