"""Rate and leakage of one eigen-direction, and how a total rate is shared among directions.

With B = Sz^-1/2 A Sx^1/2 and G = B'B >= 0 (any G can be had) a linear release Y = A X + Z has

    I(X;Y) = 1/2 ln det(I + G),     I(S;Y) = 1/2 ln det(I + G) - 1/2 ln det(I + K G).

Let g_1 >= ... >= g_n be the eigenvalues of G and r_i = 1/2 ln(1 + g_i) the rates of its directions. By the majorisation
of Gelfand, Naimark and Lidskii the logarithms of the eigenvalues of K G are majorised by ln lambda_i + ln g_i with both
in falling order, and majorise the sums with one of them in rising order; x -> ln(1 + e^x) is convex, so

    sum_i ln(1 + lambda_{n+1-i} g_i)  <=  ln det(I + K G)  <=  sum_i ln(1 + lambda_i g_i)

(singular K, G: by continuity). Both ends are attained by a G that shares its eigenvectors with K. So both curves are
questions about how the rate R = sum r_i is shared among the directions, where direction i leaks

    leak(r) = r - 1/2 ln(1 + lambda (e^2r - 1)) = -1/2 ln(lambda + rho^2 e^-2r),    rho^2 = 1 - lambda.

leak has the slope rho^2 e^-2r/(lambda + rho^2 e^-2r) in [0, 1], falling in r: it is concave.

* Least leakage at a rate >= R (funnel): r -> ln(1 + lambda (e^2r - 1)) is convex, 0 at 0, hence superadditive, and
  increases in lambda: sum_i ln(1 + lambda_i (e^{2 r_i} - 1)) <= ln(1 + lambda_1 (e^{2R} - 1)). All the rate in the
  direction with the LARGEST eigenvalue attains it, and leak is non-decreasing in the rate.
* Most leakage at a rate <= R (bottleneck): a concave sum under sum r_i <= R. Equal slopes beta where r_i > 0 give
  reverse water-filling on the SMALLEST eigenvalues (Chechik et al. 2005): with the levels t_i = ln(rho_i^2/lambda_i),

      r_i = 1/2 max(t_i - theta, 0),     beta = 1/(1 + e^-theta).

  A direction that S determines (lambda = 0) has the slope 1 at every rate and takes all of it.
"""

import numpy as np
from scipy.special import expit

from jaxpriv._validation import real_array
from jaxpriv.errors import InputError


def rates_array(value: object, name: str) -> np.ndarray:
    """Rates: a number or a list of numbers >= 0, nats; infinite ones are limits."""
    array = real_array(value, name, ndim=(0, 1))
    if not np.all(array >= 0):
        first = np.flatnonzero(~(np.atleast_1d(array) >= 0))[0]
        raise InputError(f"{name}{f'[{first}]' if array.ndim else ''} must be a number >= 0 (nats)")
    return array


def leak(squared_correlation: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """-1/2 ln(1 - rho^2 (1 - e^-2r)), elementwise: a relative accuracy of some units in the last place at any size.

    Limits: 0 for rho = 0; r for rho = 1; -1/2 ln lambda for r = inf.
    """
    square, rate = np.asarray(squared_correlation, dtype=float), np.asarray(rate, dtype=float)
    explained = square * -np.expm1(-2.0 * rate)
    with np.errstate(divide="ignore"):
        # 1 - explained would cancel near 1: there the two positive terms are added instead.
        large = np.logaddexp(np.log1p(-square), np.log(square) - 2.0 * rate)
        return np.where(explained < 0.5, -0.5 * np.log1p(-explained), -0.5 * large)


def levels(squared_correlations: np.ndarray) -> np.ndarray:
    """t = ln(rho^2/lambda): inf where lambda = 0, -inf where rho = 0. The slope of leak at r is 1/(1 + e^(2r - t))."""
    with np.errstate(divide="ignore"):
        return np.log(squared_correlations) - np.log1p(-squared_correlations)


def water_filling(squared_correlations: np.ndarray, rate: float) -> tuple[np.ndarray, float]:
    """(rates (n,) of the directions, slope beta of the curve) with the most leakage at the total `rate`.

    `squared_correlations` is non-decreasing. A rate that nothing can use (X independent of S) goes to the last
    direction, so that the total is met.
    """
    level = levels(squared_correlations)
    rates = np.zeros(len(level))
    if not np.isfinite(level[-1]):
        rates[-1] = rate
        return rates, 1.0 if level[-1] > 0 else 0.0
    useful = np.flatnonzero(np.isfinite(level))[::-1]  # from the highest level down
    count = np.arange(1, len(useful) + 1)
    theta = (np.cumsum(level[useful]) - 2.0 * rate) / count
    # theta of the first k directions is the answer for the largest k whose last level is above it.
    last = int(np.flatnonzero(level[useful] >= theta)[-1])
    rates[useful] = 0.5 * np.maximum(level[useful] - theta[last], 0.0)
    return rates, float(expit(theta[last]))
