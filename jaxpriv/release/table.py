"""The exact integer table of a mechanism: the object that is certified and the object that is drawn from.

T (X, Y) whole numbers, every row sums to 2^62, W = T / 2^62. Entries are multiples of 2^(62 - resolution): digits of a
computed mechanism below that are rounding of the solver and, beyond what the design needs, digits of the counts.

Draws are made with the randomness of the operating system, one for each record. r is 62 fresh bits; record x releases
the first y with r < T(x,0) + ... + T(x,y). Each y is drawn for exactly T(x,y) of the 2^62 values of r: no rounding, no
rejection, no state. There is no seed and no other source of randomness.
"""

import math
import operator
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.validation import mechanism_array
from jaxpriv.errors import EntropyError, InputError, IntegrityError, NotCertifiedError
from jaxpriv.statistics.audit import conformity
from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import BITS, ONE, Counted, Matrix, Measure, as_integers
from jaxpriv.verifier.sequences import counted_pairs

# The weights of the other end of a mixture are 2^-p for these p, the least first; beyond 2^-5 a design is refused.
_MIXTURES = range(52, 4, -1)


def check_resolution(bits: object) -> None:
    """`InputError` for what is no number of bits of a probability."""
    if isinstance(bits, bool) or not isinstance(bits, int) or not 8 <= bits <= BITS:
        raise InputError(f"resolution must be a whole number of bits from 8 to {BITS}")


def quantise(
    mechanism: ArrayLike, *, resolution: int, costs: np.ndarray | None = None, support: bool = False
) -> np.ndarray:
    """The integer table (X, Y), uint64, of a mechanism (X, Y) in float64.

    Every entry is rounded down to a multiple of 2^-resolution; what a row then lacks goes to its cheapest output with
    positive weight (so that E d does not grow), or without `costs` (X, Y) to its largest. Zeros stay zero. With
    `support`
    positive entries stay positive: a ratio of two of them stays finite.

    Raises `InputError` for a mechanism that is none or a resolution outside of 8 .. 62 bits.
    """
    check_resolution(resolution)
    weights = mechanism_array(mechanism)
    weights = np.where(weights > 0, weights, 0.0)
    units = np.floor(np.ldexp(weights, resolution)).astype(np.int64)  # exact: a power of two
    if support:
        units = np.maximum(units, weights > 0)
    table = np.zeros(units.shape, dtype=np.uint64)
    for x, row in enumerate(units):
        lacking = 2**resolution - sum(row.tolist())
        if lacking >= 0 and costs is not None:
            positive = np.flatnonzero(row)
            target = positive[np.argmin(costs[x][positive])] if positive.size else int(np.argmax(weights[x]))
        else:
            target = int(np.argmax(row))
        row[target] += lacking
        if not row.min() >= 0:
            raise InputError(f"resolution: {resolution} bits are too few for row {x} of {len(row)} outputs")
        table[x] = row.astype(np.uint64) << np.uint64(BITS - resolution)
    return table


def without_rare(mechanism: np.ndarray, mass: np.ndarray, costs: np.ndarray, least: float) -> np.ndarray:
    """The mechanism with every output of a mass below `least` merged into the one where that costs the least.

    Two outputs that are merged have ratios between those that they had, so no measure of the worst outcome grows. An
    output of little more mass than the resolution has other ratios once it is rounded, and may become the worst one.
    `mass` (X,), `costs` (X, Y).
    """
    share = mass @ mechanism
    frequent = np.flatnonzero(share >= least)
    merged = mechanism.copy()
    for y in np.flatnonzero((share < least) & (share > 0)) if frequent.size else ():
        moved = mass * mechanism[:, y]
        merged[:, frequent[np.argmin(moved @ costs[:, frequent])]] += mechanism[:, y]
        merged[:, y] = 0.0
    return merged


