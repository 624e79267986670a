"""The universe of record sequences X = X_1 x ... x X_n, numbered 0 .. N - 1.

`sizes[i] = |X_i|`; the last record runs fastest (row-major), so a mechanism over sequences is an array
(N, r) whose reshape to `(*sizes, r)` has one axis for each record. The set of databases as multisets is
a quotient of it: give equal rows to sequences with equal multisets.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._resources import need_memory
from jaxpriv._validation import mechanism_array, nonnegative, real_array
from jaxpriv.databases._checks import whole
from jaxpriv.errors import InputError

# Where a table over all sequences does not fit.
FEWER = "collapse the sequences to the statistic that the mechanism uses"


def universe_sizes(sizes: int | Sequence[int]) -> tuple[int, ...]:
    """`sizes` as a tuple of whole numbers >= 1, or `InputError` naming the position."""
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Iterable):
        raise InputError("sizes must be a sequence of whole numbers, one for each record")
    checked = tuple(whole(size, f"sizes[{i}]", low=1) for i, size in enumerate(sizes))
    if not checked:
        raise InputError("sizes is empty; a database has at least one record")
    return checked


def with_empty_record(sizes: int | Sequence[int]) -> tuple[int, ...]:
    """Universes that contain the empty record (Wu, Zhou and Xia, section 2.1): one more symbol, the last of each."""
    return tuple(size + 1 for size in universe_sizes(sizes))


def sequences(sizes: int | Sequence[int]) -> np.ndarray:
    """All record sequences in order: integers (N, n), row x holding the records of sequence number x."""
    sizes = universe_sizes(sizes)
    need_memory(8.0 * math.prod(sizes) * len(sizes), "a table of all sequences", FEWER)
    return np.indices(sizes).reshape(len(sizes), -1).T


def sequence_index(records: Sequence[int], sizes: int | Sequence[int]) -> int:
    """The number of one sequence of records; `InputError` naming the record that its universe lacks."""
    sizes = universe_sizes(sizes)
    if len(records) != len(sizes):
        raise InputError(f"records has {len(records)} entries, but sizes describes {len(sizes)} records")
    place = [whole(record, f"records[{i}]", low=0, high=sizes[i] - 1) for i, record in enumerate(records)]
    return int(np.ravel_multi_index(place, sizes))


def over_universe(mechanism: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """The checked mechanism (N, r) over the sequences of `sizes`."""
    array = mechanism_array(mechanism)
    total = math.prod(sizes)
    if array.shape[0] != total:
        raise InputError(f"mechanism has {array.shape[0]} rows (axis x), but sizes {sizes} make {total} sequences")
    return array


def prior_over(prior: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """The checked prior (N,) over the sequences of `sizes`; a total within 1e-9 of one is divided out."""
    array = nonnegative(real_array(prior, "prior", ndim=1), "prior")
    if array.size != math.prod(sizes):
        raise InputError(f"prior has {array.size} entries, but sizes {sizes} make {math.prod(sizes)} sequences")
    total = float(array.sum())
    if not abs(total - 1.0) <= 1e-9:
        raise InputError(f"prior sums to {total:.12g}, not 1")
    return array / total


def independent_prior(marginals: Sequence[ArrayLike]) -> np.ndarray:
    """P(x) = prod_i P_i(x_i), (N,): the prior of independent records, from one distribution for each record."""
    prior = np.ones(1)
    for i, marginal in enumerate(marginals):
        one = nonnegative(real_array(marginal, f"marginals[{i}]", ndim=1), f"marginals[{i}]")
        if not abs(float(one.sum()) - 1.0) <= 1e-9:
            raise InputError(f"marginals[{i}] sums to {float(one.sum()):.12g}, not 1")
        prior = np.multiply.outer(prior, one / one.sum()).ravel()
    return prior
