"""To which class a value of a column belongs, categories or intervals between edges; and what changing a class costs.

A rule is fitted to a column once (`fit`) and then fixed: `Quantiles` become `Edges`, `Categories`
without values take those of the data. A fitted rule turns values into codes 0 .. len(labels) - 1
(`encode`). What it has no class for is an error, unless a class is declared: `other` for values that
no class holds, `missing` for missing values. Both come last in `labels`, in that order.

Missing is what the source calls missing, and the texts in `tokens` (by default the empty text); in a column of numbers
those that are whole numbers.

Whole numbers are compared and subtracted exactly, however large. Other numbers of a text are rounded to float64.

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
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.near import near
from jaxpriv._runtime.resources import MERGE, need_memory
from jaxpriv.errors import InputError
from jaxpriv.statistics.tables.readers import BROKEN, Column
from jaxpriv.verifier.csv_text import escaped
from jaxpriv.verifier.records import WHOLE, intervals
from jaxpriv.verifier.symbols import BOOLEANS, EXACT, NUMBER, codes_by_text, number_of

if TYPE_CHECKING:
    from jaxpriv.statistics.tables import Codebook


@dataclass(frozen=True)
class Categories:
    """Every value is its own class; values are compared as text, exactly ("1", "01" and "1.0" differ).

    Readers spell booleans differently: true, True and TRUE are one value, as are false, False and FALSE, unless
    `values` has several spellings of it. A column of booleans alone has the classes "false" and "true".

    Attributes:
        values: the classes, texts; None takes those of the data, sorted (by number if all are whole numbers).
        other: label of the class of all other values; None makes them an error.
        missing: label of the class of missing values; None makes them an error.
        tokens: texts that mean missing.
        least: values with fewer records than this are merged into the class `other`; only where the classes are those
            of the data. Its label is "other" unless named. The fitted rule has the classes that are left, and no
            number.
        first: only so many characters of a value count, those at its beginning: 7 of "2026-01-31" are its month, 4 its
            year, 3 of the code "02139" its region. None counts all of them. Missing values and tokens are whole. Of
            whole numbers none may be negative, and those that are no texts all must have as many digits.

    Where the classes are those of the data, one of them may be called "other": then the label of all other values is
    "other_2", and so on. A value that is called as any other declared label is an error, which names the column.

    Classes of the data that differ only in blanks around them, in capital letters or in how accents are composed stay
    apart, with a warning (`TableFile` can read them as one, but for capital letters: blanks, nfc).
    """

    values: Sequence[str] | None = None
    other: str | None = None
    missing: str | None = None
    tokens: Sequence[str] = ("",)
    least: int | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        for field in ("least", "first"):
            number = getattr(self, field)
            whole = not isinstance(number, bool) and isinstance(number, (int, np.integer))
            if not (number is None or (whole and number >= 1)):
                raise InputError(f"{field} must be a whole number >= 1")
        if self.least is not None and self.values is not None:
            raise InputError("least goes without values")
        _declared(self)
        if self.values is not None:
            _fixed(self, "values", str)
            _distinct(self.labels, "values")
            for place, value in enumerate(self.values):
                if self.first is not None and len(value) > self.first:
                    raise InputError(f"values[{place}] has more than the first {self.first} characters, which count")

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each code, once fitted."""
        return _with_extras(self.values or (), self)

    def fit(self, column: Column) -> "Categories":
        """The rule with the classes of a column, where it has none of its own."""
        if self.values is not None:
            return self
        column, missing = self._beginnings(column)
        if self.missing is None and missing.all():
            raise _all_missing(column)
        if column.factors is None:
            present, counts = np.unique(column.values[~missing], return_counts=True)
        else:
            places, counts = np.unique(column.factors[1][~missing], return_counts=True)
            present = column.factors[0][places]
        records: Counter[str] = Counter()
        boolean = all(map(BOOLEANS.__contains__, present.tolist()))
        for value, count in zip(present.tolist(), counts.tolist(), strict=True):
            records[BOOLEANS[value] if boolean else value] += count
        sentence = look_alike(column.name, list(records))
        if sentence is not None:
            warnings.warn(sentence, stacklevel=2)
        named = [value for value in records if records[value] >= (self.least or 1)]
        other = self.other
        if other == REST or (other is None and self.least is not None):
            other = unused_label(REST, {*named, self.missing})
        try:
            return replace(self, values=tuple(sorted(named, key=_order)), other=other, least=None)
        except InputError as error:
            raise InputError(f"column {column.name!r}: {error}") from None

    def without_values(self) -> "Categories":
        """The rule without what was found in the data: the values, and that one of them is called `other`."""
        automatic = self.other is not None and re.fullmatch(f"{REST}_[0-9]+", self.other)
        return replace(self, values=None, other=unused_label(REST, {self.missing}) if automatic else self.other)

    def encode(self, column: Column) -> np.ndarray:
        """Codes `(n,)` int64; `InputError` naming column and row for what has no class."""
        (column, missing), values = self._beginnings(column), self.values or ()
        code_of_text = codes_by_text(values)
        codes = column.mapped(lambda text: code_of_text.get(text, -1), np.int64)
        return _closed(codes, missing, len(values), column, self, "is not among the categories")

    def _beginnings(self, column: Column) -> tuple[Column, np.ndarray]:
        """The column as texts of which only what counts is left, and which rows are missing."""
        texts = _as_text(column)
        missing = missing_rows(texts, self)
        if self.first is None:
            return texts, missing
        present = set(texts.values[~missing].tolist())
        if all(map(WHOLE.fullmatch, present)) and any(text.startswith("-") for text in present):
            raise InputError(
                f"column {column.name!r} holds negative numbers, whose sign would count as a character; use edges or "
                "quantiles"
            )
        if column.kind != "text" and len(set(map(len, present))) > 1:
            raise InputError(
                f"column {column.name!r} holds numbers of several lengths, whose first digits mean different things; "
                "make it text first (codes may have lost zeros at their beginning)"
            )
        values = texts.mapped(lambda text: text[: self.first], object)
        return replace(texts, values=values, factors=None), missing


