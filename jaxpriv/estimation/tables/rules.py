"""To which class a value of a column belongs, categories or intervals between edges; and what changing a class costs.

A rule is fitted to a column once (`fit`) and then fixed: `Quantiles` become `Edges`, `Categories`
without values take those of the data. A fitted rule turns values into codes 0 .. len(labels) - 1
(`encode`). What it has no class for is an error, unless a class is declared: `other` for values that
no class holds, `missing` for missing values. Both come last in `labels`, in that order.

Missing is what the source calls missing, and the texts in `tokens` (by default the empty text).

The distortion of records adds up what changing each column costs,

    d(x, y) = sum_c weight_c d_c(x_c, y_c)

with d_c one of `changed` (1 if the classes differ; the default), `absolute` and `squared` (of the values of the
classes), or a table of a price for each pair of classes.
"""

import itertools
import math
import re
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._resources import MERGE, need_memory
from jaxpriv._validation import nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.estimation.tables.readers import BROKEN, Column
from jaxpriv.verifier.records import intervals

if TYPE_CHECKING:
    from jaxpriv.estimation.tables import Codebook


_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)


@dataclass(frozen=True)
class Categories:
    """Every value is its own class; values are compared as text, exactly ("1", "01" and "1.0" differ).

    Attributes:
        values: the classes, texts; None takes those of the data, sorted (by number if all are whole numbers).
        other: label of the class of all other values; None makes them an error.
        missing: label of the class of missing values; None makes them an error.
        tokens: texts that mean missing.
        least: values with fewer records than this are merged into the class `other` ("other" unless named); only where
            the classes are those of the data. The fitted rule has the classes that are left, and no number.

    Classes of the data that differ only in blanks around them or in how accents are composed stay apart, with a warning
    (`TableFile` can read them as one: blanks, nfc).
    """

    values: Sequence[str] | None = None
    other: str | None = None
    missing: str | None = None
    tokens: Sequence[str] = ("",)
    least: int | None = None

    def __post_init__(self) -> None:
        if self.least is not None:
            whole = not isinstance(self.least, bool) and isinstance(self.least, (int, np.integer))
            if not (whole and self.least >= 1) or self.values is not None:
                raise InputError("least must be a whole number >= 1, and goes without values")
            if self.other is None:
                object.__setattr__(self, "other", "other")
        _declared(self)
        if self.values is not None:
            _fixed(self, "values", str)
            _distinct(self.labels, "values")

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each code, once fitted."""
        return _with_extras(self.values or (), self)

    def fit(self, column: Column) -> "Categories":
        """The rule with the classes of a column, where it has none of its own."""
        if self.values is not None:
            return self
        missing = _missing(column, self)
        if column.factors is None:
            present, records = np.unique(_texts(column)[~missing], return_counts=True)
        else:
            places, records = np.unique(column.factors[1][~missing], return_counts=True)
            present = column.factors[0][places]
        _apart(column, present.tolist())
        if self.least is not None:
            present = present[records >= self.least]
        found = sorted(present.tolist(), key=_order)
        try:
            return replace(self, values=tuple(found), least=None)
        except InputError as error:
            raise InputError(f"column {column.name!r}: {error}") from None

    def encode(self, column: Column) -> np.ndarray:
        """Codes `(n,)` int64; `InputError` naming column and row for what has no class."""
        place: dict[str, int] = {value: code for code, value in enumerate(self.values or ())}
        texts = column if column.kind == "text" else Column(column.name, "text", _texts(column), column.missing)
        codes = texts.mapped(lambda text: place.get(text, -1), np.int64)
        return _closed(codes, len(place), column, self, "is not among the categories")


@dataclass(frozen=True)
class Edges:
    """Intervals between rising edges e_0 < ... < e_k: [e_0, e_1), ..., [e_{k-1}, e_k].

    The first edge may be -inf and the last inf. A value outside of [e_0, e_k] is not moved into it:
    it is an error, or of class `other`. Text is parsed as decimal numbers.

    Attributes:
        edges: the k + 1 edges.
        names: the k labels; None makes them from the edges.
        other, missing, tokens: as for `Categories`.
    """

    edges: Sequence[float]
    names: Sequence[str] | None = None
    other: str | None = None
    missing: str | None = None
    tokens: Sequence[str] = ("",)

    def __post_init__(self) -> None:
        _fixed(self, "edges", float)
        _declared(self)
        rising = all(low < high for low, high in itertools.pairwise(self.edges))
        if len(self.edges) < 2 or not rising or not all(map(math.isfinite, self.edges[1:-1])):
            raise InputError("edges must be at least two rising numbers; only the first and the last may be infinite")
        if self.names is not None:
            _fixed(self, "names", str)
        if self.names is not None and len(self.names) != len(self.edges) - 1:
            raise InputError(
                f"names has {len(self.names)} entries; {len(self.edges) - 1} intervals lie between the edges"
            )
        _distinct(self.labels, "names")

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each code."""
        return _with_extras(self.names if self.names is not None else intervals(self.edges), self)

    def fit(self, column: Column) -> "Edges":
        """The rule itself: its edges are given."""
        del column
        return self

    def encode(self, column: Column) -> np.ndarray:
        """Codes `(n,)` int64; `InputError` naming column and row for what has no class."""
        numbers = _numbers(column, _missing(column, self))
        edges = np.array(self.edges)
        codes = np.searchsorted(edges, numbers, side="right") - 1
        codes[numbers == edges[-1]] = len(edges) - 2
        codes[(numbers < edges[0]) | (numbers > edges[-1])] = -1
        return _closed(codes.astype(np.int64), len(edges) - 1, column, self, "is outside of the edges")


