"""Samples of (S, X): private codes beside features or symbols, checked on the host."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import finite, listed, real_array, whole
from jaxpriv.errors import InputError


class Rows(eqx.Module):
    """What a row of X looks like: `inputs` features (`symbols` None), or one of `symbols` = `inputs` symbols."""

    inputs: int = eqx.field(static=True)
    symbols: int | None = eqx.field(static=True)

    def checked(self, useful: object) -> np.ndarray:
        """`useful` as float64 features `(n, inputs)` or int64 symbols `(n,)`; `InputError` if it is neither."""
        if self.symbols is not None:
            return codes(useful, "useful", self.symbols)
        array = finite(real_array(useful, "useful", ndim=2), "useful")
        if array.shape[1] != self.inputs:
            raise InputError(f"useful has {array.shape[1]} columns; the samples have {self.inputs}")
        return array


class Samples(eqx.Module):
    """n rows of (s, x) on the host; built by `from_features` and `from_symbols`, which check them.

    Attributes:
        private: `(n,)` int64 codes, 0 .. private_size - 1, each of which occurs.
        useful: `(n, d)` float64 features, or `(n,)` int64 symbols of a finite alphabet.
        numeric: `(d,)` bool, the features that are numeric; the others are indicators, as symbols become.
        private_size: |S|, at least 2.
        rows: what a row of X looks like.
    """

    private: np.ndarray
    useful: np.ndarray
    numeric: np.ndarray
    private_size: int = eqx.field(static=True)
    rows: Rows

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.private)

    @property
    def prior(self) -> np.ndarray:
        """`(S,)` the shares of the private values among all rows; all positive."""
        return np.bincount(self.private, minlength=self.private_size) / self.size


def codes(value: object, name: str, size: int) -> np.ndarray:
    """`value` as int64 codes `(n,)` in 0 .. size - 1."""
    array = finite(real_array(value, name, ndim=1), name)
    bad = ~((array >= 0) & (array < size) & (array == np.floor(array)))
    if np.any(bad):
        raise InputError(f"{name}[{np.flatnonzero(bad)[0]}] is not a whole number in 0 .. {size - 1}")
    return array.astype(np.int64)


def _private(value: object, size: int | None) -> tuple[np.ndarray, int]:
    array = finite(real_array(value, "private", ndim=1), "private")
    if size is None:
        size = int(np.clip(array.max(), 0, len(array))) + 1  # a code beyond the number of rows is refused below
    size = whole(size, "private_size", low=1.0)
    array = codes(array, "private", size)
    present = np.unique(array)
    if len(present) < 2:
        raise InputError("private has a single value: there is nothing to learn about it")
    if len(present) < size:
        missing = np.argmax(np.append(present, -1) != np.arange(len(present) + 1))
        raise InputError(f"private: no row has code {missing}; use consecutive codes of the values that occur")
    return array, size


def _same_rows(array: np.ndarray, name: str, other: np.ndarray, other_name: str = "private") -> None:
    if len(array) != len(other):
        raise InputError(f"{name} has {len(array)} rows; {other_name} has {len(other)}")


def one_hot(columns: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """`(n, sum(sizes))` float64 indicators of the `(n, c)` codes, column after column."""
    need_memory(8.0 * len(columns) * sum(sizes), "indicators of every category", "merge rare categories")
    table = np.zeros((len(columns), sum(sizes)))
    first = np.cumsum([0, *sizes[:-1]])
    table[np.arange(len(columns))[:, None], first + columns] = 1.0
    return table


def encode(
    numeric: ArrayLike | None = None, *, categories: ArrayLike | None = None, sizes: Sequence[int] | None = None
) -> np.ndarray:
    """`(n, d)` rows of X as estimators get them: `numeric`, then the indicators of each category in turn.

    Arguments and errors as for `from_features`; give `sizes` for rows that are to be scored later, so that a category
    that does not occur among them keeps its place.

    Raises `InputError` if neither `numeric` nor `categories` is given, or `sizes` has not one entry for each column.
    """
    blocks: list[np.ndarray] = []
    if numeric is not None:
        blocks.append(finite(real_array(numeric, "numeric", ndim=2), "numeric"))
    if categories is not None:
        array = finite(real_array(categories, "categories", ndim=2), "categories")
        if blocks:
            _same_rows(array, "categories", blocks[0], "numeric")
        if sizes is None:
            sizes = [int(top) + 1 for top in np.clip(array.max(axis=0), 0, len(array))]
        sizes = listed(sizes, "sizes")
        if len(sizes) != array.shape[1]:
            raise InputError(f"sizes has {len(sizes)} entries; categories has {array.shape[1]} columns")
        sizes = [whole(value, f"sizes[{k}]", low=1.0) for k, value in enumerate(sizes)]
        columns = [codes(array[:, k], f"categories[:, {k}]", size) for k, size in enumerate(sizes)]
        blocks.append(one_hot(np.stack(columns, axis=1), sizes))
    if not blocks:
        raise InputError("numeric or categories is needed")
    return np.concatenate(blocks, axis=1)


def from_features(
    private: ArrayLike,
    numeric: ArrayLike | None = None,
    *,
    categories: ArrayLike | None = None,
    sizes: Sequence[int] | None = None,
    private_size: int | None = None,
) -> Samples:
    """Samples with numeric features, categories, or both.

    Args:
        private: `(n,)` codes 0, 1, ... of S.
        numeric: `(n, d)` real features, scaled when an estimator is fitted (by its training rows).
        categories: `(n, c)` codes of categorical features; each becomes a group of indicators.
        sizes: how many values each category has (default: the largest code plus one).
        private_size: |S| (default: the largest code plus one).

    Raises `InputError` naming argument and row: a single private value, a code that never occurs, features that
    are not finite, an unknown category, no features, different lengths.
    """
    labels, size = _private(private, private_size)
    useful = encode(numeric, categories=categories, sizes=sizes)
    _same_rows(useful, "categories" if numeric is None else "numeric", labels)
    count = 0 if numeric is None else np.shape(numeric)[1]
    return Samples(labels, useful, np.arange(useful.shape[1]) < count, size, Rows(useful.shape[1], None))


def from_symbols(
    private: ArrayLike, useful: ArrayLike, *, useful_size: int | None = None, private_size: int | None = None
) -> Samples:
    """Samples whose X is a symbol of a finite alphabet: codes `(n,)` in 0 .. useful_size - 1.

    Raises `InputError` as `from_features` does, and where the alphabet has more symbols than there are rows: most
    symbols would then be scored without having been seen.
    """
    labels, size = _private(private, private_size)
    array = finite(real_array(useful, "useful", ndim=1), "useful")
    _same_rows(array, "useful", labels)
    if useful_size is None:
        useful_size = int(np.clip(array.max(), 0, len(array))) + 1
    useful_size = whole(useful_size, "useful_size", low=1.0)
    if useful_size > len(array):
        raise InputError(f"useful has {useful_size} symbols and {len(array)} rows; merge symbols, or give features")
    array = codes(array, "useful", useful_size)
    return Samples(labels, array, np.zeros(useful_size, dtype=bool), size, Rows(useful_size, useful_size))
