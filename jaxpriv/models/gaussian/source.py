"""A jointly Gaussian pair (S, X), reduced to its canonical correlations.

Write Sx = F F' and Ss = G G'. The matrix C = F^-1 Sxs G^-T has the singular values rho_1 <= ... <= rho_n, the canonical
correlations of X and S (zeros where there are more variables in X than in S), and K = Sx^-1/2 Sx|s Sx^-1/2 is
I - C C' up to a rotation: its eigenvalues are lambda_i = 1 - rho_i^2. With the left singular vectors u_i the rows

    v_i' = u_i' F^-1,     V Sx V' = I,     V Sx|s V' = diag(lambda)

are the left eigenvectors of Sx|s Sx^-1 (of the paper's Theorem 2), and Sx^1/2 v_i the eigenvectors of K. They depend on
the covariances only, up to rotations among equal eigenvalues. The squares rho_i^2 are kept beside lambda_i, so that
neither a nearly independent nor a nearly determined direction loses its digits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from jaxpriv._runtime.module import summary
from jaxpriv.errors import InputError
from jaxpriv.models.gaussian.covariance import Factored, factored, host_matrix

# What a printed table of covariances may be off by before it is called impossible.
_IMPOSSIBLE = 1e-9


@dataclass(frozen=True)
class GaussianSource:
    """A jointly Gaussian pair of X in R^n and S in R^m, as `from_covariances` and `from_samples` make it.

    Attributes:
        covariance_x: Sx (n, n).
        covariance_s: Ss (m, m).
        cross_covariance: Sxs (n, m), E X S' of the centred variables.
        eigenvalues: lambda (n,) of K, non-increasing, in [0, 1]: the share of the variance of direction i that S
            leaves open. 1: it is independent of S, 0: S determines it.
        squared_correlations: rho^2 = 1 - lambda (n,), accurate where it is small.
        directions: V (n, n), row i is the direction of eigenvalue i; V Sx V' = I.
        samples: the number of samples that the covariances were ESTIMATED from; None if they were given.
    """

    covariance_x: np.ndarray
    covariance_s: np.ndarray
    cross_covariance: np.ndarray
    eigenvalues: np.ndarray
    squared_correlations: np.ndarray
    directions: np.ndarray
    samples: int | None = None

    __repr__ = summary

    @property
    def private_information(self) -> float:
        """I(S;X) = -1/2 sum_i ln lambda_i, nats: what X itself leaks; inf if S determines a direction of X."""
        with np.errstate(divide="ignore"):
            terms = np.where(
                self.squared_correlations < 0.5, np.log1p(-self.squared_correlations), np.log(self.eigenvalues)
            )
        return max(-0.5 * float(terms.sum()), 0.0)


def from_covariances(covariance_x: ArrayLike, covariance_s: ArrayLike, cross_covariance: ArrayLike) -> GaussianSource:
    """The pair with the covariances Sx (n, n), Ss (m, m) and Sxs = E X S' (n, m).

    Sx and Ss must be positive definite (leave out variables that others determine). The joint covariance may be
    singular: perfect correlation (lambda = 0) and independence (lambda = 1) are cases, not errors. An eigenvalue that
    rounding does not distinguish from 0 is set to 0, the choice that leaks more.

    Raises `InputError` naming argument and position for NaN, asymmetric, singular or indefinite matrices, shapes that
    do not match, and a joint covariance that is not positive semidefinite.
    """
    x, s = factored(covariance_x, "covariance_x"), factored(covariance_s, "covariance_s")
    cross = host_matrix(cross_covariance, "cross_covariance")
    shape = (len(x.scale), len(s.scale))
    if cross.shape != shape:
        hint = "; it looks transposed" if cross.shape == shape[::-1] else ""
        raise InputError(f"cross_covariance has shape {cross.shape}; {shape} is needed (axes: X, S){hint}")
    return _reduced(x, s, cross, None)


def from_samples(x: ArrayLike, s: ArrayLike) -> GaussianSource:
    """The pair with the sample covariances of x (N, n) and s (N, m); row i of both is one individual.

    Means are taken off. N >= n + m + 1 rows are needed: with fewer some sample correlations are 1 whatever the truth.

    **All that follows from it is an estimate**, of a Gaussian that the data may not come from, and not an upper bound
    on anything. It is biased: for independent X and S the estimated I(S;X) is n m/(2 N) on average instead of 0. And
    the funnel picks the direction that looks most harmless in this sample, so its estimated leakage is too LOW; with
    n > m it even finds a direction without any sample correlation. Measure a mapping on individuals that were not
    used to choose it: `information(from_samples(x_held_out, s_held_out), A, Sz)`.

    Raises `InputError` naming argument and position for NaN, other numbers of rows, too few of them, constant columns
    and columns that others determine.
    """
    columns = [_columns(x, "x"), _columns(s, "s")]
    count = len(columns[0])
    if len(columns[1]) != count:
        raise InputError(f"s has {len(columns[1])} rows, but x has {count}; row i of both is one individual")
    needed = sum(part.shape[1] for part in columns) + 1
    if count < needed:
        raise InputError(f"x has {count} rows; at least {needed} are needed (one more than the columns of x and s)")
    x, s = (_centred(part, name) for part, name in zip(columns, ("x", "s"), strict=True))
    of_x, of_s = (factored(part.T @ part / (count - 1), f"covariance of {name}") for part, name in ((x, "x"), (s, "s")))
    return _reduced(of_x, of_s, x.T @ s / (count - 1), count)


def _columns(value: object, name: str) -> np.ndarray:
    array = host_matrix(value, name, ndim=(1, 2))
    return array[:, None] if array.ndim == 1 else array


def _centred(part: np.ndarray, name: str) -> np.ndarray:
    constant = np.ptp(part, axis=0) == 0
    if np.any(constant):
        raise InputError(f"{name}[:, {int(np.flatnonzero(constant)[0])}] is constant; leave it out")
    return part - part.mean(axis=0)


def _reduced(x: Factored, s: Factored, cross: np.ndarray, samples: int | None) -> GaussianSource:
    correlation = cross / x.scale[:, None] / s.scale
    if not np.all(np.abs(correlation) <= 1 + _IMPOSSIBLE):
        i, j = (int(k) for k in np.argwhere(~(np.abs(correlation) <= 1 + _IMPOSSIBLE))[0])
        raise InputError(f"cross_covariance[{i}, {j}] exceeds the product of the standard deviations of its variables")
    half = solve_triangular(x.lower, correlation, lower=True)
    whitened = solve_triangular(s.lower, half.T, lower=True).T
    left, singular, _ = np.linalg.svd(whitened, full_matrices=True)
    # Backward error of the two whitenings: what lies below it is not in the matrices any more.
    rounding = 4 * np.finfo(float).eps * sum(correlation.shape) * (1 / x.smallest + 1 / s.smallest)
    if not singular[0] <= 1 + max(rounding, _IMPOSSIBLE):
        first = int(np.argmax(np.abs(x.lower @ left[:, 0])))
        raise InputError(
            "the joint covariance is not positive semidefinite: cross_covariance implies a correlation above 1 "
            f"between a combination of X and one of S; see cross_covariance[{first}, :]"
        )
    squares = np.zeros(len(left))
    squares[len(left) - len(singular) :] = np.minimum(singular[::-1], 1.0) ** 2
    squares = np.where(1.0 - squares <= rounding, 1.0, squares)
    rotation = left[:, ::-1]
    directions = solve_triangular(x.lower.T, rotation).T / x.scale
    return GaussianSource(
        covariance_x=x.matrix,
        covariance_s=s.matrix,
        cross_covariance=cross,
        eigenvalues=1.0 - squares,
        squared_correlations=squares,
        directions=directions,
        samples=samples,
    )
