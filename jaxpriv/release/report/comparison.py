"""What a release lost: columns and pairs of columns before and after, and how well a column is predicted from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import instance
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.release import Evidence, GroupedMechanism, Mechanism
from jaxpriv.release.matching import released_classes
from jaxpriv.release.mechanism import MADE_BY_FIT
from jaxpriv.statistics.tables import Categories, Codebook, Rule, Source, fit_codebook
from jaxpriv.statistics.tables.readers import Column, read_columns
from jaxpriv.verifier.csv_text import column_names, escaped

# Pairs of columns that are kept, those with the largest changes.
_PAIRS = 10
# Half of the rows is for training.
_SEED = 0


@dataclass(frozen=True, eq=False)
class ColumnChange:
    """One column before and after.

    Attributes:
        labels: of its classes, (k,).
        before, after: the share of the records in each class, (k,); where rows are paired, of those that were released.
        unmoved: the share of the records that are in the class before and after, (k,); None where rows are not paired.
        changed: the share of the records whose class is another one; None where rows are not paired.
    """

    name: str
    labels: tuple[str, ...]
    before: np.ndarray
    after: np.ndarray
    unmoved: np.ndarray | None
    changed: float | None

    __repr__ = summary

    @property
    def variation(self) -> float:
        """The total variation distance of the two distributions, half the sum of |before - after|."""
        return 0.5 * float(abs(self.before - self.after).sum())


@dataclass(frozen=True)
class PairChange:
    """Two columns together: the total variation of their joint distribution, and Cramer's V before and after."""

    names: tuple[str, str]
    variation: float
    association_before: float
    association_after: float