@dataclass(frozen=True)
class Edges:
    """Intervals between rising edges e_0 < ... < e_k: [e_0, e_1), ..., [e_{k-1}, e_k].

    The first edge may be -inf and the last inf. A value outside of [e_0, e_k] is not moved into it:
    it is an error, or of class `other`. Text is parsed as decimal numbers.

    Attributes:
        edges: the k + 1 edges, float64; a whole number that no float64 is stays an int, as the digits that it has.
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
        missing = missing_rows(column, self)
        numbers = _numbers(column, missing)
        exact = numbers.dtype == object or not all(isinstance(edge, float) for edge in self.edges)
        kind = object if exact else np.float64
        edges, numbers = np.array(self.edges, dtype=kind), numbers.astype(kind)
        codes = np.searchsorted(edges, numbers, side="right") - 1
        codes[numbers == edges[-1]] = len(edges) - 2
        codes[(numbers < edges[0]) | (numbers > edges[-1])] = -1
        return _closed(codes.astype(np.int64), missing, len(edges) - 1, column, self, "is outside of the edges")


@dataclass(frozen=True)
class Quantiles:
    """`count` intervals with about equally many rows each, fitted to the data and then fixed.

    An interval begins at the smallest value v with at least the fraction k/count of the rows below
    or at v, as in an empirical distribution function. What is stored is the number of fewest decimal
    digits between v and the next smaller value, which divides the rows in the same way and is nobody's
    (the middle of neighbouring whole numbers; v itself only where neither a float64 nor a whole number lies between).
    The first and the last interval are half-lines: the smallest and the largest value are not stored either. Equal
    edges (ties in the data) are one edge, so there may be fewer intervals.
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
        missing = missing_rows(column, self)
        numbers = _numbers(column, missing)[~missing]
        if not numbers.size:
            raise _all_missing(column)
        values, records = np.unique(numbers, return_counts=True)
        # In whole numbers: a fraction k/count is rounded.
        places = np.searchsorted(self.count * np.cumsum(records), np.arange(1, self.count) * len(numbers))
        places = np.unique(places[places > 0])  # below the smallest value nothing would lie
        if not places.size:
            raise InputError(f"column {column.name!r}: all quantiles are its smallest value; use edges or categories")
        inner = [_roundest(*pair) for pair in zip(values[places - 1].tolist(), values[places].tolist(), strict=True)]
        edges = [edge for edge in inner if edge is not None]
        if len(edges) < len(inner):
            raise InputError(
                f"column {column.name!r}: a quantile lies between numbers beyond 2^53 that no edge separates, as they "
                "have digits after the point; use edges or categories"
            )
        return Edges((-math.inf, *edges, math.inf), missing=self.missing, tokens=self.tokens)


