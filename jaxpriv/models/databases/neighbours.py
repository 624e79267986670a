"""Neighbour relations: boolean (x, x') arrays saying which pairs of databases a guarantee compares.

All of them fit `jaxpriv.leakage.LocalDifferentialPrivacy(neighbours=...)` and `differential_privacy`. Symmetric by
construction; the diagonal is False (a database compared with itself is no restriction).
"""

import math
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import (
    flag,
    host_only,
    index,
    listed,
    truth_array,
)
from jaxpriv.errors import InputError
from jaxpriv.models.databases.universe import FEWER, sequences, universe_sizes


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
