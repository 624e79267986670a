"""The exact integer table of a mechanism: the object that is certified and the object that is drawn from.

T (X, Y) whole numbers, every row sums to 2^62, W = T / 2^62. Entries are multiples of 2^(62 - resolution): digits of a
computed mechanism below that are rounding of the solver and, beyond what the design needs, digits of the counts.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._validation import mechanism_array
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import BITS, ONE, Claim, Counted, as_integers

# How often the resolution may be doubled against an excess before a design is refused.
_MIXTURES = range(52, 4, -1)


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
    if isinstance(resolution, bool) or not isinstance(resolution, int) or not 8 <= resolution <= BITS:
        raise InputError(f"resolution must be a whole number of bits from 8 to {BITS}")
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
    kept = np.flatnonzero(share >= least)
    found = mechanism.copy()
    for y in np.flatnonzero((share < least) & (share > 0)) if kept.size else ():
        moved = mass * mechanism[:, y]
        found[:, kept[np.argmin(moved @ costs[:, kept])]] += mechanism[:, y]
        found[:, y] = 0.0
    return found


def least_leakage(tables: Sequence[np.ndarray], counts: np.ndarray, measure: str) -> np.ndarray:
    """The first table of the least leakage on these counts; the first one if the verifier does not compute it."""
    found = [_leakage(table, counts, measure) for table in tables]
    values = [np.inf if claim is None or claim.upper is None else float(claim.upper) for claim in found]
    return tables[int(np.argmin(values))]


def least_distortion(tables: Sequence[np.ndarray], counts: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """The first table of the least E d on these counts."""
    mass = counts.sum(axis=0)[:, None] * costs
    return tables[int(np.argmin([(mass * table.astype(np.float64)).sum() for table in tables]))]


def within_distortion(table: np.ndarray, counts: np.ndarray, costs: np.ndarray, budget: float) -> np.ndarray:
    """The table with as much weight moved to cheaper outputs of the same support as E d <= budget needs, exactly.

    Raises `NotCertifiedError` if the budget is below what the support of the table allows.
    """
    whole, unit = as_integers(_as_table(costs))
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
        for dear in reversed(support[1:]):
            saved = useful[x] * (cost[dear] - cost[support[0]])
            if excess <= 0 or saved <= 0:
                break
            moved = min(-(-excess // saved), row[dear] - 1)
            row[dear] -= moved
            row[support[0]] += moved
            excess -= moved * saved
    if excess > 0:
        raise NotCertifiedError("the mechanism cannot be rounded to an integer table within the budget")
    return np.array(rows, dtype=np.uint64)


def within_leakage(table: np.ndarray, counts: np.ndarray, measure: str, limit: float) -> np.ndarray:
    """The table mixed with its mean row, by the least of 2^-52, 2^-51, ... for which the leakage is at most `limit`.

    A limit on a measure that the verifier does not compute is left to `jaxpriv.certify`. Raises `NotCertifiedError` if
    2^-5 is not enough.
    """
    least = Fraction(limit)
    for power in (None, *_MIXTURES):
        candidate = table if power is None else _mixed(table, power)
        found = _leakage(candidate, counts, measure)
        if found is None or (found.upper is not None and Fraction(found.upper) <= least):
            return candidate
    raise NotCertifiedError("the mechanism cannot be rounded to an integer table within the leakage budget")


def _mixed(table: np.ndarray, power: int) -> np.ndarray:
    rows = [list(map(int, row)) for row in table.tolist()]
    size = len(rows)
    mean = [sum(column) // size for column in zip(*rows, strict=True)]
    mean[int(np.argmax(mean))] += ONE - sum(mean)
    result = []
    for row in rows:
        mixed = [weight + ((target - weight) >> power) for weight, target in zip(row, mean, strict=True)]
        mixed[mixed.index(max(mixed))] += ONE - sum(mixed)
        result.append(mixed)
    return np.array(result, dtype=np.uint64)


def _leakage(table: np.ndarray, counts: np.ndarray, measure: str) -> Claim | None:
    return Counted.of(_as_table(counts), table.tolist(), "counts").leakage(measure)


def _as_table(values: np.ndarray) -> Table:
    return Table(values.shape, values.ravel().tolist())