@dataclass(frozen=True)
class Quantiles:
    """`count` intervals with about equally many rows each, fitted to the data and then fixed.

    An interval begins at the smallest value v with at least the fraction k/count of the rows below
    or at v, as in an empirical distribution function. What is stored is the number of fewest decimal
    digits between v and the next smaller value, which divides the rows in the same way and is nobody's
    (the middle of neighbouring whole numbers; v itself only where no float lies between). The first and the last
    interval are half-lines: the smallest and the largest value are not stored either. Equal edges (ties in the data)
    are one edge, so there may be fewer intervals.
    """

    count: int
    missing: str | None = None
    tokens: Sequence[str] = ("",)

    def __post_init__(self) -> None:
        _declared(self)
        if isinstance(self.count, bool) or not isinstance(self.count, (int, np.integer)) or not self.count >= 2:
            raise InputError("the number of quantile classes must be a whole number >= 2")

    def fit(self, column: Column) -> Edges:
        """The edges for a column; `InputError` if all its values fall into one class."""
        missing = _missing(column, self)
        numbers = _numbers(column, missing)[~missing]
        if not numbers.size:
            raise InputError(f"column {column.name!r} has no value that is not missing")
        levels = np.arange(1, self.count) / self.count
        inner = np.unique(np.quantile(numbers, levels, method="inverted_cdf"))
        inner = inner[inner > numbers.min()]  # nothing would lie below
        if not inner.size:
            raise InputError(f"column {column.name!r}: all quantiles are its smallest value; use edges or categories")
        distinct = np.unique(numbers)
        below = distinct[np.searchsorted(distinct, inner) - 1]
        inner = np.array([_roundest(low, high) for low, high in zip(below.tolist(), inner.tolist(), strict=True)])
        return Edges((-math.inf, *inner.tolist(), math.inf), missing=self.missing, tokens=self.tokens)


Rule: TypeAlias = Categories | Edges | Quantiles
FittedRule: TypeAlias = Categories | Edges


def _apart(column: Column, values: Sequence[str]) -> None:
    """A warning where two values look the same: blanks around them and the composition of letters do not show."""
    seen = {unicodedata.normalize("NFC", value).strip() for value in values}
    if len(seen) < len(values):
        warnings.warn(
            f"column {column.name!r}: {len(values) - len(seen)} of its {len(values)} classes differ from another one "
            "only in blanks around them or in how letters are composed: they stay apart; read them as one with blanks, "
            "nfc",
            stacklevel=2,
        )


def default_rule(column: Column) -> Categories:
    """Categories for text and whole numbers; real numbers need a rule of their own."""
    if column.kind == "number":
        raise InputError(
            f"column {column.name!r} holds real numbers: give it a rule (Quantiles or Edges; Categories if it has few "
            "different whole values)"
        )
    return Categories()