Number: TypeAlias = float | Decimal
Rule: TypeAlias = Categories | Edges | Quantiles
FittedRule: TypeAlias = Categories | Edges


def _all_missing(column: Column) -> InputError:
    return InputError(f"column {column.name!r} has no value: every cell is missing; leave it out")


def look_alike(name: str, values: Sequence[str]) -> str | None:
    """A sentence where two classes of a column look the same but for capital letters: blanks around them and the
    composition of letters do not show.
    """
    repeated = len(values) - len({unicodedata.normalize("NFC", value).strip().casefold() for value in values})
    if not repeated:
        return None
    return (
        f"column {name!r}: {repeated} of its {len(values)} classes differ from another one only in blanks around them, "
        "in capital letters or in how letters are composed: they stay apart; read them as one with blanks, nfc, and "
        "write capital letters alike in the table"
    )


def default_rule(column: Column) -> Categories:
    """Categories for text and whole numbers; real numbers need a rule of their own."""
    if column.kind == "number" and not column.missing.all():
        raise InputError(
            f"column {column.name!r} holds real numbers: give it a rule (Quantiles or Edges; Categories if it has few "
            "different whole values; on the command line --bins)"
        )
    return Categories()


def _roundest(low: Number, high: Number) -> float | None:
    """The edge of fewest decimal digits between `low` and `high`; `high` if no edge lies between, None if it is none.

    Between whole numbers it is a whole number, or the middle of neighbouring ones.
    """
    bottom, top = Decimal(low), Decimal(high)
    largest = max(abs(bottom), abs(top)).adjusted() + 1
    finest = 0 if low == math.floor(low) and high == math.floor(high) else largest - 17
    with localcontext(prec=800):  # floats are exact here
        for power in range(largest, finest - 1, -1):
            step = Decimal(1).scaleb(power)
            candidate = ((bottom / step).to_integral_value(ROUND_FLOOR) + 1) * step
            if candidate < top and low < (edge := _edge(candidate)) < high:
                return edge
        middle = float((bottom + top) / 2)
    if low < middle < high:
        return middle
    return _edge(top) if _edge(top) == high else None


def _edge(number: Number) -> float:
    """A number as an edge: a float, or an int for a whole number that no float is. OverflowError beyond all floats."""
    value = float(number)
    rounded = math.isfinite(value) and number != value and number == int(number)
    return int(number) if rounded else value


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
        object.__setattr__(rule, field, tuple(str(item) if kind is str else _edge(item) for item in given))
    except OverflowError:
        raise InputError(f"{field}: a number is beyond all floating-point numbers") from None


def _declared(rule: Rule) -> None:
    """The fields that every rule has."""
    _fixed(rule, "tokens", str)
    for field in ("other", "missing"):
        label = getattr(rule, field, None)
        if not (label is None or (isinstance(label, str) and label.strip() and label.isprintable())):
            raise InputError(f"{field} must be the label of a class (one line of text, not blank), or None")
    if rule.missing is not None and getattr(rule, "other", None) == rule.missing:
        raise InputError("other and missing are two classes and need different labels")


def _with_extras(labels: Sequence[str], rule: Categories | Edges) -> tuple[str, ...]:
    return (*labels, *(label for label in (rule.other, rule.missing) if label is not None))


def _distinct(labels: Sequence[str], name: str) -> None:
    if not labels:
        raise InputError(f"{name} is empty")
    if len(set(labels)) < len(labels):
        repeated = next(place for place, label in enumerate(labels) if label in labels[:place])
        raise InputError(
            f"{name}[{repeated}] (or the label of other or missing) repeats an earlier label; other=LABEL and "
            "missing=LABEL (on the command line --other COL=LABEL, --missing COL=LABEL) name another one"
        )


# The label of the values that are too rare for a class of their own.
REST = "other"


def unused_label(label: str, taken: Collection[str | None]) -> str:
    """The label, or with the first number from 2 on with which it is not among those that are taken."""
    return next(
        candidate
        for candidate in (label, *(f"{label}_{n}" for n in range(2, len(taken) + 3)))
        if candidate not in taken
    )


def _order(text: str) -> tuple[int, int, str]:
    """Whole numbers by size, before everything else."""
    return (0, int(text), text) if WHOLE.fullmatch(text) else (1, 0, text)


