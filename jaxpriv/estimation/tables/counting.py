"""Counting: records as codes -> a joint distribution with its counts, and the symbol of every row."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxpriv._repr import summary
from jaxpriv.datasets._layout import Dataset, counted
from jaxpriv.errors import InputError
from jaxpriv.estimation.tables.border import Source, row_text
from jaxpriv.estimation.tables.codebook import Codebook, fit_codebook

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
    private: Any = (),
    useful: Any = (),
    rules: Any = None,
    shared: Any = (),
    codebook: Codebook | None = None,
    sparse: bool = False,
    name: str = "a table of records",
) -> CountedTable:
    """The joint distribution of a table: classes as in `fit_codebook` (or a given `codebook`), then counts.

    Symbols are the combinations of classes that occur, in the order of their codes. `sparse=True`
    declares that fewer than five rows for each useful symbol are meant; otherwise that is an error.
    `name` becomes `dataset.source`.

    Raises `InputError` as `fit_codebook`, for too many symbols, and if both or neither of `codebook`
    and columns are given.
    """
    if codebook is None:
        codebook = fit_codebook(source, private=private, useful=useful, rules=rules, shared=shared)
    elif private or useful or rules or shared:
        raise InputError("a codebook has its own columns and rules: give either a codebook or columns")
    records = codebook.encode(source)
    rows = len(records.private)
    dataset, s, x = counted(
        codebook.side(codebook.private, records.private),
        codebook.side(codebook.useful, records.useful),
        np.ones(rows, dtype=np.int64),
        name,
    )
    symbols = dataset.counts.shape[1]
    few = rows < _ROWS_PER_SYMBOL * symbols
    if few and not sparse:
        raise InputError(
            f"{rows} rows make {symbols} useful symbols, fewer than {_ROWS_PER_SYMBOL} rows each: use fewer classes or "
            "columns, or declare that this is meant (sparse)"
        )
    return CountedTable(dataset, codebook, s, x, few)