def _roundest(low: float, high: float) -> float:
    """The number of fewest decimal digits between `low` and `high`; `high` if they are neighbouring floats.

    Between whole numbers it is a whole number, or the middle of neighbouring ones.
    """
    bottom, top = Decimal(low), Decimal(high)
    largest = max(abs(bottom), abs(top)).adjusted() + 1
    finest = 0 if low == math.floor(low) and high == math.floor(high) else largest - 17
    with localcontext(prec=800):  # floats are exact here
        for power in range(largest, finest - 1, -1):
            step = Decimal(1).scaleb(power)
            candidate = ((bottom / step).to_integral_value(ROUND_FLOOR) + 1) * step
            if candidate < top and low < float(candidate) < high:
                return float(candidate)
    middle = low + 0.5 * (high - low)
    return middle if low < middle < high else high


def _fixed(rule: object, field: str, kind: type) -> None:
    """A field given as any sequence, as a tuple."""
    given, wanted = getattr(rule, field), str if kind is str else (int, float, np.integer, np.floating)
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(item, wanted) and not isinstance(item, bool) for item in given)
    ):
        raise InputError(f"{field} must be a sequence of {'texts' if kind is str else 'numbers'}")
    for place, item in enumerate(given):
        if kind is str and BROKEN.search(item):
            raise InputError(f"{field}[{place}] holds a NUL character, or one half of a character")
    try:
        object.__setattr__(rule, field, tuple(kind(item) for item in given))
    except OverflowError:
        raise InputError(f"{field}: a number is beyond all floating-point numbers") from None


def _declared(rule: Rule) -> None:
    """The fields that every rule has."""
    _fixed(rule, "tokens", str)
    for field in ("other", "missing"):
        label = getattr(rule, field, None)
        if not (label is None or (isinstance(label, str) and label.strip() and label.isprintable())):
            raise InputError(f"{field} must be the label of a class (one line of text, not blank), or None")


def _with_extras(labels: Sequence[str], rule: Categories | Edges) -> tuple[str, ...]:
    return (*labels, *(label for label in (rule.other, rule.missing) if label is not None))


def _distinct(labels: Sequence[str], name: str) -> None:
    if not labels:
        raise InputError(f"{name} is empty")
    if len(set(labels)) < len(labels):
        repeated = next(place for place, label in enumerate(labels) if label in labels[:place])
        raise InputError(f"{name}[{repeated}] (or the label of other or missing) repeats an earlier label")


def _order(text: str) -> tuple[int, int, str]:
    """Whole numbers by size, before everything else."""
    return (0, int(text), text) if len(text) < 20 and _WHOLE.fullmatch(text) else (1, 0, text)


def _missing(column: Column, rule: Rule) -> np.ndarray:
    if column.kind != "text":
        return column.missing
    tokens = set(rule.tokens)
    return column.missing | column.mapped(tokens.__contains__, bool)


def _texts(column: Column) -> np.ndarray:
    """Values as text; whole numbers in floats (pandas stores whole numbers with gaps so) as whole numbers."""
    if column.kind == "text":
        return column.values
    values = column.values
    if column.kind == "number":
        broken = np.flatnonzero((values != np.rint(values)) | (np.abs(values) > 2**53))
        if broken.size:
            raise InputError(
                f"{column.where(broken[0])} is not a whole number: categories need Quantiles or Edges there"
            )
        values = values.astype(np.int64)
    distinct, place = np.unique(values, return_inverse=True)
    return np.array([str(value) for value in distinct.tolist()], dtype=object)[place]