@dataclass(frozen=True)
class Prediction:
    """How often a column that is not released is predicted rightly from the useful ones, on rows that trained nothing.

    Attributes:
        target: its name.
        constant: predicting its most frequent class.
        before, after: logistic regression on the classes of the original, and of the released columns.
    """

    target: str
    constant: float
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found; `pairs` by their total variation, the largest first, at most ten.

    `rows` of each table; `paired`: whether each released row was compared with its own record.
    """

    columns: tuple[ColumnChange, ...]
    pairs: tuple[PairChange, ...]
    prediction: Prediction | None
    rows: tuple[int, int]
    paired: bool

    __repr__ = summary


def compare(
    original: Source,
    released: Source,
    *,
    mechanism: Mechanism | GroupedMechanism | None = None,
    useful: str | Sequence[str] = (),
    rules: dict[str, Rule] | None = None,
    order: np.ndarray | None = None,
    identity: str | None = None,
    target: str | None = None,
) -> Comparison:
    """Compare a table with what was released of it.

    Rows are compared with their own records where that is known: by `order`, the record of each released row, or by
    `identity`, a column of both tables with a value for each record. Otherwise distributions alone are compared.

    Args:
        original, released: tables.
        mechanism: the design, whose classes the columns have; or
        useful, rules: columns of both tables, and rules for the classes of the original ones (categories by default);
            a released value is a class label, or a value of the class.
        order: (n,) whole numbers; `arange(n)` for rows in the order of the records.
        identity: the name of a column.
        target: a further column of `original` that is predicted from the useful ones; needs scikit-learn and rows that
            are paired.

    Raises `InputError` for columns that are absent, values without a class, a design that releases other columns than
    the useful ones, and rows that cannot be paired; `ResourceError` without scikit-learn.
    """
    book = _codebook(original, mechanism, column_names(useful), rules)
    further = [name for name in (identity, target) if name is not None]
    for name in further:
        if name in book.useful:
            raise InputError(f"{'identity' if name == identity else 'target'}: column {name!r} is a useful one")
    before = read_columns(original, [*book.useful, *further])
    after = read_columns(released, [*book.useful, *([] if identity is None else [identity])])
    sides = [
        np.stack([book.rules[name].encode(before[name]) for name in book.useful], axis=1),
        np.stack([released_classes(after[name], book.rules[name]) for name in book.useful], axis=1),
    ]
    rows = len(sides[0]), len(sides[1])
    records = None
    if order is not None and identity is not None:
        raise InputError("give `order` or `identity`, not both")
    if order is not None:
        records = np.asarray(order)
        named = records.dtype.kind in "iu" and records.shape == (rows[1],)
        if not named or not np.array_equal(np.sort(records), np.arange(rows[0])):
            raise InputError(f"order must name each of the {rows[0]} records once, for the {rows[1]} released rows")
    if identity is not None:
        records = _matched(before[identity], after[identity])
    prediction = None
    if target is not None:
        if records is None:
            raise InputError("target: a prediction needs paired rows; give `order` or `identity`")
        prediction = _predicted(target, before[target], sides[0][records], sides[1], records)
    ones = [np.ones(count) for count in rows]
    same = None
    if records is not None:
        same = (sides[0][records] == sides[1]).astype(float)
        sides[0], ones[0] = sides[0][records], ones[1]
    return _comparison(book, sides, ones, same, prediction, rows)


def expected(mechanism: Mechanism, evidence: Evidence) -> Comparison:
    """The comparison that releases of the records of the design have on average; the useful columns are released."""
    counts = evidence.counts.sum(axis=0).astype(np.float64)
    moved = counts[:, None] * mechanism.matrix()
    sides = [mechanism.useful, mechanism.released]
    same = np.stack(
        [(moved * (sides[0][:, None, c] == sides[1][None, :, c])).sum(axis=1) for c in range(sides[0].shape[1])], axis=1
    )
    total = int(counts.sum())
    return _comparison(mechanism.codebook, sides, [counts, moved.sum(axis=0)], same, None, (total, total))


def _codebook(
    original: Source,
    mechanism: Mechanism | GroupedMechanism | None,
    useful: Sequence[str],
    rules: dict[str, Rule] | None,
) -> Codebook:
    if mechanism is not None:
        instance(mechanism, "mechanism", Mechanism, GroupedMechanism, hint=MADE_BY_FIT)
        if useful or rules:
            raise InputError("a design has its own columns and rules: give either mechanism or useful and rules")
        if mechanism.released_columns != mechanism.codebook.useful:
            raise InputError(
                "mechanism releases numbered symbols, which are no classes of the useful columns: `jaxpriv excess` has "
                "what they disclose, `jaxpriv counts` which counts they determine"
            )
        return mechanism.codebook
    if not useful:
        raise InputError("name the useful columns, or give the mechanism that released them")
    # A codebook has a private column, too; here every column is compared alike.
    return fit_codebook(original, private=useful[0], useful=useful, rules=rules, shared=useful[0])


def _matched(before: Column, after: Column) -> np.ndarray:
    """The record of each released row by the values of a column, as `jaxpriv release` writes them too."""
    place: dict[str, int] = {}
    for row, text in enumerate(before.texts):
        if place.setdefault(text, row) != row:
            raise InputError(f"identity: {before.where(row)} has the value of an earlier row")
    codes = np.zeros(0, dtype=np.int64)
    for by_text in ({escaped(text): row for text, row in place.items()}, place):
        codes = np.array([by_text.get(text, -1) for text in after.texts], dtype=np.int64)
        if (codes >= 0).all():
            break
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        raise InputError(f"identity: {after.where(unknown[0])} of the released table is of no record")
    if len(np.unique(codes)) < len(codes):
        raise InputError("identity: several released rows are of one record")
    return codes


def _comparison(
    book: Codebook,
    codes: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    same: np.ndarray | None,
    prediction: Prediction | None,
    rows: tuple[int, int],
) -> Comparison:
    """Of two sides, codes (n, b) of the useful columns with weights (n,) each; `same`: how much of the weight of the
    first side (n, b) keeps its class.
    """
    labels = [book.rules[name].labels for name in book.useful]

    def shares(*columns: int) -> list[np.ndarray]:
        sizes = tuple(len(labels[column]) for column in columns)
        tables = []
        for side, weight in zip(codes, weights, strict=True):
            table = np.zeros(sizes)
            np.add.at(table, tuple(side[:, column] for column in columns), weight)
            tables.append(table / weight.sum())
        return tables

    columns = []
    for place, name in enumerate(book.useful):
        before, after = shares(place)
        unmoved, changed = None, None
        if same is not None:
            total = weights[0].sum()
            unmoved = np.bincount(codes[0][:, place], same[:, place], len(labels[place])) / total
            changed = max(0.0, float(total - same[:, place].sum()) / float(total))
        columns.append(ColumnChange(name, labels[place], before, after, unmoved, changed))
    pairs = []
    for first, second in combinations(range(len(labels)), 2):
        before, after = shares(first, second)
        variation = 0.5 * float(abs(before - after).sum())
        pairs.append(PairChange((book.useful[first], book.useful[second]), variation, _cramer(before), _cramer(after)))
    pairs.sort(key=lambda pair: -pair.variation)
    return Comparison(tuple(columns), tuple(pairs[:_PAIRS]), prediction, rows, same is not None)


def _cramer(table: np.ndarray) -> float:
    """Cramer's V of a joint distribution: sqrt( chi^2 / (min(rows, columns) - 1) ), over the classes that occur."""
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    least = min(table.shape)
    if least < 2:
        return 0.0
    independent = table.sum(axis=1)[:, None] * table.sum(axis=0)
    squared = float(((table - independent) ** 2 / independent).sum())
    return min(1.0, (squared / (least - 1)) ** 0.5)


def _predicted(name: str, column: Column, before: np.ndarray, after: np.ndarray, records: np.ndarray) -> Prediction:
    """Accuracy on the second half of the rows, in an order drawn by a fixed seed."""
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder
    except ImportError as error:
        raise ResourceError("a prediction needs scikit-learn: pip install 'jaxpriv[estimation]'") from error

    classes = Categories(missing="missing").fit(column).encode(column)[records]
    order = np.random.default_rng(_SEED).permutation(len(classes))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    if len(set(classes[train].tolist())) < 2:
        raise InputError(f"target: column {name!r} has one class in the rows for training")

    def right(codes: np.ndarray) -> float:
        model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000))
        return float(model.fit(codes[train], classes[train]).score(codes[test], classes[test]))

    frequent = np.bincount(classes[train]).argmax()
    return Prediction(name, float((classes[test] == frequent).mean()), right(before), right(after))
