"""The universe of record sequences X = X_1 x ... x X_n, numbered 0 .. N - 1.

`sizes[i] = |X_i|`; the last record runs fastest (row-major), so a mechanism over sequences is an array
(N, r) whose reshape to `(*sizes, r)` has one axis for each record. The set of databases as multisets is
a quotient of it: give equal rows to sequences with equal multisets.
"""

import math
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import (
    flag,
    host_only,
    index,
    listed,
    mechanism_array,
    nonnegative,
    real_array,
    scalar,
    truth_array,
)
from jaxpriv.errors import InputError


def privacy_parameter(eps: object) -> float:
    """An eps > 0, finite: 0 would need noise without a distribution, infinity no noise."""
    number = float(scalar(eps, "eps", low=0.0, open_low=True))
    if math.exp(-number) == 1.0:
        raise InputError("eps is too small: e^-eps rounds to 1")
    return number


def record_limits(leakage: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """Limits > 0 on the leakage of each record, (n,), from one number or one for each record."""
    given = real_array(leakage, "leakage", ndim=(0, 1))
    if given.ndim == 0:
        return np.full(len(sizes), scalar(leakage, "leakage", low=0.0, open_low=True))
    if len(given) != len(sizes):
        raise InputError(f"leakage has {len(given)} entries, but sizes describes {len(sizes)} records")
    return np.array([scalar(limit, f"leakage[{i}]", low=0.0, open_low=True) for i, limit in enumerate(given)])


# Where a table over all sequences does not fit.
FEWER = "collapse the sequences to the statistic that the mechanism uses"


def universe_sizes(sizes: int | Sequence[int]) -> tuple[int, ...]:
    """`sizes` as a tuple of whole numbers >= 1, or `InputError` naming the position."""
    checked = tuple(index(size, f"sizes[{i}]", low=1) for i, size in enumerate(listed(sizes, "sizes")))
    if not checked:
        raise InputError("sizes is empty; a database has at least one record")
    return checked


def record_group(records: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One record or several of 0 .. count - 1, none twice, or `InputError` naming the position."""
    several = [records] if np.isscalar(records) or getattr(records, "ndim", 1) == 0 else listed(records, "records")
    group = tuple(index(record, f"records[{k}]", low=0, high=count - 1) for k, record in enumerate(several))
    if not group or len(set(group)) != len(group):
        raise InputError("records must name at least one record, none twice")
    return group


def with_empty_record(sizes: int | Sequence[int]) -> tuple[int, ...]:
    """Universes that contain the empty record (Wu, Xia and He, section 2.1): one more symbol, the last of each."""
    return tuple(size + 1 for size in universe_sizes(sizes))


def sequences(sizes: int | Sequence[int]) -> np.ndarray:
    """All record sequences in order: integers (N, n), row x holding the records of sequence number x."""
    sizes = universe_sizes(sizes)
    need_memory(8.0 * math.prod(sizes) * len(sizes), "a table of all sequences", FEWER)
    return np.indices(sizes).reshape(len(sizes), -1).T


def sequence_index(records: Sequence[int], sizes: int | Sequence[int]) -> int:
    """The number of one sequence of records; `InputError` naming the record that its universe lacks."""
    sizes, records = universe_sizes(sizes), listed(records, "records")
    if len(records) != len(sizes):
        raise InputError(f"records has {len(records)} entries, but sizes describes {len(sizes)} records")
    number = 0
    for i, (record, size) in enumerate(zip(records, sizes, strict=True)):
        number = number * size + index(record, f"records[{i}]", low=0, high=size - 1)
    return number


def over_universe(mechanism: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """The checked mechanism (N, r) over the sequences of `sizes`."""
    array = mechanism_array(mechanism)
    total = math.prod(sizes)
    if array.shape[0] != total:
        raise InputError(f"mechanism has {array.shape[0]} rows (axis x), but sizes {sizes} make {total} sequences")
    return array


def distribution(value: ArrayLike, name: str) -> np.ndarray:
    """A distribution (k,): finite, >= 0; a total within 1e-9 of one is divided out."""
    array = nonnegative(real_array(value, name, ndim=1), name)
    total = float(array.sum())
    if not abs(total - 1.0) <= 1e-9:
        raise InputError(f"{name} sums to {total:.12g}, not 1")
    return array / total


def prior_over(prior: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """The checked prior (N,) over the sequences of `sizes`."""
    checked = distribution(prior, "prior")
    if checked.size != math.prod(sizes):
        raise InputError(f"prior has {checked.size} entries, but sizes {sizes} make {math.prod(sizes)} sequences")
    return checked


@host_only
def independent_prior(marginals: Sequence[ArrayLike]) -> np.ndarray:
    """P(x) = prod_i P_i(x_i), (N,): the prior of independent records, from one distribution for each record.

    Raises `InputError` naming the record whose distribution does not sum to 1 within 1e-9.
    """
    prior = np.ones(1)
    for i, marginal in enumerate(listed(marginals, "marginals")):
        prior = np.multiply.outer(prior, distribution(marginal, f"marginals[{i}]")).ravel()
    return prior


# Neighbour relations: boolean (x, x') arrays saying which pairs of databases a guarantee compares.
#
# All of them fit `jaxpriv.leakage.LocalDifferentialPrivacy(neighbours=...)` and `differential_privacy`. Symmetric by
# construction; the diagonal is False (a database compared with itself is no restriction).


def hamming_distances(sizes: int | Sequence[int]) -> np.ndarray:
    """||x - x'||_0, the number of records in which two sequences differ: integers (N, N)."""
    sizes = universe_sizes(sizes)
    need_memory(3.0 * math.prod(sizes) ** 2, "a relation between all sequences", FEWER)
    table = sequences(sizes)
    distances = np.zeros((table.shape[0], table.shape[0]), dtype=np.int16)
    for record in table.T:
        distances += record[:, None] != record[None, :]
    return distances


def hamming_neighbours(sizes: int | Sequence[int], distance: int = 1) -> np.ndarray:
    """Sequences that differ in at least one and at most `distance` records: bool (N, N).

    With distance 1 it is the relation of differential privacy with a known number of records (Calmon
    and Fawaz 2012, Definition 5); with distance k the pairs of Wu, Xia and He, Theorem 1. For records that
    may be absent take `sizes = with_empty_record(...)`: one step then adds, removes or replaces a record.

    Raises `InputError` for sizes that are not whole numbers >= 1 and a distance outside 0 .. n.
    """
    sizes = universe_sizes(sizes)
    distance = index(distance, "distance", low=0, high=len(sizes))
    apart = hamming_distances(sizes)
    return (apart > 0) & (apart <= distance)


def count_neighbours(records: int, distance: int = 1) -> np.ndarray:
    """Counts i, j of 0 .. n with 1 <= |i - j| <= distance: bool (n + 1, n + 1), n = `records`.

    What `hamming_neighbours` of n binary records becomes for a mechanism that depends on the count only: two
    counts are the counts of sequences at Hamming distance <= k exactly if |i - j| <= k.
    """
    records = index(records, "records", low=1)
    distance = index(distance, "distance", low=0, high=records)
    need_memory(16.0 * (records + 1) ** 2, "a relation between all counts", "use fewer records")
    apart = np.abs(np.subtract.outer(np.arange(records + 1), np.arange(records + 1)))
    return (apart > 0) & (apart <= distance)


def neighbours_from_pairs(pairs: Iterable[Sequence[SupportsIndex]], size: int, *, symmetric: bool = True) -> np.ndarray:
    """The relation on 0 .. size - 1 that holds for the listed pairs: bool (size, size).

    Symmetric: (i, j) stands for (j, i) too. Raises `InputError` naming the pair for an entry that is not
    two whole numbers in range.
    """
    size, symmetric = index(size, "size", low=1), flag(symmetric, "symmetric")
    need_memory(float(size) ** 2, "a relation between all databases", FEWER)
    relation = np.zeros((size, size), dtype=bool)
    for number, given in enumerate(listed(pairs, "pairs")):
        pair = listed(given, f"pairs[{number}]")
        if len(pair) != 2:
            raise InputError(f"pairs[{number}] has {len(pair)} entries, not 2")
        i, j = (index(entry, f"pairs[{number}][{side}]", low=0, high=size - 1) for side, entry in enumerate(pair))
        relation[i, j] = True
        relation[j, i] |= symmetric
    return relation


@host_only
def checked_neighbours(value: object, *, size: int | None = None, symmetric: bool = False) -> np.ndarray:
    """A relation as a bool (x, x') array: square, of `size` databases, entries bool or 0/1, symmetric if promised.

    `InputError` names the first position that breaks the rule.
    """
    array = truth_array(value, "neighbours")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InputError(f"neighbours must be a square (x, x') relation, not shape {array.shape}")
    if size is not None and array.shape[0] != index(size, "size", low=0):
        raise InputError(f"neighbours is for {array.shape[0]} databases, but the mechanism has {size} rows (axis x)")
    one_way = np.argwhere(array & ~array.T)
    if flag(symmetric, "symmetric") and one_way.size:
        i, j = one_way[0]
        raise InputError(f"neighbours is not symmetric: it holds at [{i}, {j}] and not at [{j}, {i}]")
    return array
