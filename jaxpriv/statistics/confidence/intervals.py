"""Intervals of a probability (Clopper and Pearson 1934), and of the mean of a bounded function, from counts of draws.

Means: the functions are fixed before the draws are seen. f(X_1), ..., f(X_n) are independent in [low, high] with mean m
and observed mean m^. Scaled to [0, 1]:

Chernoff.  Pr[ m^ <= m and n kl(m^, m) >= z ] <= e^-z with kl the binary divergence (Hoeffding 1963, Theorem 1,
           eq. 2.1): never wider than sqrt(z/(2n)), which is its relaxation by Pinsker's inequality, and
           much tighter where the mean is near an end.
Bernstein. m <= m^ + sqrt( 2 V ln(2/d)/n ) + 7 ln(2/d)/(3(n-1)) with probability 1 - d, V the sample variance with
           denominator n - 1 (Maurer and Pontil 2009, Theorem 4): tighter where the function hardly varies.

Each side of each is a statement of its own. Everything is about counts: the draws are given by how often each
symbol of a finite alphabet occurred.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, rel_entr

from jaxpriv._runtime.counts import count_array, failure
from jaxpriv._runtime.validation import real_array
from jaxpriv.errors import InputError
from jaxpriv.statistics.confidence.sets import Interval

# Halvings of an interval of at most 1: 2^-60 is below a rounding of its end. The outer end is returned.
_HALVINGS = 60
# Numbers of axes of counts.
_ANY = tuple(range(5))
# The inverse incomplete beta function is good to about 1e-14; intervals are widened by more than that.
_SLACK = 1e-12


def clopper_pearson(hits: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> Interval:
    """(lower, upper): each holds with probability 1 - beta by itself, both with 1 - 2 beta.

    lower is the probability p at which `hits` or more of `draws` have probability beta, upper the p at which
    `hits` or fewer have. 0 hits give lower 0, all hits give upper 1, no draws (0, 1). `beta` may be an array.
    Whole counts go in: a count that is recovered from a proportion can be off by one, in the wrong direction.

    Raises `InputError` for other counts, more hits than draws, shapes that do not match, and a beta outside (0, 1).
    """
    counts = [count_array(value, name, ndim=_ANY) for name, value in (("hits", hits), ("draws", draws))]
    levels = real_array(beta, "beta", ndim=_ANY)
    if not ((levels > 0) & (levels < 1)).all():
        raise InputError("beta must be > 0 and < 1")
    try:
        hits, draws, levels = np.broadcast_arrays(*counts, levels)
    except ValueError:
        raise InputError("hits, draws and beta have shapes that do not match") from None
    misses = draws - hits
    if not (misses >= 0).all():
        raise InputError("hits is above draws")
    some, not_all = hits > 0, misses > 0
    low = betaincinv(np.where(some, hits, 1), misses + 1, levels)
    high = betainccinv(hits + 1, np.where(not_all, misses, 1), levels)
    lower = np.where(some, low * (1 - _SLACK), 0.0)
    return lower, np.where(not_all, np.minimum(1.0, high + _SLACK * np.minimum(high, 1 - high) + 1e-16), 1.0)


def clopper_pearson_together(hits: np.ndarray, draws: ArrayLike, beta: float) -> Interval:
    """(lower, upper) (k, ...) of k probabilities with total 1 from their `hits`, all of them with probability 1 - beta.

    Of two probabilities the interval of one is that of the other.
    """
    if len(hits) != 2:
        return clopper_pearson(hits, draws, beta / (2 * len(hits)))
    low, high = clopper_pearson(hits[0], draws, beta / 2)
    return np.array([low, 1 - high]), np.array([high, 1 - low])


def coins(x: ArrayLike, p: ArrayLike) -> np.ndarray:
    """d(x || p), the relative entropy of two biased coins."""
    return rel_entr(x, p) + rel_entr(1 - np.asarray(x), 1 - np.asarray(p))


def relative_entropy_limit(share: ArrayLike, radius: ArrayLike) -> np.ndarray:
    """A number >= the largest q with d(share || q) <= radius, d the relative entropy of two biased coins.

    For a mean of n independent numbers in [0, 1] and radius ln(1/beta)/n it is above the expected mean with probability
    1 - beta (Chernoff; Hoeffding 1963, Theorem 1).
    """
    p = np.asarray(share, dtype=float)
    low, high = p.copy(), np.ones_like(p)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        inside = coins(p, middle) <= radius
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.minimum(1.0, high * (1 + _SLACK) + 1e-16)


# Outward rounding of limits and means, relative to their size: 9,000 units of 1.1e-16, more than a plain sum of so many
# nonnegative terms, and the few logarithms and roots after it, can err by.
MEAN_ROUND = 1e-12


def chernoff_interval(mean: np.ndarray, draws: np.ndarray, beta: float) -> Interval:
    """(lower, upper) for functions in [0, 1]: each side with probability 1 - beta; `draws` 0 gives (0, 1)."""
    beta = failure(beta)
    mean, draws = np.broadcast_arrays(np.asarray(mean, float), np.asarray(draws, float))
    # A divergence that is too large by rounding would end the search too early.
    allowed = -np.log(beta) / np.maximum(draws, 1e-300) * (1 + MEAN_ROUND) + 1e-15

    # The lower limit is the upper one of 1 - f; taken from 1 it keeps absolute accuracy only, so add the rounding.
    lower = np.maximum(0.0, 1.0 - relative_entropy_limit(1.0 - mean, allowed) - MEAN_ROUND)
    return lower, relative_entropy_limit(mean, allowed)


def bernstein_interval(mean: np.ndarray, variance: np.ndarray, draws: np.ndarray, beta: float) -> Interval:
    """(lower, upper) for functions in [0, 1] with sample variance `variance`: each side with probability 1 - beta.

    Fewer than two draws give (0, 1).
    """
    logarithm = np.log(2 / failure(beta))
    mean, variance, draws = np.broadcast_arrays(mean, variance, np.asarray(draws, float))
    many = draws >= 2
    n = np.where(many, draws, 2.0)
    width = np.sqrt(2 * np.maximum(variance, 0.0) * logarithm / n) + 7 * logarithm / (3 * (n - 1))
    width = width * (1 + MEAN_ROUND) + MEAN_ROUND
    return np.where(many, np.maximum(0.0, mean - width), 0.0), np.where(many, np.minimum(1.0, mean + width), 1.0)


def mean_interval(counts: np.ndarray, functions: np.ndarray, beta: float) -> Interval:
    """(lower, upper) of E f_j for each function `functions[j]` (m, k) and sample `counts[b]` (B, k): (B, m).

    For each sample its m intervals hold together with probability 1 - beta (four statements each). The functions
    must not depend on these counts.
    """
    low, high = functions.min(axis=-1), functions.max(axis=-1)
    width = np.where(high > low, high - low, 1.0)
    scaled = (functions - low[:, None]) / width[:, None]
    n = counts.sum(axis=-1)[:, None]
    divisor = np.maximum(n, 1)
    mean = np.where(n > 0, np.clip(counts @ scaled.T / divisor, 0.0, 1.0), 0.5)
    second = np.where(n > 0, counts @ (scaled**2).T / divisor, 0.5)
    variance = np.maximum(second - mean**2 + MEAN_ROUND, 0.0) * divisor / np.maximum(n - 1, 1)
    share = failure(beta) / (4 * len(functions))
    lower, upper = zip(chernoff_interval(mean, n, share), bernstein_interval(mean, variance, n, share), strict=True)
    return low + width * np.maximum(*lower), np.minimum(low + width * np.minimum(*upper), high)
