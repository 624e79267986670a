"""Counting: records as codes -> a joint distribution with its counts, and the symbol of every row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jaxpriv._repr import summary
from jaxpriv.datasets._layout import Dataset, counted
from jaxpriv.errors import InputError
from jaxpriv.estimation.tables.border import Column, Source, read_columns, row_text
from jaxpriv.estimation.tables.codebook import Codebook, fit_with_columns
from jaxpriv.estimation.tables.rules import Rule, numbers_of

# Below this many rows for each useful symbol the joint is mostly noise: with one row each, P(s|x) is 0 or 1.
_ROWS_PER_SYMBOL = 5


@dataclass(frozen=True, eq=False)
class CountedTable:
    """The joint of a table, and how it came about.

    Attributes:
        dataset: joint, counts, labels and attribute codes of the symbols that occur.
        codebook: the classes.
        private_symbols, useful_symbols: `(n,)` int64, the s and the x of every row.
        sparse: whether there are fewer than five rows for each useful symbol. What is measured on
            such a joint says little about the population.
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
        codes = self.codebook.encode_useful(source)
        known = {row: x for x, row in enumerate(map(tuple, self.dataset.useful_attributes.tolist()))}
        symbols = np.array([known.get(row, -1) for row in map(tuple, codes.tolist())], dtype=np.int64)
        unseen = np.flatnonzero(symbols < 0)
        if unseen.size:
            raise InputError(
                f"{row_text(unseen[0])} combines the classes of {', '.join(map(repr, self.codebook.useful))} as no "
                f"row of the table did ({unseen.size} such rows)"
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
    declares that fewer than five rows for each useful symbol are meant; otherwise that is an error.
    `name` becomes `dataset.source`.

    `weights` names a column of survey weights, finite numbers >= 0 with a positive total: the joint is then that of the
    weighted records, while the counts are still of records. Bounds for a population from counts do not apply to it.

    Raises `InputError` as `fit_codebook`, for too many symbols, and if both or neither of `codebook`
    and columns are given.
    """
    if codebook is None:
        codebook, columns = fit_with_columns(
            source, private=private, useful=useful, rules=rules, shared=shared, weights=weights
        )
    elif private or useful or rules or shared:
        raise InputError("a codebook has its own columns and rules: give either a codebook or columns")
    else:
        if weights in codebook.columns:
            raise InputError(f"weights: column {weights!r} is private or useful")
        columns = read_columns(source, [*codebook.columns, *([] if weights is None else [weights])])
    records = codebook.encode({name: columns[name] for name in codebook.columns})
    rows = len(records.private)
    dataset, s, x = counted(
        codebook.side(codebook.private, records.private),
        codebook.side(codebook.useful, records.useful),
        np.ones(rows, dtype=np.int64),
        name,
    )
    if weights is not None:
        dataset = _weighted(dataset, columns[weights], s, x)
    symbols = dataset.counts.shape[1]
    few = rows < _ROWS_PER_SYMBOL * symbols
    if few and not sparse:
        raise InputError(
            f"{rows} rows make {symbols} useful symbols, fewer than {_ROWS_PER_SYMBOL} rows each: use fewer classes or "
            "columns, or declare that this is meant (sparse)"
        )
    return CountedTable(dataset, codebook, s, x, few)


def _weighted(dataset: Dataset, column: Column, s: np.ndarray, x: np.ndarray) -> Dataset:
    """The dataset with the joint of the weighted records."""
    weights = numbers_of(column)
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        raise InputError(f"{column.where(negative[0])} is negative ({negative.size} such rows); weights are >= 0")
    joint = np.zeros(dataset.joint.shape)
    np.add.at(joint, (s, x), weights)
    if not (joint.sum() > 0 and np.isfinite(joint.sum())):
        raise InputError(f"column {column.name!r}: the weights must have a positive finite sum")
    if not (joint.sum(axis=1) > 0).all() or not (joint.sum(axis=0) > 0).all():
        raise InputError(f"column {column.name!r}: all records of a symbol have weight 0; leave them out")
    joint /= joint.sum()
    joint.setflags(write=False)
    return replace(dataset, joint=joint)