def missing_rows(column: Column, rule: Rule) -> np.ndarray:
    """Which rows (n,) of a column are missing to a rule."""
    tokens = set(rule.tokens)
    if column.kind == "text":
        return column.missing | column.mapped(tokens.__contains__, bool)
    # A file has the texts of these numbers.
    numbers = [int(token) for token in tokens if WHOLE.fullmatch(token) and str(int(token)) == token]
    limit = 2**63 if column.kind == "integer" else EXACT
    numbers = np.array([number for number in numbers if abs(number) < limit], dtype=column.values.dtype)
    return column.missing | np.isin(column.values, numbers)


def _as_text(column: Column) -> Column:
    """A column of texts; whole numbers in floats (pandas stores whole numbers with gaps so) are whole numbers."""
    if column.kind == "text":
        return column
    values = column.values
    if column.kind == "number":
        for broken, fault in (
            (values != np.rint(values), "is not a whole number: categories need Quantiles or Edges there"),
            (
                abs(values) >= EXACT,
                "is beyond 2^53 and a float, which may be a rounded whole number: categories need "
                "a column of whole numbers or texts there",
            ),
        ):
            if broken.any():
                raise InputError(f"{column.where(np.flatnonzero(broken)[0])} {fault}")
        values = values.astype(np.int64)
    distinct, place = np.unique(values, return_inverse=True)
    texts = np.array([str(value) for value in distinct.tolist()], dtype=object)
    return replace(column, kind="text", values=texts[place], factors=(texts, place))


def _numbers(column: Column, missing: np.ndarray) -> np.ndarray:
    """Values as float64, or as Python's numbers where some are whole and too large for float64; 0 where missing."""
    if column.kind == "text":
        exact = column.mapped(number_of, object)
    else:
        exact = column.values
    numbers = exact.astype(np.float64)
    broken = np.flatnonzero(~np.isfinite(numbers) & ~missing)
    if broken.size:
        raise InputError(
            f"{column.where(broken[0])} is not a finite decimal number (with a point); the rule needs one (on the "
            "command line, for numbers such as 1.234,5: --read decimal=, --read thousands=.; for texts of missing "
            "values: --read empty=TEXT)"
        )
    rounded = column.kind != "number" and (abs(numbers[~missing]) >= EXACT).any()
    return np.where(missing, 0, exact.astype(object)) if rounded else np.where(missing, 0.0, numbers)


def numbers_of(column: Column) -> np.ndarray:
    """Every value as a finite number (n,); `InputError` naming column and row for what is none, or missing."""
    missing = missing_rows(column, Categories())
    if missing.any():
        raise InputError(f"{column.where(np.flatnonzero(missing)[0])} is missing (such rows: {missing.sum()})")
    return _numbers(column, missing).astype(np.float64)


_OPTIONS = {"other": "--other COL=LABEL, --bins COL=categories:N or wider edges", "missing": "--missing COL=LABEL"}


def _closed(
    codes: np.ndarray, missing: np.ndarray, classes: int, column: Column, rule: FittedRule, fault: str
) -> np.ndarray:
    """Codes with the declared classes for other (-1) and missing values, or an error for the first of them."""
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


def codes_of_labels(column: Column, labels: Sequence[str]) -> np.ndarray:
    """The code of the class whose label stands in each row, (n,); as `jaxpriv release` writes it too.

    `InputError` naming column and row for what is no label.
    """
    # A text that is the escaped form of one label and another label itself stands for the first where all do.
    if column.kind != "text":
        texts = np.array([str(value) for value in column.values.tolist()], dtype=object)
        column = replace(column, kind="text", values=texts, factors=None)
    codes = np.zeros(0, dtype=np.int64)
    for forms in ([escaped(label) for label in labels], labels):
        place = codes_by_text(forms)
        codes = column.mapped(lambda text, place=place: place.get(text, -1), np.int64)
        if (codes >= 0).all():
            return codes
    unknown = np.flatnonzero(codes < 0)
    raise InputError(f"{column.where(unknown[0])} is no class that the mapping releases (such rows: {unknown.size})")


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
    from jaxpriv._runtime.validation import by_column, scalar  # it brings JAX in, which tables are read without

    by_column(kinds, "kinds")
    by_column(weights, "weights")
    kinds, weights = dict(kinds or {}), dict(weights or {})
    need_useful(kinds, weights, codebook.useful)
    codes = np.asarray(attributes)
    need_memory(24.0 * len(codes) ** 2, "a distortion between all useful symbols", MERGE)
    total = np.zeros((len(codes), len(codes)))
    for place, column in enumerate(codebook.useful):
        weight = scalar(weights.get(column, 1.0), f"weight of column {column!r}", low=0.0)
        prices = _prices(kinds.get(column, "changed"), codebook.rules[column], column)
        total += weight * prices[codes[:, place, None], codes[None, :, place]]
    return total


