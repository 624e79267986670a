"""A table of records by the symbols of a mapping, and what was released of it row for row, as counts of an audit."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from jaxpriv.data.datasets._layout import places_of
from jaxpriv.errors import InputError
from jaxpriv.release.mechanism import Mechanism
from jaxpriv.statistics.tables import Codebook, CountedTable, TableFile
from jaxpriv.statistics.tables.readers import Column, Source, read_columns, row_text
from jaxpriv.statistics.tables.rules import FittedRule, codes_of_labels
from jaxpriv.verifier.archive import read_file
from jaxpriv.verifier.csv_text import column_names
from jaxpriv.verifier.orders import read_order


@dataclass(frozen=True, eq=False)
class CountedRecords:
    """Records by the alphabet of a mapping.

    Attributes:
        counts: (S, X) whole numbers of records, or a joint; S are the private combinations that occur in these records.
        useful: (n,) the useful symbol x of each record; -1 for one that is released independently of what it is.
    """

    counts: np.ndarray
    useful: np.ndarray

    def ordered(self, order: np.ndarray | str | os.PathLike[str] | None, releases: object) -> "CountedRecords":
        """The same, the records in the order of the rows of a released table, which an array or a file states."""
        return replace(self, useful=self.useful[records_in_order(order, releases, len(self.useful))])

    def released_as(self, symbols: np.ndarray, outputs: int) -> np.ndarray:
        """Counts (X, Y) of the pairs of these records with a symbol and of y (n,), what was released of all of them."""
        if len(symbols) != len(self.useful):
            raise InputError(f"releases has {len(symbols)} rows, the records {len(self.useful)}; they go row by row")
        counts, located = np.zeros((self.counts.shape[1], outputs), dtype=np.int64), self.useful >= 0
        np.add.at(counts, (self.useful[located], symbols[located]), 1)
        return counts


def released_symbols(mechanism: Mechanism, released: Source) -> np.ndarray:
    """The released symbol y of every row of a released table, (n,)."""
    columns = read_columns(released, mechanism.released_columns)
    pairs = zip(columns.values(), mechanism.released_labels, strict=True)
    return _symbols([codes_of_labels(*pair) for pair in pairs], mechanism.released)


def _symbols(codes: Sequence[np.ndarray], outputs: np.ndarray) -> np.ndarray:
    """The y (n,) of the classes of each released column, those of all y being `outputs` (Y, b)."""
    symbols = places_of(np.stack(codes, axis=1), outputs)
    unknown = np.flatnonzero(symbols < 0)
    if unknown.size:
        raise InputError(
            f"the released table, {row_text(unknown[0])}: a combination that the mapping never releases (such rows: "
            f"{unknown.size})"
        )
    return symbols


def records_in_order(order: np.ndarray | str | os.PathLike[str] | None, releases: object, size: int) -> np.ndarray:
    """The record of each row of a released table, by an array or a file; without either rows are in that of records."""
    if order is None:
        return np.arange(size)
    file = releases.path if isinstance(releases, TableFile) else releases
    if releases is None or isinstance(releases, np.ndarray):
        raise InputError("order: it is about a table in releases")
    if isinstance(order, (str, os.PathLike)):
        if not isinstance(file, (str, os.PathLike)):
            raise InputError("order: a file is about releases in a file")
        order = np.array(read_order(read_file(Path(order)), f"row_order: {order}", read_file(Path(file)), size))
    order = np.asarray(order)
    named = order.ndim == 1 and order.dtype.kind in "iu" and len(np.unique(order)) == len(order)
    if not named or not ((order >= 0) & (order < size)).all():
        raise InputError(f"order must name records by numbers from 0 to {size - 1}, none twice")
    return order


def counts_by_design(source: Source, design: Mechanism) -> CountedRecords:
    """The records of a table by the classes of a design; one without a symbol as the design states."""
    records = design.codebook.encode(source)
    _, s = np.unique(records.private, axis=0, return_inverse=True)
    x = design.locate_codes(records.useful)
    counts = np.zeros((int(s.max()) + 1, len(design.useful)), dtype=np.int64)
    np.add.at(counts, (s.ravel(), x), 1)
    # What a suppressed record was released by is not known: x is another draw for it.
    suppressed = design.unknown(records.useful) & (design.unseen == "suppress")
    return CountedRecords(counts, np.where(suppressed, -1, x))


def counts_by_symbols(table: CountedTable, attributes: np.ndarray, name: str = "counts") -> CountedRecords:
    """The same where the useful symbols are the rows of `attributes` (X, b): the "counts" or, as `name`, the "joint".

    `InputError` for counts where the joint is that of weighted records.
    """
    useful, data = table.codebook.useful, table.dataset
    if name == "counts" and not np.allclose(data.joint, data.counts / data.counts.sum(), rtol=1e-12, atol=0):
        raise InputError("counts: the records are weighted; counts bound nothing for a weighted population: give joint")
    if attributes.ndim != 2 or attributes.shape[1] != len(useful) or attributes.dtype.kind not in "iu":
        raise InputError(f"attributes must be whole numbers, one column for each of the {len(useful)} useful ones")
    places = places_of(data.useful_attributes, attributes)
    symbols = places[table.useful_symbols]
    unknown = np.flatnonzero(symbols < 0)
    if unknown.size:
        raise InputError(
            f"{name}: {row_text(unknown[0])} combines classes as no symbol of the mapping does "
            f"(such rows: {unknown.size})"
        )
    of_table = getattr(data, name)
    counts = np.zeros((len(of_table), len(attributes)), dtype=of_table.dtype)
    counts[:, places] = of_table
    return CountedRecords(counts, symbols)


def releases_by_symbols(
    source: Source, names: str | Sequence[str] | None, records: CountedRecords, book: Codebook, attributes: np.ndarray
) -> np.ndarray:
    """Counts (X, Y) of the pairs of `records` and the table that was released from them, row for row.

    Of a mapping whose outputs are its useful symbols: the table has released classes, or values of them.
    """
    names = book.useful if names is None else column_names(names)
    if len(names) != len(book.useful):
        raise InputError(f"released names {len(names)} columns, the mapping releases {len(book.useful)}")
    pairs = zip(read_columns(source, list(names)).values(), book.useful, strict=True)
    codes = [released_classes(column, book.rules[name]) for column, name in pairs]
    return records.released_as(_symbols(codes, attributes), len(attributes))


def released_classes(column: Column, rule: FittedRule) -> np.ndarray:
    """The class of each released value, (n,), whatever tool released it: labels, or else values of the classes."""
    try:
        return codes_of_labels(column, rule.labels)
    except InputError:
        return rule.encode(column)
