"""The linear releases on both curves, as mappings Y = A X + Z."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from jaxpriv._repr import summary
from jaxpriv._validation import scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.gaussian._rates import leak, levels, water_filling
from jaxpriv.gaussian.information import information
from jaxpriv.gaussian.source import GaussianSource

# e^-2R is the noise of an output of variance 1; beyond this rate it is no normal number.
_HIGHEST_RATE = 350.0


@dataclass(frozen=True)
class GaussianRelease:
    """Y = A X + Z with Z ~ N(0, Sz) independent of (S, X), Sz diagonal; every output has variance 1.

    Attributes:
        matrix: A (k, n), to be applied to X (its mean taken off or not: informations do not see it).
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
    if not _by_rate(rate, multiplier):
        _refuse_unbounded(source, float(scalar(multiplier, "multiplier", low=0.0)))
        rate = 0.0
    rates = np.zeros(len(source.eigenvalues))
    rates[0] = _rate(rate)
    return _release(source, rates, float(expit(levels(source.squared_correlations)[0] - 2.0 * rates[0])))


def bottleneck(
    source: GaussianSource, rate: float | None = None, *, multiplier: float | None = None
) -> GaussianRelease:
    """The linear release with the most I(S;Y) among those with I(X;Y) <= `rate`: what the funnel is meant to avoid.

    Directions are filled from the smallest eigenvalue up (`jaxpriv.gaussian._rates`); the leakage is
    `bottleneck_curve(source, rate)`. Or, for a `multiplier` beta > 0, the maximiser of I(S;Y) - beta I(X;Y): rate
    1/2 ln( rho_i^2 (1 - beta)/(lambda_i beta) ) where that is positive, no release for beta >= rho_n^2.

    Raises `InputError` unless exactly one of them is given, for a rate outside [0, 350] and a multiplier that is not
    positive, NaN for either; `InfeasibleError` for beta < 1 if S determines a direction of X (lambda_n = 0), or nearly,
    so that the best rate is infinite or beyond 350.

    Chechik, Globerson, Tishby and Weiss 2005.
    """
    squares = source.squared_correlations
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
    with np.errstate(over="ignore"):  # a tiny multiplier asks for a rate beyond every number
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
    told = information(source, matrix, noise)
    return GaussianRelease(matrix, noise, told.disclosure, told.leakage, rates, multiplier, source.samples)