def within_distortion(table: np.ndarray, counts: np.ndarray, costs: np.ndarray, budget: float) -> np.ndarray:
    """The table with as much weight moved to cheaper outputs of the same support as E d <= budget needs, exactly.

    Raises `NotCertifiedError` if the budget is below what the support of the table allows.
    """
    whole, unit = as_integers(as_table(costs))
    rows = [list(map(int, row)) for row in table.tolist()]
    useful = counts.sum(axis=0).tolist()
    records = sum(useful)
    used = sum(n * sum(map(int.__mul__, cost, row)) for n, cost, row in zip(useful, whole, rows, strict=True))
    allowed = Fraction(budget) * records * ONE / unit
    excess = used - allowed.numerator // allowed.denominator  # in units of unit / (records 2^62)
    for x in sorted(range(len(rows)), key=lambda x: -useful[x]):
        if excess <= 0:
            break
        if not useful[x]:
            continue
        row, cost = rows[x], whole[x]
        support = sorted((y for y, weight in enumerate(row) if weight), key=lambda y: cost[y])
        for costly in reversed(support[1:]):
            saved = useful[x] * (cost[costly] - cost[support[0]])
            if excess <= 0 or saved <= 0:
                break
            moved = min(-(-excess // saved), row[costly] - 1)
            row[costly] -= moved
            row[support[0]] += moved
            excess -= moved * saved
    if excess > 0:
        raise NotCertifiedError("the mechanism cannot be rounded to an integer table within the budget")
    return np.array(rows, dtype=np.uint64)


def within_limit(
    table: np.ndarray,
    value: Callable[[np.ndarray], Fraction | float],
    limit: float,
    name: str = "leakage budget",
    unchanged: bool = False,
    constant: int | None = None,
) -> np.ndarray:
    """The table mixed with its mean row, or with the release of every symbol as it is (`unchanged`), by the least of
    2^-52, 2^-51, ... for which the value is at most `limit`.

    More of the mean row never leaks more, and more of the other never moves the marginal of the outputs farther, so
    halvings find that weight. If 2^-5 is not enough, as for a limit of 0, every symbol is released as the output
    `constant`, which leaks nothing. Raises `NotCertifiedError` with the `name` of the limit if that is not enough or
    there is none.
    """
    rows = [list(map(int, row)) for row in table.tolist()]
    ends = [mean_row(rows, [1] * len(rows))] * len(rows)
    if unchanged:
        ends = [[ONE * (x == y) for y in range(len(row))] for x, row in enumerate(rows)]

    def within(candidate: np.ndarray) -> bool:
        return value(candidate) <= Fraction(limit)

    if within(table):
        return table
    place = bisect_left(_MIXTURES, True, key=lambda power: within(_mixed(rows, ends, power)))
    if place < len(_MIXTURES):
        return _mixed(rows, ends, _MIXTURES[place])
    independent = np.zeros_like(table)
    if constant is not None:
        independent[:, constant] = ONE
    if constant is None or not within(independent):
        raise NotCertifiedError(f"the mechanism cannot be rounded to an integer table within the {name}")
    return independent


def moved_marginal(table: np.ndarray, counts: np.ndarray) -> Fraction:
    """The total variation between the marginals of X, from counts (S, X), and of what a table (X, X) releases."""
    useful = counts.sum(axis=0).tolist()
    released = [sum(map(operator.mul, useful, column)) for column in zip(*table.tolist(), strict=True)]
    return Fraction(sum(max(w - n * ONE, 0) for w, n in zip(released, useful, strict=True)), sum(useful) * ONE)


def mean_row(rows: Matrix, weights: Sequence[int]) -> list[int]:
    """The mean, of whole weights, of rows of whole numbers that sum to 2^62, rounded to such a row."""
    total = sum(weights)
    mean = [sum(map(operator.mul, weights, column)) // total for column in zip(*rows, strict=True)]
    mean[int(np.argmax(mean))] += ONE - sum(mean)
    return mean


def _mixed(rows: Matrix, ends: Matrix, power: int) -> np.ndarray:
    result = []
    for row, end in zip(rows, ends, strict=True):
        mixed = [weight + ((target - weight) >> power) for weight, target in zip(row, end, strict=True)]
        mixed[mixed.index(max(mixed))] += ONE - sum(mixed)
        result.append(mixed)
    return np.array(result, dtype=np.uint64)


def leakage_of(
    table: np.ndarray, counts: np.ndarray, measure: Measure | str, earlier: Matrix | None = None
) -> Fraction | float:
    """At least the leakage, infinite where it is; after earlier draws (X, Z), rows with a common sum, of all draws."""
    rows = table.tolist()
    if earlier is None:
        claim = Counted.of(as_table(counts), rows, "counts").leakage(measure)
    else:
        claim = counted_pairs(counts.tolist(), earlier, rows).leakage(measure)
    assert claim is not None
    return math.inf if claim.upper is None else Fraction(claim.upper)


def as_table(values: np.ndarray) -> Table:
    return Table(values.shape, values.ravel().tolist())


# Replaced by tests that count or exhaust the values; nothing outside of this module does.
_random_bytes: Callable[[int], bytes] = os.urandom
_AT_ONCE = 2**16  # numbers requested of the system in one call
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
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < count:
        numbers = (fresh(2 * (count - len(drawn)) + 8) >> (np.uint64(BITS) - bits)).astype(np.int64)
        drawn = np.concatenate([drawn, numbers[numbers < below]])
    return drawn[:count]


def self_test(table: np.ndarray, rows: np.ndarray) -> None:
    """Refuse to release if the sampler or the randomness is not what it should be; on random numbers of its own.

    Exactly: in each of `rows` every output is drawn for the first and the last of its numbers and for as many as the
    table says; what is drawn only grows with the number, so that is true of all numbers. Statistically: fresh draws of
    each row (100,000, fewer for more than 20 rows) against the table, by the tail bound of
    `jaxpriv.statistics.audit.evidence`, which is valid at every sample size and level.

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
