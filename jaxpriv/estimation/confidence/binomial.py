"""Exact intervals of a probability from whole counts (Clopper and Pearson 1934)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, rel_entr

# The inverse incomplete beta function is good to about 1e-14; intervals are widened by more than that.
_SLACK = 1e-12


def clopper_pearson(hits: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper): each holds with probability 1 - beta by itself, both with 1 - 2 beta.

    lower is the probability p at which `hits` or more of `draws` have probability beta, upper the p at which
    `hits` or fewer have. 0 hits give lower 0, all hits give upper 1, no draws (0, 1). `beta` may be an array.
    Whole counts go in: a count that is recovered from a proportion can be off by one, in the wrong direction.
    """
    hits, draws = np.broadcast_arrays(hits, draws)
    misses = draws - hits
    some, not_all = hits > 0, misses > 0
    low = betaincinv(np.where(some, hits, 1), misses + 1, beta)
    high = betaincinv(hits + 1, np.where(not_all, misses, 1), 1 - np.asarray(beta))
    lower = np.where(some, low * (1 - _SLACK), 0.0)
    return lower, np.where(not_all, np.minimum(1.0, high + _SLACK * np.minimum(high, 1 - high) + 1e-16), 1.0)


def relative_entropy_limit(share: ArrayLike, radius: float) -> np.ndarray:
    """A number >= the largest q with d(share || q) <= radius, d the relative entropy of two biased coins.

    For a mean of n independent numbers in [0, 1] and radius ln(1/beta)/n it is above the expected mean with probability
    1 - beta (Chernoff; Hoeffding 1963, Theorem 1).
    """
    p = np.asarray(share, dtype=float)
    low, high = p.copy(), np.ones_like(p)
    for _ in range(60):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = rel_entr(p, middle) + rel_entr(1 - p, 1 - middle) <= radius
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.minimum(1.0, high * (1 + _SLACK) + 1e-16)
