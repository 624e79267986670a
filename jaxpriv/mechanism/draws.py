"""Draws from an integer table with the randomness of the operating system, one for each record.

r is 62 fresh bits; record x releases the first y with r < T(x,0) + ... + T(x,y). Each y is drawn for exactly T(x,y) of
the 2^62 values of r: no rounding, no rejection, no state. There is no seed and no other source of randomness.
"""

import os
from collections.abc import Callable

import numpy as np

from jaxpriv.errors import EntropyError, IntegrityError
from jaxpriv.estimation.audit import conformity
from jaxpriv.verifier.claims import BITS, ONE

# Replaced by tests that count or exhaust the values; nothing outside of this module does.
_random_bytes: Callable[[int], bytes] = os.urandom
_AT_ONCE = 2**16  # numbers: what is asked of the system in one call
# The self-test: draws for a row and in all, and the chance that it refuses a sampler without a defect.
_TESTED, _TESTED_TOGETHER, _FALSE_ALARM = 100_000, 2_000_000, 1e-9


def cumulative(table: np.ndarray) -> np.ndarray:
    """Running sums of the rows of a table (X, Y), uint64; `IntegrityError` unless every row ends at 2^62."""
    sums = np.cumsum(np.asarray(table, dtype=np.uint64), axis=1, dtype=np.uint64)
    # A sum that wraps around falls somewhere on the way.
    if (sums[:, -1] != ONE).any() or (sums[:, 1:] < sums[:, :-1]).any() or (table > ONE).any():
        raise IntegrityError("the table of the mechanism has a row that does not sum to 2^62")
    return sums


def fresh(count: int) -> np.ndarray:
    """`count` independent uniform numbers below 2^62, uint64; `EntropyError` if the system gives no randomness."""
    numbers = np.empty(count, dtype=np.uint64)
    for start in range(0, count, _AT_ONCE):
        part = numbers[start : start + _AT_ONCE]
        try:
            content = _random_bytes(part.nbytes)
        except (OSError, NotImplementedError) as error:
            raise EntropyError("the operating system gave no randomness; nothing was released") from error
        if len(content) != part.nbytes:
            raise EntropyError("the operating system gave too little randomness; nothing was released")
        part[:] = np.frombuffer(content, dtype="<u8")
    return numbers >> np.uint64(64 - BITS)


def draw(sums: np.ndarray, index: np.ndarray) -> np.ndarray:
    """One output for every row number in `index` (n,), int64 (n,)."""
    return locate(sums, index, fresh(len(index)))


def locate(sums: np.ndarray, index: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The outputs that the numbers below 2^62 stand for in the rows `index`."""
    order = np.argsort(index, kind="stable")
    used, starts = np.unique(index[order], return_index=True)
    outputs = np.empty(len(index), dtype=np.int64)
    for x, part in zip(used.tolist(), np.split(order, starts)[1:], strict=True):
        outputs[part] = np.searchsorted(sums[x], numbers[part], side="right")
    return outputs


def uniform(below: int, count: int) -> np.ndarray:
    """`count` independent numbers uniform on 0 .. below - 1, int64, by rejection."""
    bits = np.uint64(max(below - 1, 1).bit_length())
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:
        numbers = (fresh(2 * (count - len(found)) + 8) >> (np.uint64(BITS) - bits)).astype(np.int64)
        found = np.concatenate([found, numbers[numbers < below]])
    return found[:count]


def self_test(table: np.ndarray, rows: np.ndarray) -> None:
    """Refuse to release if the sampler or the randomness is not what it should be; on random numbers of its own.

    Exactly: in each of `rows` every output is drawn for the first and the last of its numbers and for as many as the
    table says; what is drawn only grows with the number, so that is true of all numbers. Statistically: fresh draws of
    each row (100,000, fewer for more than 20 rows) against the table, by the tail bound of
    `jaxpriv.estimation.audit.evidence`, which is valid at every sample size and level.

    Raises `IntegrityError` and `EntropyError`.
    """
    sums = cumulative(table)
    for x in rows.tolist():
        present = np.flatnonzero(table[x])
        ends = sums[x][present]
        for numbers in (ends - table[x][present], ends - np.uint64(1)):
            if (locate(sums, np.full(len(present), x), numbers) != present).any():
                raise IntegrityError(f"self-test: row {x} of the table is not drawn from as it states")
    count = min(_TESTED, max(_TESTED_TOGETHER // max(len(rows), 1), 1))
    seen = np.zeros((len(rows), table.shape[1]), dtype=np.int64)
    for place, x in enumerate(rows.tolist()):
        seen[place] = np.bincount(draw(sums, np.full(count, x)), minlength=table.shape[1])
    tested = conformity(seen, np.ldexp(table[rows].astype(np.float64), -BITS), tables=0)
    if not tested.tail >= _FALSE_ALARM:
        raise EntropyError("self-test: fresh draws do not have the frequencies of the table; nothing was released")
