"""The Gaussian privacy funnel and information bottleneck: linear releases Y = A X + Z, in closed form.

    source = from_covariances(Sx, Ss, Sxs)         # or from_samples(x, s): then everything is an estimate
    funnel(source, rate=1.0)                       # the mapping that leaks least about S at I(X;Y) = 1 nat
    bottleneck(source, rate=1.0)                   # the mapping that discloses most about S
    funnel_curve(source, rates), bottleneck_curve(source, rates)
    information(source, A, Sz)                     # I(X;Y) and I(S;Y) of any mapping, exactly

(S, X) is jointly Gaussian and Z ~ N(0, Sz) independent of it. All that counts of the covariances are the
eigenvalues lambda_1 >= ... >= lambda_n in [0, 1] of K = Sx^-1/2 Sx|s Sx^-1/2, where
Sx|s = Sx - Sxs Ss^-1 Ssx: one minus the squared canonical correlations of X and S. `source` computes them and the
information of any mapping; the formulas of one eigen-direction are below, with their proofs.
After Makhdoumi, Salamatian, Fawaz and Medard 2014, section V (Theorem 2 corrected), and Chechik, Globerson, Tishby
and Weiss 2005. Host NumPy in float64, nats.

Two warnings.

* **One linear release against time sharing.** The funnel curve of one linear release is concave in the rate. A release
  at rate R/t on a share t of the occasions and nothing otherwise, openly, has the average rate R and leaks
  t PF(R/t) <= t/2 ln(1/lambda_1) on average: nothing in the limit, at ANY rate R, if lambda_1 > 0
  (`time_sharing_curve`). Over all mappings the funnel of continuous data is therefore 0, and I(X;Y) is a poor measure
  of their utility: a few releases of very high accuracy have all of it.
* **Real numbers.** Leakage and rate are those of real-number arithmetic. Floating-point noise has gaps whose pattern
  depends on the value it was added to (Mironov 2012; Haney et al. 2022): a release meant to withstand an adversary who
  reads the last bits has to be discretised, and measured as a finite mechanism.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import instance, real_array, scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.models.gaussian.linear_release import Information, information
from jaxpriv.models.gaussian.source import GaussianSource, from_covariances, from_samples

__all__ = [
    "GaussianRelease",
    "GaussianSource",
    "Information",
    "bottleneck",
    "bottleneck_curve",
    "from_covariances",
    "from_samples",
    "funnel",
    "funnel_curve",
    "information",
    "time_sharing_curve",
]
__dir__ = names_of(__name__)


# Rate and leakage of one eigen-direction, and how a total rate is shared among directions.
#
# With B = Sz^-1/2 A Sx^1/2 and G = B'B >= 0 (any G can be had) a linear release Y = A X + Z has
#
#     I(X;Y) = 1/2 ln det(I + G),     I(S;Y) = 1/2 ln det(I + G) - 1/2 ln det(I + K G).
#
# Let g_1 >= ... >= g_n be the eigenvalues of G and r_i = 1/2 ln(1 + g_i) the rates of its directions. By the
# majorisation of Gelfand, Naimark and Lidskii the logarithms of the eigenvalues of K G are majorised by ln lambda_i +
# ln g_i with both in falling order, and majorise the sums with one of them in rising order; x -> ln(1 + e^x) is convex,
# so
#
#     sum_i ln(1 + lambda_{n+1-i} g_i)  <=  ln det(I + K G)  <=  sum_i ln(1 + lambda_i g_i)
#
# (singular K, G: by continuity). Both ends are attained by a G that shares its eigenvectors with K. So both curves are
# questions about how the rate R = sum r_i is shared among the directions, where direction i leaks
#
#     leak(r) = r - 1/2 ln(1 + lambda (e^2r - 1)) = -1/2 ln(lambda + rho^2 e^-2r),    rho^2 = 1 - lambda.
#
# leak has the slope rho^2 e^-2r/(lambda + rho^2 e^-2r) in [0, 1], falling in r: it is concave.
#
# * Least leakage at a rate >= R (funnel): r -> ln(1 + lambda (e^2r - 1)) is convex, 0 at 0, hence superadditive, and
#   increases in lambda: sum_i ln(1 + lambda_i (e^{2 r_i} - 1)) <= ln(1 + lambda_1 (e^{2R} - 1)). All the rate in the
#   direction with the LARGEST eigenvalue attains it, and leak is non-decreasing in the rate.
# * Most leakage at a rate <= R (bottleneck): a concave sum under sum r_i <= R. Equal slopes beta where r_i > 0 give
#   reverse water-filling on the SMALLEST eigenvalues (Chechik et al. 2005): with the levels t_i = ln(rho_i^2/lambda_i),
#
#       r_i = 1/2 max(t_i - theta, 0),     beta = 1/(1 + e^-theta).
#
# A direction that S determines (lambda = 0) has the slope 1 at every rate and takes all of it.


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
    with np.errstate(divide="ignore", over="ignore"):  # a rate of no float64 twice is as good as an infinite one
        explained = square * -np.expm1(-2.0 * rate)
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


# e^-2R is the noise of an output of variance 1; beyond this rate it is no normal number.
_HIGHEST_RATE = 350.0


@dataclass(frozen=True)
class GaussianRelease:
    """Y = A X + Z with Z ~ N(0, Sz) independent of (S, X), Sz diagonal; every output has variance 1.

    Attributes:
        matrix: A (k, n), to be applied to X (its mean taken off or not: informations do not depend on it).
        noise: Sz (k, k).
        disclosure: I(X;Y), nats, recomputed from `matrix` and `noise` by `information`.
        leakage: I(S;Y), nats, likewise.
        rates: (n,) of the eigen-directions of the source, nats; their sum is the rate.
        multiplier: beta = d leakage/d rate of the curve at this rate.
        samples: of the source: None if its covariances were given, else everything here is an estimate from so many.

    Numbers are those of real arithmetic: see the warning in `jaxpriv.gaussian` before Y is released.
    """

    matrix: np.ndarray
    noise: np.ndarray
    disclosure: float
    leakage: float
    rates: np.ndarray
    multiplier: float
    samples: int | None

    __repr__ = summary


def funnel(source: GaussianSource, rate: float | None = None, *, multiplier: float | None = None) -> GaussianRelease:
    """The ONE linear release with the least I(S;Y) among those with I(X;Y) >= `rate`.

    It is Y = sqrt(1 - e^-2R) v_1'X + Z with Var Z = e^-2R and v_1 the direction of the largest eigenvalue; its leakage
    is `funnel_curve(source, rate)` up to the rounding of A (`leakage` is that of A as rounded, which at rates near 100
    reveals other directions too). Among equal largest eigenvalues the choice is free. `rate` in [0, 350] nats (about 36
    already fill a double). Time sharing leaks less on average: see `jaxpriv.gaussian`.

    **The Lagrangian has no minimum.** For `multiplier` beta the problem min I(S;Y) - beta I(X;Y) of the paper's
    Theorem 2 is refused with an `InfeasibleError` if beta > 0 and lambda_1 > 0. For Y = a v_1'X + Z at rate r

        I(S;Y) - beta I(X;Y) = (1 - beta) r - 1/2 ln(1 + lambda_1 (e^2r - 1)) <= -beta r + 1/2 ln(1/lambda_1),

    because 1 + lambda (e^2r - 1) >= lambda e^2r, and this falls without bound in r. The stationary point that the
    theorem describes, (1 - beta)(lambda g + 1) = lambda (1 + g) in each direction, is where g has the slope beta on a
    CONCAVE curve: a maximum, which is the information bottleneck, `bottleneck(source, multiplier=beta)`. The `proof` of
    the error holds the direction, and rates at which the Lagrangian is below -1, -10 and -100. If S determines X
    (lambda_1 = 0) every release leaks all it discloses, the Lagrangian is (1 - beta) I(X;Y), and for beta <= 1 no
    release is a minimum.

    Raises `InputError` unless exactly one of `rate` and `multiplier` is given, for a rate outside [0, 350] and a
    multiplier that is negative; NaN for either.
    """
    squares = _squares(source)
    if not _by_rate(rate, multiplier):
        _refuse_unbounded(source, float(scalar(multiplier, "multiplier", low=0.0)))
        rate = 0.0
    rates = np.zeros(len(squares))
    rates[0] = _rate(rate)
    return _release(source, rates, float(expit(levels(squares)[0] - 2.0 * rates[0])))


def bottleneck(
    source: GaussianSource, rate: float | None = None, *, multiplier: float | None = None
) -> GaussianRelease:
    """The linear release with the most I(S;Y) among those with I(X;Y) <= `rate`: what the funnel is meant to avoid.

    Directions are filled from the smallest eigenvalue up (`jaxpriv.gaussian`); the leakage is
    `bottleneck_curve(source, rate)`. Or, for a `multiplier` beta > 0, the maximiser of I(S;Y) - beta I(X;Y): rate
    1/2 ln( rho_i^2 (1 - beta)/(lambda_i beta) ) where that is positive, no release for beta >= rho_n^2.

    Raises `InputError` unless exactly one of them is given, for a rate outside [0, 350] and a multiplier that is not
    positive, NaN for either; `InfeasibleError` for beta < 1 if S determines a direction of X (lambda_n = 0), or nearly,
    so that the best rate is infinite or beyond 350.

    Chechik, Globerson, Tishby and Weiss 2005.
    """
    squares = _squares(source)
    if _by_rate(rate, multiplier):
        return _release(source, *water_filling(squares, _rate(rate)))
    beta = float(scalar(multiplier, "multiplier", low=0.0, open_low=True))
    if beta >= squares[-1]:
        return _release(source, np.zeros(len(squares)), beta)
    rates = 0.5 * np.maximum(levels(squares) - logit(beta), 0.0)
    if not rates.sum() <= _HIGHEST_RATE:
        raise InfeasibleError(
            "no release maximises I(S;Y) - multiplier * I(X;Y) at a rate of at most 350 nats: S determines a direction "
            "of X, or the multiplier is too small; ask for a rate",
            {
                "multiplier": beta,
                "direction": source.directions[-1].copy(),
                "eigenvalue": float(source.eigenvalues[-1]),
            },
        )
    return _release(source, rates, beta)


def _squares(source: GaussianSource) -> np.ndarray:
    instance(source, "source", GaussianSource, hint="; from_covariances and from_samples make it")
    return source.squared_correlations


def _by_rate(rate: float | None, multiplier: float | None) -> bool:
    if (rate is None) == (multiplier is None):
        raise InputError("exactly one of rate and multiplier is needed")
    return rate is not None


def _rate(value: object) -> float:
    return float(scalar(value, "rate", low=0.0, high=_HIGHEST_RATE))


def _refuse_unbounded(source: GaussianSource, beta: float) -> None:
    """Raise with the witness unless min I(S;Y) - beta I(X;Y) is attained (then it is 0, without a release)."""
    largest = float(source.eigenvalues[0])
    if beta == 0 or (largest == 0 and beta <= 1):
        return
    goals = np.array([-1.0, -10.0, -100.0])
    with np.errstate(over="ignore"):  # a tiny multiplier needs a rate beyond every number
        # leak <= 1/2 ln(1/lambda), and where that is infinite leak = r.
        rates = (-0.5 * np.log(largest) - goals) / beta if largest > 0 else -goals / (beta - 1)
    raise InfeasibleError(
        "no release minimises I(S;Y) - multiplier * I(X;Y): along the direction in `proof` it falls without bound as "
        "the rate grows (Theorem 2 of Makhdoumi et al. as printed finds a maximum); ask for a rate",
        {
            "multiplier": beta,
            "direction": source.directions[0].copy(),
            "eigenvalue": largest,
            "rates": rates,
            "values": leak(source.squared_correlations[0], rates) - beta * rates,
        },
    )


def _release(source: GaussianSource, rates: np.ndarray, multiplier: float) -> GaussianRelease:
    used = np.flatnonzero(rates > 0)
    if not used.size:
        used = np.array([0])  # no release is one output of noise only
    gain = np.sqrt(-np.expm1(-2.0 * rates[used]))
    matrix, noise = gain[:, None] * source.directions[used], np.diag(np.exp(-2.0 * rates[used]))
    amounts = information(source, matrix, noise)
    return GaussianRelease(matrix, noise, amounts.disclosure, amounts.leakage, rates, multiplier, source.samples)


# The curves of leakage against rate for linear Gaussian releases.


def funnel_curve(source: GaussianSource, rates: ArrayLike) -> np.ndarray:
    """min I(S;Y) over ONE linear release Y = A X + Z with I(X;Y) >= R, for each R of `rates`, nats.

        PF(R) = R - 1/2 ln(1 + lambda_1 (e^2R - 1)),     lambda_1 the largest eigenvalue

    0 if lambda_1 = 1 (a direction of X is independent of S), R if lambda_1 = 0 (S determines X), and
    1/2 ln(1/lambda_1) in the limit R = inf. Concave and non-decreasing: NOT the least leakage of all mappings, see
    `time_sharing_curve`. Proof in `jaxpriv.gaussian`; exact to rounding for the given covariances.

    `rates` is a number or (k,), >= 0, inf allowed; the result has its shape. Raises `InputError` for other rates.

    Makhdoumi et al. 2014, section V; their Theorem 2 is corrected here (see `jaxpriv.gaussian.funnel`).
    """
    return leak(_squares(source)[0], rates_array(rates, "rates"))


def bottleneck_curve(source: GaussianSource, rates: ArrayLike) -> np.ndarray:
    """max I(S;Y) over linear releases Y = A X + Z with I(X;Y) <= R, for each R of `rates`, nats.

    Reverse water-filling on the smallest eigenvalues; R if some eigenvalue is 0, I(S;X) in the limit R = inf, concave.
    The worst that a careless linear release of this rate can do; by Globerson and Tishby 2004 no mapping at all does
    worse. Proof for linear releases in `jaxpriv.gaussian`; exact to rounding for the given covariances.

    `rates` is a number or (k,), >= 0, inf allowed; the result has its shape. Raises `InputError` for other rates.

    Chechik, Globerson, Tishby and Weiss 2005.
    """
    rates = rates_array(rates, "rates")
    squares = _squares(source)
    shared = [leak(squares, water_filling(squares, float(rate))[0]).sum() for rate in np.atleast_1d(rates)]
    return np.array(shared).reshape(rates.shape)


def time_sharing_curve(source: GaussianSource, rates: ArrayLike, share: float) -> np.ndarray:
    """I(S;Y) at the average rate I(X;Y) = R of a release on a `share` t of the occasions, openly, nothing otherwise.

        t PF(R/t)  <=  t/2 ln(1/lambda_1)

    Whether there is a release is drawn without regard to X and released with Y. PF is concave with PF(0) = 0, so a
    smaller share leaks less, nothing in the limit if lambda_1 > 0: at any average rate. The average hides that each
    release then has up to 1/2 ln(1/lambda_1) of information about S.

    `rates` as in `funnel_curve`, `share` in (0, 1]. Raises `InputError` for others.
    """
    share = float(scalar(share, "share", low=0.0, high=1.0, open_low=True))
    rates = rates_array(rates, "rates")
    with np.errstate(over="ignore"):  # a share near 0 needs a rate beyond every number: its limit
        return np.asarray(share * leak(_squares(source)[0], rates / share))
