"""The curves of leakage against rate for linear Gaussian releases."""

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._validation import scalar
from jaxpriv.gaussian._rates import leak, rates_array, water_filling
from jaxpriv.gaussian.source import GaussianSource


def funnel_curve(source: GaussianSource, rates: ArrayLike) -> np.ndarray:
    """min I(S;Y) over ONE linear release Y = A X + Z with I(X;Y) >= R, for each R of `rates`, nats.

        PF(R) = R - 1/2 ln(1 + lambda_1 (e^2R - 1)),     lambda_1 the largest eigenvalue

    0 if lambda_1 = 1 (a direction of X is independent of S), R if lambda_1 = 0 (S determines X), and
    1/2 ln(1/lambda_1) in the limit R = inf. Concave and non-decreasing: NOT the least leakage of all mappings, see
    `time_sharing_curve`. Proof in `jaxpriv.gaussian._rates`; exact to rounding for the given covariances.

    `rates` is a number or (k,), >= 0, inf allowed; the result has its shape. Raises `InputError` for other rates.

    Makhdoumi et al. 2014, section V; their Theorem 2 is corrected here (see `jaxpriv.gaussian.funnel`).
    """
    return leak(source.squared_correlations[0], rates_array(rates, "rates"))


def bottleneck_curve(source: GaussianSource, rates: ArrayLike) -> np.ndarray:
    """max I(S;Y) over linear releases Y = A X + Z with I(X;Y) <= R, for each R of `rates`, nats.

    Reverse water-filling on the smallest eigenvalues; R if some eigenvalue is 0, I(S;X) in the limit R = inf, concave.
    The worst that a careless linear release of this rate can do; by Globerson and Tishby 2004 no mapping at all does
    worse. Proof for linear releases in `jaxpriv.gaussian._rates`; exact to rounding for the given covariances.

    `rates` is a number or (k,), >= 0, inf allowed; the result has its shape. Raises `InputError` for other rates.

    Chechik, Globerson, Tishby and Weiss 2005.
    """
    rates = rates_array(rates, "rates")
    squares = source.squared_correlations
    shared = [leak(squares, water_filling(squares, float(rate))[0]).sum() for rate in np.atleast_1d(rates)]
    return np.array(shared).reshape(rates.shape)


def time_sharing_curve(source: GaussianSource, rates: ArrayLike, share: float) -> np.ndarray:
    """I(S;Y) at the average rate I(X;Y) = R of a release on a `share` t of the occasions, openly, nothing otherwise.

        t PF(R/t)  <=  t/2 ln(1/lambda_1)

    Whether there is a release is drawn without regard to X and told with Y. PF is concave with PF(0) = 0, so a smaller
    share leaks less, nothing in the limit if lambda_1 > 0: at any average rate. The average hides that each release
    then tells up to 1/2 ln(1/lambda_1) about S.

    `rates` as in `funnel_curve`, `share` in (0, 1]. Raises `InputError` for others.
    """
    share = float(scalar(share, "share", low=0.0, high=1.0, open_low=True))
    rates = rates_array(rates, "rates")
    with np.errstate(over="ignore"):  # a share near 0 asks for a rate beyond every number: its limit
        return np.asarray(share * leak(source.squared_correlations[0], rates / share))
