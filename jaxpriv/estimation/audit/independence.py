"""Is there any leakage? Tests of independence of pairs (s, y), and how several p-values are read together.

A small p-value is evidence of leakage. A large one is NOT evidence of privacy: the upper bound is.
"""

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, rel_entr, xlogy

from jaxpriv._validation import mechanism_array, whole
from jaxpriv.errors import InputError
from jaxpriv.estimation.confidence import divergence_tail
from jaxpriv.estimation.confidence.means import count_array
from jaxpriv.verifier.conformity import conformity_of_counts

# Expected counts from which the chi-squared approximation of the G statistic is used.
LEAST_EXPECTED = 5
_LARGEST_TABLE = 10**9  # what NumPy's hypergeometric sampler takes
# Cells of the permuted tables that are in memory at once: 32 MiB of int64.
_BLOCK = 2**22


# More permutations would take hours.
_MOST = 10_000_000


@dataclass(frozen=True)
class PermutationTest:
    """p-values by permuting y against s, exact at any sample size.

    Attributes:
        p_value: (1 + #{permuted I >= observed I})/(1 + permutations), never 0.
        by_private: for each s, the same for "this s against the rest", adjusted by Holm's method over the s.
        permutations: how many were drawn.
    """

    p_value: float
    by_private: tuple[float, ...]
    permutations: int


