"""A joint distribution counted from people, whose symbols are combinations of named attributes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.resources import need_memory


@dataclass(frozen=True, eq=False)
class Dataset:
    """A joint distribution counted from people, S and X being combinations of named attributes.

    Symbols are sorted by their attribute codes; combinations without records are left out, so both
    marginals are positive. Arrays are read-only host arrays.

    Attributes:
        joint: `(S, X)` float64, `counts / counts.sum()`.
        counts: `(S, X)` int64, people.
        private_names, useful_names: the attributes that make up S and X.
        private_values, useful_values: per attribute, the label of each code.
        private_attributes, useful_attributes: `(S, a)` and `(X, b)` int64, the codes of each symbol.
            The mean number of attributes in which x and y differ is the attribute-wise Hamming
            distortion of `useful_attributes`.
        source: whom to name when the data are used, and the licence.
    """

    joint: np.ndarray
    counts: np.ndarray
    private_names: tuple[str, ...]
    useful_names: tuple[str, ...]
    private_values: tuple[tuple[str, ...], ...] = field(repr=False)
    useful_values: tuple[tuple[str, ...], ...] = field(repr=False)
    private_attributes: np.ndarray
    useful_attributes: np.ndarray
    source: str

    __repr__ = summary

    @property
    def private_labels(self) -> tuple[tuple[str, ...], ...]:
        """Per private symbol, its attribute values as text."""
        return _labels(self.private_attributes, self.private_values)

    @property
    def useful_labels(self) -> tuple[tuple[str, ...], ...]:
        """Per useful symbol, its attribute values as text."""
        return _labels(self.useful_attributes, self.useful_values)


@dataclass(frozen=True)
class Side:
    """S or X before counting: attribute names, the labels of their codes, and the codes `(n, attributes)` of n rows."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    codes: np.ndarray


def distinct_rows(codes: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The different rows of `codes` in lexicographic order, and the place of each row among them.

    `codes[:, k]` lies in `0 .. sizes[k] - 1`.
    """
    if math.prod(sizes) < 2**62:  # one number for each row: much faster than comparing rows
        flat, index = np.unique(np.ravel_multi_index(tuple(codes.T), tuple(sizes)), return_inverse=True)
        symbols = np.stack(np.unravel_index(flat, tuple(sizes)), axis=1)
    else:
        symbols, index = np.unique(codes, axis=0, return_inverse=True)
    return symbols.astype(np.int64), index.reshape(-1)


def columns_added(table: np.ndarray, place: np.ndarray) -> np.ndarray:
    """`table` (S, X) with the columns of equal `place` (X,) added up: (S, k) for places in 0 .. k - 1."""
    added = np.zeros((len(table), int(place.max(initial=-1)) + 1), table.dtype)
    np.add.at(added.T, place, table.T)
    return added


def places_of(rows: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """The place (n,) of each row (n, a) among `listed` (k, a), -1 where it is none of them."""
    place = {row: k for k, row in enumerate(map(tuple, listed.tolist()))}
    return np.array([place.get(row, -1) for row in map(tuple, rows.tolist())], dtype=np.int64)


def counted(private: Side, useful: Side, people: np.ndarray, source: str) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """The dataset of rows that stand for `people` (n,) each, and the symbols s (n,) and x (n,) of the rows."""
    (private_codes, s), (useful_codes, x) = (
        distinct_rows(side.codes, [len(labels) for labels in side.values]) for side in (private, useful)
    )
    shape = (len(private_codes), len(useful_codes))
    need_memory(24.0 * shape[0] * shape[1], "the table of counts", "use fewer classes")
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (s, x), people)
    joint = counts / counts.sum()
    for array in (joint, counts, private_codes, useful_codes):
        array.setflags(write=False)
    dataset = Dataset(
        joint=joint,
        counts=counts,
        private_names=private.names,
        useful_names=useful.names,
        private_values=private.values,
        useful_values=useful.values,
        private_attributes=private_codes,
        useful_attributes=useful_codes,
        source=source,
    )
    return dataset, s, x


def _labels(codes: np.ndarray, values: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(labels[code] for labels, code in zip(values, row, strict=True)) for row in codes)
