"""How far a distribution can be from the counts of a sample of it: radii that hold with probability 1 - beta.

n independent draws from P on k symbols, P^ their frequencies.

Weissman.   |P^ - P|_1 = 2 max_A (P^(A) - P(A)) over the 2^k - 2 proper subsets A; each difference exceeds t with
            probability at most e^(-2nt^2) (Hoeffding), so |P^ - P|_1 <= sqrt( (2/n) ln((2^k - 2)/beta) ).
McDiarmid.  E |P^ - P|_1 <= sum_i sqrt(p_i(1-p_i)/n) <= sqrt((k-1)/n), and one draw changes the norm by at most
            2/n: |P^ - P|_1 <= sqrt((k-1)/n) + sqrt(2 ln(1/beta)/n).
Empirical.  Half the norm is at most 2R + 3 sqrt(ln(2/beta)/(2n)) with R the Rademacher average of the subsets,
            and 2R <= sum_i sqrt(p^_i/n): small where few symbols carry the mass, whatever k is
            (Cohen, Kontorovich and Wolfer 2020, arXiv:2004.12680).
Divergence. E e^(t n D(P^||P)) <= (1-t)^-(k-1) for 0 <= t < 1, hence Pr[ D(P^||P) >= r ] <= e^-z (e z/(k-1))^(k-1)
            for z = nr > k-1 (Agrawal 2020, arXiv:1904.02291); for k = 2 Chernoff's 2 e^-z as well.

The first two and the last depend on k, n and beta only, so the smaller of the first two may be taken. n = 0 gives the
radius of the whole simplex, k = 1 gives 0. All are rounded up.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.counts import UP, failure
from jaxpriv._runtime.validation import whole


def empirical_radius(counts: np.ndarray, beta: ArrayLike) -> np.ndarray:
    """|P^ - P|_1 <= radius with probability 1 - beta, from the counts (..., k) themselves; radius (...)."""
    beta = failure(beta)
    n = counts.sum(axis=-1)
    divisor = np.maximum(n, 1)
    half = np.sqrt(counts).sum(axis=-1) / divisor + 3 * np.sqrt(math.log(2 / beta) / (2 * divisor))
    return np.where(n > 0, np.minimum(2.0, 2 * half * UP), 2.0)


def divergence_radius(cells: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> float:
    """D(P^||P) <= radius with probability 1 - beta."""
    k, n, beta = whole(cells, "cells", low=1.0), whole(draws, "draws", low=0.0), failure(beta)
    if k == 1:
        return 0.0
    if n == 0:
        return math.inf
    z = divergence_quantile(k - 1, beta)
    if k == 2:
        z = min(z, math.log(2 / beta))
    return z / n * UP


@lru_cache(maxsize=4096)
def divergence_quantile(freedom: int, beta: float) -> float:
    """The z > freedom with e^-z (e z/freedom)^freedom = beta, rounded up; `freedom` sums over independent samples."""
    # v = z/freedom - 1 > 0 solves v - ln(1 + v) = target; (sqrt target + sqrt 2)^2 is beyond it.
    target = -math.log(beta) / freedom
    low, high = 0.0, target + 2 * math.sqrt(2 * target)
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle - math.log1p(middle) < target else (low, middle)
    return freedom * (1 + high) * UP


def divergence_tail(freedom: int, z: float) -> float:
    """The bound on Pr[ sum n D(P^||P) >= z ]; 1 for z <= freedom."""
    if not z > freedom:
        return 1.0
    if freedom == 0 or math.isinf(z):
        return 0.0
    return min(1.0, math.exp(-z + freedom * (1 + math.log(z / freedom))) * UP)