def _numbers(column: Column, missing: np.ndarray) -> np.ndarray:
    """Values as float64; 0 where missing."""
    if column.kind != "text":
        return np.where(missing, 0.0, column.values.astype(np.float64))

    def parsed(text: str) -> float:
        return float(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else math.nan

    numbers = column.mapped(parsed, np.float64)
    broken = np.flatnonzero(~np.isfinite(numbers) & ~missing)
    if broken.size:
        raise InputError(f"{column.where(broken[0])} is not a finite decimal number (with a point); the rule needs one")
    return np.where(missing, 0.0, numbers)


def numbers_of(column: Column) -> np.ndarray:
    """Every value as a finite number (n,); `InputError` naming column and row for what is none, or missing."""
    missing = _missing(column, Categories())
    if missing.any():
        raise InputError(f"{column.where(np.flatnonzero(missing)[0])} is missing (such rows: {missing.sum()})")
    return _numbers(column, missing)


_OPTIONS = {"other": "--bins COL=categories:N or wider edges", "missing": "--missing COL=LABEL"}


def _closed(codes: np.ndarray, classes: int, column: Column, rule: FittedRule, fault: str) -> np.ndarray:
    """Codes with the declared classes for other (-1) and missing values, or an error for the first of them."""
    missing = _missing(column, rule)
    extra = classes
    for rows, label, what, name in (
        ((codes < 0) & ~missing, rule.other, fault, "other"),
        (missing, rule.missing, "is missing", "missing"),
    ):
        if label is None and rows.any():
            first = np.flatnonzero(rows)[0]
            raise InputError(
                f"{column.where(first)} {what} (such rows: {rows.sum()}); declare a class with {name}=LABEL where the "
                f"classes are chosen (on the command line {_OPTIONS[name]})"
            )
        codes = np.where(rows, extra, codes)
        extra += label is not None
    return codes


KINDS = ("changed", "absolute", "squared")
# For each column a kind of `KINDS`, a weight, or a table of costs.
Prices: TypeAlias = Mapping[str, str | float | ArrayLike]


def column_distortion(
    codebook: "Codebook", attributes: ArrayLike, *, kinds: Prices | None = None, weights: Prices | None = None
) -> np.ndarray:
    """d (X, X) float64 between useful symbols, given by the codes `attributes` (X, b) of the codebook's useful columns.

    Args:
        kinds: for a column `changed`, `absolute`, `squared`, or an array (k, k) of prices >= 0 for its k classes (a
            class that is kept may have one too). Others are `changed`.
        weights: for a column a number >= 0; others have 1.

    The value of a category is the number that it is; that of an interval its middle, of a half-line its end. A class
    for other or missing values is as far from every value as the smallest and the largest value are from each other.

    Raises `InputError` for a column that is not useful, a category that is no number, an unknown kind or a bad price,
    naming the column.
    """
    kinds, weights = dict(kinds or {}), dict(weights or {})
    for name, given in (("distortion", kinds), ("weight", weights)):
        for column in given:
            if column not in codebook.useful:
                raise InputError(f"{name} is given for column {column!r}, which is not among the useful columns")
    codes = np.asarray(attributes)
    need_memory(24.0 * len(codes) ** 2, "a distortion between all useful symbols", MERGE)
    total = np.zeros((len(codes), len(codes)))
    for place, column in enumerate(codebook.useful):
        weight = scalar(weights.get(column, 1.0), f"weight of column {column!r}", low=0.0)
        prices = _prices(kinds.get(column, "changed"), codebook.rules[column], column)
        total += weight * prices[codes[:, place, None], codes[None, :, place]]
    return total


def _prices(kind: str | float | ArrayLike, rule: FittedRule, column: str) -> np.ndarray:
    size = len(rule.labels)
    what = f"distortion of column {column!r}"
    if not isinstance(kind, str):
        prices = nonnegative(real_array(kind, what, ndim=2), what)
        if prices.shape != (size, size):
            raise InputError(f"{what} has shape {prices.shape}; the column has {size} classes")
        return np.asarray(prices, dtype=np.float64)
    if kind not in KINDS:
        raise InputError(f"{what} must be one of {', '.join(KINDS)}, or a table of prices")
    if kind == "changed":
        return 1.0 - np.eye(size)
    values = _values(rule, column)
    apart = abs(values[:, None] - values)
    far = np.nanmax(apart)
    apart = np.where(np.isnan(apart), far, apart)
    np.fill_diagonal(apart, 0.0)
    return apart if kind == "absolute" else apart**2


def _values(rule: FittedRule, column: str) -> np.ndarray:
    """A number for each class; NaN for the classes of other and missing values."""
    if isinstance(rule, Edges):
        values = [_middle(low, high) for low, high in itertools.pairwise(rule.edges)]
    else:
        values = [_as_number(text, column) for text in rule.values or ()]
    extras = len(rule.labels) - len(values)
    return np.array([*values, *[math.nan] * extras])


def _middle(low: float, high: float) -> float:
    if math.isinf(low) and math.isinf(high):
        return 0.0
    return high if math.isinf(low) else low if math.isinf(high) else low + (high - low) / 2


def _as_number(text: str, column: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"distortion of column {column!r}: a category is no number, so only `changed` can be asked for"
        )
    return value
