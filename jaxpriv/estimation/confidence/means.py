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

from jaxpriv.estimation.confidence._counts import failure

_STEPS = 60
_ROUND = 1e-12


def chernoff_interval(mean: np.ndarray, draws: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) for functions in [0, 1]: each side with probability 1 - beta; `draws` 0 gives (0, 1)."""
    beta = failure(beta)
    mean, draws = np.broadcast_arrays(np.asarray(mean, float), np.asarray(draws, float))
    # A divergence that is too large by rounding would end the search too early.
    allowed = -np.log(beta) / np.maximum(draws, 1e-300) * (1 + _ROUND) + 1e-15

    def upper_of(value: np.ndarray) -> np.ndarray:
        inside, outside = value.copy(), np.ones_like(value)
        for _ in range(_STEPS):
            middle = 0.5 * (inside + outside)
            near = _binary_divergence(value, middle) <= allowed
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        return np.minimum(1.0, outside + _ROUND * outside)

    # The lower limit is the upper one of 1 - f; taken from 1 it keeps absolute accuracy only, so add the rounding.
    lower = np.maximum(0.0, 1.0 - upper_of(1.0 - mean) - _ROUND)
    return lower, upper_of(mean.copy())


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
    width = width * (1 + _ROUND) + _ROUND
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
    variance = np.maximum(second - mean**2 + _ROUND, 0.0) * kept / np.maximum(n - 1, 1)
    share = failure(beta) / (4 * len(functions))
    intervals = (chernoff_interval(mean, n, share), bernstein_interval(mean, variance, n, share))
    lower = np.maximum(intervals[0][0], intervals[1][0])
    upper = np.minimum(intervals[0][1], intervals[1][1])
    return low + width * lower, np.minimum(low + width * upper, high)


def _binary_divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(p > 0, p * np.log(p / q), 0.0)
        other = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
    return one + other
