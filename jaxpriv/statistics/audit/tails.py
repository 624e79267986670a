"""Tails of sums of bounded independent numbers from their second moments: between Chernoff's bound and the normal one.

Y_j are independent with mean 0, Y_j <= b and sum of variances v. For h(x) = (x - a)_+^2 and Pi of Poisson's law with
mean lambda = v/b^2,

    E h(sum Y_j) <= E h( b (Pi - lambda) ),   Pr[sum Y_j >= b x] <= inf_k E(Pi - k)_+^2 / (x + lambda - k)^2.

Proof (Bentkus 2004 and Pinelis 2016 have it in general). One Y of variance s^2: the square through (b, h(b)) with its
zero at -s^2/b is above h on x <= b, so the law on {-s^2/b, b} has the largest E h. The Poisson law of the same mean,
variance and least value has a larger one: the two tails differ in sign as (+, -, +), so that twice integrated the
difference is nonnegative. Y_j by Y_j, and Poisson laws of one scale add.

X(lambda) = min_k k + sqrt(E(Pi - k)_+^2/beta) - lambda is the x at which the bound is beta. It increases with lambda,
and `intercept` bounds it by a line, X(lambda) <= I(g) + g lambda: linear in the variance, as a certificate needs it.
"""

from functools import lru_cache

import numpy as np
from scipy.special import pdtrc

# Means of Poisson's law on the grid, cut points k for each, in deviations.
_MEANS, _CUTS = 1200, np.linspace(-0.5, 4.0, 46)


def quantile(means: np.ndarray, beta: float) -> np.ndarray:
    """X(lambda) for lambda > 0 (m,): Pr[sum Y >= b X] <= beta."""
    mean = means[:, None]
    k = np.maximum(np.floor(mean + _CUTS * np.sqrt(mean + 1)), 0.0)
    # E(Pi - k)_+^2 = lambda^2 Pr[Pi > k-2] + (lambda - 2 k lambda) Pr[Pi > k-1] + k^2 Pr[Pi > k].
    above = [np.where(k >= shift, pdtrc(np.maximum(k - shift, 0), mean), 1.0) for shift in (0, 1, 2)]
    parts = (mean**2 * above[2], (mean - 2 * k * mean) * above[1], k**2 * above[0])
    moment = sum(parts) + 1e-12 * sum(np.abs(part) for part in parts)
    return (k + np.sqrt(np.maximum(moment, 0.0) / beta)).min(axis=1) - means


@lru_cache(maxsize=1024)
def intercept(slope: float, beta: float) -> float:
    """I(g) >= X(lambda) - g lambda for every lambda >= 0, for g = `slope` > 0."""
    last = 1 / (beta * slope**2)  # beyond it Chebyshev's sqrt(lambda/beta) - g lambda is negative
    means = np.geomspace(1e-3 * last * beta, last, _MEANS)
    quantiles = quantile(means, beta)
    line = np.concatenate([[quantiles[0]], quantiles[1:] - slope * means[:-1]])  # X increases between two means
    return float(max(line.max(), 0.0)) * (1 + 1e-9)
