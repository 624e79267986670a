"""Is there any leakage? Tests of independence of pairs (s, y), and how several p-values are read together.

A small p-value is evidence of leakage. A large one is NOT evidence of privacy: the upper bound is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from jaxpriv._runtime.counts import count_array
from jaxpriv._runtime.validation import nonnegative, real_array, whole
from jaxpriv.errors import InputError

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
    from scipy.stats import chi2_contingency  # half a second to import

    table = count_array(counts)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    if not table.size or not table.sum(axis=1).min() * table.sum(axis=0).min() >= LEAST_EXPECTED * table.sum():
        return None
    result: Any = chi2_contingency(table, correction=False, lambda_="log-likelihood")
    return float(result.pvalue)


def holm(p_values: ArrayLike) -> np.ndarray:
    """Adjusted p-values: rejecting those below alpha errs anywhere with probability at most alpha (Holm 1979).

    Raises `InputError` for what is no sequence of numbers from 0 to 1.
    """
    p = nonnegative(real_array(p_values, "p_values", ndim=1), "p_values")
    if not (p <= 1).all():
        raise InputError(f"p_values[{int(np.argmax(p > 1))}] is above 1")
    order = np.argsort(p)
    return np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))[np.argsort(order)]