def need_useful(kinds: Iterable[str], weights: Iterable[str], useful: Sequence[str]) -> None:
    """Refuse a price of a column that is not useful."""
    for name, given in (("distortion", kinds), ("weight", weights)):
        for column in given:
            if column not in useful:
                hint = near(column, useful)
                raise InputError(f"{name} is given for column {column!r}, which is not among the useful columns{hint}")


def _prices(kind: str | float | ArrayLike, rule: FittedRule, column: str) -> np.ndarray:
    size = len(rule.labels)
    what = f"distortion of column {column!r}"
    if not isinstance(kind, str):
        from jaxpriv._runtime.validation import nonnegative, real_array

        array = real_array(kind, what, ndim=2)
        if np.isposinf(array).any():
            raise InputError(
                f"{what} has an infinite price, and designs of tables take finite ones: the distortion of a problem "
                "(DistortionProblem, PROBLEM.npz) takes inf, which forbids a pair"
            )
        prices = nonnegative(array, what)
        if prices.shape != (size, size):
            raise InputError(f"{what} has shape {prices.shape}; the column has {size} classes")
        return np.asarray(prices, dtype=np.float64)
    if kind not in KINDS:
        raise InputError(f"{what} must be one of {', '.join(KINDS)}, or a table of prices{near(kind, KINDS)}")
    if kind == "changed":
        return 1.0 - np.eye(size)
    values = _values(rule, what)
    apart = _differences(values)
    if kind == "squared":
        with np.errstate(over="ignore", under="ignore"):
            apart = apart**2
    same = len(values) + 2 * sum(math.comb(count, 2) for count in Counter(values).values())
    if not np.isfinite(apart).all() or (apart == 0).sum() > same:
        raise InputError(
            f"{what}: two classes are nearer to or farther from each other than a floating-point number can say; use "
            "`changed` or a table of prices"
        )
    prices = np.full((size, size), apart.max(initial=0.0))  # classes without a value
    prices[: len(values), : len(values)] = apart
    np.fill_diagonal(prices, 0.0)
    return prices


def _differences(values: Sequence[Fraction]) -> np.ndarray:
    """|a - b| for every two of the numbers, float64 (k, k), each rounded once."""
    scale = math.lcm(*(value.denominator for value in values))
    whole = [value.numerator * (scale // value.denominator) for value in values]
    least = min(whole, default=0)
    whole = [number - least for number in whole]
    if max(whole, default=0) < EXACT and scale < EXACT:
        numbers = np.array(whole, dtype=np.float64)
        return abs(numbers[:, None] - numbers) / scale
    return np.array([[_ratio(abs(number - other), scale) for other in whole] for number in whole])


def _ratio(above: int, below: int) -> float:
    try:
        return above / below
    except OverflowError:
        return math.inf


def _values(rule: FittedRule, what: str) -> list[Fraction]:
    """The number of each class; the classes of other and missing values, which come last, have none."""
    if isinstance(rule, Edges):
        return [_middle(low, high) for low, high in itertools.pairwise(rule.edges)]
    return [_fraction(text, what) for text in rule.values or ()]


def _middle(low: float, high: float) -> Fraction:
    ends = [Fraction(edge) for edge in (low, high) if not math.isinf(edge)]
    return sum(ends, Fraction(0)) / max(len(ends), 1)


def _fraction(text: str, what: str) -> Fraction:
    if not NUMBER.fullmatch(text):
        raise InputError(
            f"{what}: a category is no number, so it is `changed` or a table of prices (answers on a scale are numbers "
            "where the table has 1, 2, 3, ... for them)"
        )
    nearest = float(text)
    zero = not text.lower().partition("e")[0].strip().strip("+-0.")
    if math.isinf(nearest) or (nearest == 0) != zero:
        raise InputError(f"{what}: a category is beyond the floating-point numbers; use `changed` or a table of prices")
    return Fraction(0) if zero else Fraction(Decimal(text))
