"""Means of bounded functions of the draws, where the functions were fixed before the draws were seen.

f(X_1), ..., f(X_n) independent in [low, high] with mean m and observed mean m^. Scaled to [0, 1]:

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
from scipy.special import betaincinv, rel_entr

from jaxpriv._validation import nonnegative, real_array, scalar
from jaxpriv.errors import InputError

# Validation of integer count tables: a proportion times n is refused.


# Above it float64, in which the radii are computed, skips whole numbers.
LARGEST = 2**53


def count_array(value: object, name: str = "counts", *, ndim: int | tuple[int, ...] = 2) -> np.ndarray:
    """`value` as int64 counts: whole numbers >= 0 with a total below 2^53; all zero is allowed (nothing was seen).

    Raises `InputError` with name and position for bools, floats (a count that was divided or scaled on
    its way is no count any more), NaN, negative entries, masked entries and empty axes.
    """
    array = nonnegative(real_array(value, name, ndim=ndim), name)
    if np.asarray(value).dtype.kind == "f":
        raise InputError(f"{name} has dtype {np.asarray(value).dtype}; counts must be integers")
    if not float(array.sum()) < LARGEST:
        raise InputError(f"{name} has a total of 2^53 or more")
    return np.asarray(value).astype(np.int64)


def possible_array(value: object, counts: np.ndarray) -> np.ndarray:
    """`(s, x)` bool: which pairs the population can have at all; None: every pair.

    Raises `InputError` if the shape differs from that of the counts, entries are no truth values, a private
    symbol has no possible pair, or a pair that was counted is declared impossible.
    """
    shape = counts.shape[-2:]
    if value is None:
        return np.ones(shape, bool)
    array = np.asarray(value)
    if array.dtype != np.bool_:
        numbers = nonnegative(real_array(value, "possible", ndim=2), "possible")
        if not np.all((numbers == 0) | (numbers == 1)):
            raise InputError("possible must hold truth values: true/false or 0/1")
        array = numbers == 1
    if array.shape != shape:
        raise InputError(f"possible has shape {array.shape}, but the counts have shape {shape}")
    if not array.any(axis=1).all():
        raise InputError(f"possible: row {int(np.argmin(array.any(axis=1)))} has no possible pair")
    seen = (counts > 0).any(axis=tuple(range(counts.ndim - 2)))
    if np.any(seen & ~array):
        s, x = (int(i) for i in np.argwhere(seen & ~array)[0])
        raise InputError(f"possible[{s}, {x}] means that the pair cannot occur, but counts[{s}, {x}] is positive")
    return array


def failure(value: object, name: str = "beta") -> float:
    """A probability in (0, 1): of error, or of being right."""
    number = scalar(value, name, low=0.0, open_low=True)
    if not number < 1:
        raise InputError(f"{name} must be a number > 0 and < 1")
    return number


# Exact intervals of a probability from whole counts (Clopper and Pearson 1934).


# Halvings of an interval of at most 1: 2^-60 is below a rounding of its end. The outer end is returned.
_STEPS = 60
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
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        inside = coins(p, middle) <= radius
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.minimum(1.0, high * (1 + _SLACK) + 1e-16)


# Outward rounding of limits and means, relative to their size: 9,000 units of 1.1e-16, more than a plain sum of so many
# nonnegative terms, and the few logarithms and roots after it, can err by.
ROUND = 1e-12


def chernoff_interval(mean: np.ndarray, draws: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) for functions in [0, 1]: each side with probability 1 - beta; `draws` 0 gives (0, 1)."""
    beta = failure(beta)
    mean, draws = np.broadcast_arrays(np.asarray(mean, float), np.asarray(draws, float))
    # A divergence that is too large by rounding would end the search too early.
    allowed = -np.log(beta) / np.maximum(draws, 1e-300) * (1 + ROUND) + 1e-15

    # The lower limit is the upper one of 1 - f; taken from 1 it keeps absolute accuracy only, so add the rounding.
    lower = np.maximum(0.0, 1.0 - relative_entropy_limit(1.0 - mean, allowed) - ROUND)
    return lower, relative_entropy_limit(mean, allowed)


def bernstein_interval(
    mean: np.ndarray, variance: np.ndarray, draws: np.ndarray, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) for functions in [0, 1] with sample variance `variance`: each side with probability 1 - beta.

    Fewer than two draws give (0, 1).
    """
    logarithm = np.log(2 / failure(beta))
    mean, variance, draws = np.broadcast_arrays(mean, variance, np.asarray(draws, float))
    many = draws >= 2
    n = np.where(many, draws, 2.0)
    width = np.sqrt(2 * np.maximum(variance, 0.0) * logarithm / n) + 7 * logarithm / (3 * (n - 1))
    width = width * (1 + ROUND) + ROUND
    return np.where(many, np.maximum(0.0, mean - width), 0.0), np.where(many, np.minimum(1.0, mean + width), 1.0)


def mean_interval(counts: np.ndarray, functions: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) of E f_j for each function `functions[j]` (m, k) and sample `counts[b]` (B, k): (B, m).

    For each sample its m intervals hold together with probability 1 - beta (four statements each). The functions
    must not depend on these counts.
    """
    low, high = functions.min(axis=-1), functions.max(axis=-1)
    width = np.where(high > low, high - low, 1.0)
    scaled = (functions - low[:, None]) / width[:, None]
    n = counts.sum(axis=-1)[:, None]
    kept = np.maximum(n, 1)
    mean = np.where(n > 0, np.clip(counts @ scaled.T / kept, 0.0, 1.0), 0.5)
    second = np.where(n > 0, counts @ (scaled**2).T / kept, 0.5)
    variance = np.maximum(second - mean**2 + ROUND, 0.0) * kept / np.maximum(n - 1, 1)
    share = failure(beta) / (4 * len(functions))
    intervals = (chernoff_interval(mean, n, share), bernstein_interval(mean, variance, n, share))
    lower = np.maximum(intervals[0][0], intervals[1][0])
    upper = np.minimum(intervals[0][1], intervals[1][1])
    return low + width * lower, np.minimum(low + width * upper, high)