def permuted_tables(counts: np.ndarray, permutations: int, generator: np.random.Generator) -> np.ndarray:
    """Tables with the margins of `counts` (S, Y) as a random pairing of the two columns gives them: (B, S, Y).

    Row after row, cell after cell a hypergeometric draw for all B tables at once: the work does not depend on
    the number of records.
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    left = np.broadcast_to(columns, (permutations, columns.size)).copy()
    tables = np.empty((permutations, *counts.shape), np.int64)
    for s in range(rows.size - 1):
        missing = np.full(permutations, rows[s])
        beyond = left.sum(axis=1)
        for y in range(columns.size):
            beyond = beyond - left[:, y]
            tables[:, s, y] = generator.hypergeometric(left[:, y], beyond, missing) if rows[s] else 0
            missing = missing - tables[:, s, y]
        left -= tables[:, s]
    tables[:, -1] = left
    return tables


def permutation_test(counts: ArrayLike, *, permutations: int = 9999, seed: int = 0) -> PermutationTest:
    """Test that S and Y are independent, from the counts (S, Y) of pairs.

    With margins fixed the plug-in information is increasing in sum_sy N ln N, the statistic used. Under
    independence all pairings are equally likely, so the p-value is valid for every sample size and alphabet,
    the observed table counted among the permuted ones (Phipson and Smyth 2010).

    Raises `InputError` for bad counts, fewer than one permutation, a total of 10^9 pairs or more.
    """
    table = count_array(counts)
    repeats, seed = whole(permutations, "permutations", low=1.0), whole(seed, "seed", low=0.0)
    if repeats > _MOST:
        raise InputError(f"permutations is above {_MOST}: the least p-value is then below any use")
    table = table[:, table.any(axis=0)] if table.any() else table[:, :1]
    if not table.sum() < _LARGEST_TABLE:
        raise InputError("counts has a total of 10^9 or more; the permutation test takes fewer")
    observed = _statistics(table[None])
    generator = np.random.default_rng(seed)
    hits, step = np.zeros(1 + table.shape[0], np.int64), max(1, _BLOCK // table.size)
    for start in range(0, repeats, step):
        drawn = _statistics(permuted_tables(table, min(step, repeats - start), generator))
        # Tables that tie in exact arithmetic may differ by rounding: they count against us.
        hits += (drawn >= observed - 1e-9 * (1 + np.abs(observed))).sum(axis=0)
    values = (1 + hits) / (1 + repeats)
    return PermutationTest(float(values[0]), tuple(holm(values[1:]).tolist()), repeats)


def _statistics(tables: np.ndarray) -> np.ndarray:
    """For each table sum N ln N, then for each s the same of "s against the rest": (B, 1 + S)."""
    cells = xlogy(tables, tables)
    rest = tables.sum(axis=1, keepdims=True) - tables
    each = (cells + xlogy(rest, rest)).sum(axis=2)
    return np.concatenate([cells.sum(axis=(1, 2))[:, None], each], axis=1)


def g_test(counts: ArrayLike) -> float | None:
    """The p-value of G = 2 n I against chi-squared; None unless every expected count is at least 5.

    Asymptotic. Symbols that do not occur are left out; on sparse tables the test would reject far too often.
    """
    table = count_array(counts)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    n = int(table.sum())
    if n == 0:
        return None
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if not rows.min() * columns.min() >= LEAST_EXPECTED * n:
        return None
    freedom = (rows.size - 1) * (columns.size - 1)
    if freedom == 0:
        return 1.0
    statistic = 2 * (xlogy(table, table).sum() - xlogy(rows, rows).sum() - xlogy(columns, columns).sum() + xlogy(n, n))
    return float(chdtrc(freedom, max(statistic, 0.0)))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values: rejecting those below alpha errs anywhere with probability at most alpha (Holm 1979)."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    adjusted = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    result = np.empty_like(p)
    result[order] = adjusted
    return result


# Does a release come from the mechanism that was audited? Two tests with p-values that hold at every sample size.
#
# Under the claim the releases y of the records with useful symbol x are n_x independent draws from W(.|x).
#
# Monte Carlo.  The release among simulated ones, ranked by what a share of unchanged records, merged rows, swapped rows
#               or single pairs would do (`jaxpriv.verifier.conformity`, as `jaxpriv verify` does): exact level, and
#               for a square mechanism the share of records, released as they are, that it detects.
# Tail.         z = sum_x n_x D( P^(.|x) || W(.|x) ), f the sum over x of |support of W(.|x)| - 1, satisfies
#
#                   Pr[ z >= t ] <= e^-t (e t/f)^f    for t > f:
#
#               the moment generating functions of independent rows multiply (Agrawal 2020, as for one distribution). It
#               is weaker, but needs no simulation and holds at levels below one in the number of tables. The sum tests
#               a defect in all rows, each row by itself a defect in one.
#
# A release that W excludes has p = 0 in both.


# Simulated tables unless the caller says how many: with 999 the least p-value is 0.001. At most a million: 1e-6.
_TABLES, _MOST_TABLES = 999, 1_000_000
# Cells of all simulated tables together: a larger mechanism is tested with fewer tables, but with the 19 that a level
# of 0.05 needs.
_CELLS, _LEAST = 10**7, 19


@dataclass(frozen=True)
class Conformity:
    """Tests of the claim "released by this mechanism".

    Attributes:
        p_value: by simulation; never below 1/(tables + 1), but for impossible pairs, where it is 0. Without tables the
            tail bound.
        tail: the p-value from the tail bound; `by_row` for each x, Holm-adjusted (1 where nothing was released).
        by_row: see `tail`.
        impossible: the (x, y) that were released although W[x, y] = 0.
        tables: simulated tables (0 if none was needed).
        detectable: the share of records, released as y = x, that the simulation detects in nine of ten cases at level
            0.001; None for a mechanism that is not square.
    """

    p_value: float
    tail: float
    by_row: tuple[float, ...]
    impossible: tuple[tuple[int, int], ...]
    tables: int
    detectable: float | None


def conformity(releases: ArrayLike, mechanism: ArrayLike, *, tables: int | None = None, seed: int = 0) -> Conformity:
    """Test counts (X, Y) of released pairs against the mechanism (X, Y) they should come from.

    Args:
        releases: (X, Y) whole numbers.
        mechanism: P(y|x), rows sum to one.
        tables: how many releases are simulated at most (999, fewer for more than 10,000 pairs); 0: none.
        seed: of the simulation.

    Raises `InputError` for bad counts or a bad mechanism, if their shapes differ, or for a bad number of tables.
    """
    table = count_array(releases, "releases")
    channel = mechanism_array(mechanism)
    for axis, name in enumerate(("rows (axis x)", "outputs (axis y)")):
        if table.shape[axis] != channel.shape[axis]:
            raise InputError(
                f"releases has {table.shape[axis]} {name}, but the mechanism has {channel.shape[axis]}; releases are "
                "counts (X, Y) of useful and released symbols"
            )
    usual = min(_TABLES, max(_CELLS // channel.size, _LEAST))
    count = usual if tables is None else whole(tables, "tables", low=0.0)
    if count > _MOST_TABLES:
        raise InputError(f"tables is above {_MOST_TABLES}")
    n = table.sum(axis=1)
    rows = n * rel_entr(table / np.maximum(n, 1)[:, None], channel).sum(axis=1)
    rows = np.where(n > 0, rows * (1 - 1e-12), 0.0)  # rounding may not make a release look worse
    freedom = np.where(n > 0, (channel > 0).sum(axis=1) - 1, 0)
    alone = np.array([1.0 if z == 0 else divergence_tail(int(f), float(z)) for z, f in zip(rows, freedom, strict=True)])
    together = 1.0 if rows.sum() == 0 else divergence_tail(int(freedom.sum()), float(rows.sum()))
    by_row = holm(alone)
    impossible = tuple((int(x), int(y)) for x, y in np.argwhere((table > 0) & (channel == 0)))
    tail = float(min(1.0, 2 * min(together, by_row.min())))
    released = np.flatnonzero(n).tolist()
    if not released:
        return Conformity(1.0, tail, tuple(by_row.tolist()), (), 0, None)
    found = conformity_of_counts(
        {x: channel[x].tolist() for x in released},
        {x: table[x].tolist() for x in released},
        {x: x for x in released} if channel.shape[0] == channel.shape[1] else None,
        count,
        random.Random(whole(seed, "seed", low=0.0)),
    )
    p_value = found.p_value if impossible or found.tables else tail
    return Conformity(p_value, tail, tuple(by_row.tolist()), impossible, found.tables, found.detectable)
