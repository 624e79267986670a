"""I(X;Y) and I(S;Y) of any linear release Y = A X + Z, without cancellation."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from jaxpriv._runtime.validation import instance
from jaxpriv.errors import InputError
from jaxpriv.models.gaussian.covariance import factored, host_matrix
from jaxpriv.models.gaussian.source import GaussianSource


class Information(NamedTuple):
    """The information in a release, nats: `disclosure` = I(X;Y) about X, `leakage` = I(S;Y) about S."""

    disclosure: float
    leakage: float


def information(source: GaussianSource, matrix: ArrayLike, noise: ArrayLike) -> Information:
    """I(X;Y) and I(S;Y) of Y = A X + Z, Z ~ N(0, Sz) independent of (S, X), nats.

    `matrix` A (k, n), any rank; `noise` Sz (k, k), positive definite: without noise a continuous X is disclosed without
    limit. Zero rows of A disclose nothing. Values are exact for the covariances of `source` (estimates if those are,
    see `from_samples`) up to rounding, which a nearly singular correlation matrix of the noise or of X magnifies by its
    condition number; and they are those of real numbers (see `jaxpriv.gaussian`).

    With X = W c in canonical coordinates (cov c = I, cov(c|S) = diag(lambda)) and B = Sz^-1/2 A W the determinants are

        I(X;Y) = 1/2 ln det(I + B B')                      = 1/2 sum_i ln(1 + s_i(B)^2)
        I(S;Y) = 1/2 ln det(I + B B')/det(I + B lambda B') = 1/2 sum_i ln(1 + s_i(M)^2),   M = T^-1 B rho

    with T T' = I + B lambda B' from a QR factorisation of the square root [I, B lambda^1/2]. Singular values s_i stand
    in place of two logarithms of determinants: no difference is taken, so a tiny leakage keeps its digits, and noise
    that is nearly nothing does not overflow.

    Raises `InputError` naming argument and position for NaN, shapes that do not match, and a noise covariance that
    `from_covariances` would refuse.
    """
    instance(source, "source", GaussianSource, hint="; from_covariances and from_samples make it")
    rows = host_matrix(matrix, "matrix")
    size = len(source.eigenvalues)
    if rows.shape[1] != size:
        hint = "; it looks transposed" if rows.shape[0] == size else ""
        raise InputError(f"matrix has {rows.shape[1]} columns, but X has {size} variables{hint}")
    spread = factored(noise, "noise")
    if len(spread.scale) != len(rows):
        raise InputError(f"noise is for {len(spread.scale)} outputs, but matrix has {len(rows)} rows")
    # W = V^-1, and V Sx V' = I gives W = Sx V'.
    with np.errstate(over="ignore", invalid="ignore"):
        seen = (rows / spread.scale[:, None]) @ (source.covariance_x @ source.directions.T)
        signal = solve_triangular(spread.lower, seen, lower=True, check_finite=False)
    if not np.all(np.isfinite(signal)):
        raise InputError("matrix and noise differ by more than the range of floating-point numbers")
    root = np.concatenate([np.eye(len(rows)), (signal * np.sqrt(source.eigenvalues)).T])
    factor = np.asarray(np.linalg.qr(root, mode="r")).T
    revealing = solve_triangular(factor, signal * np.sqrt(source.squared_correlations), lower=True)
    return Information(_half_log_det(signal), _half_log_det(revealing))


def _half_log_det(matrix: np.ndarray) -> float:
    """1/2 ln det(I + M M') from the singular values of M, tiny or huge."""
    values = np.linalg.svd(matrix, compute_uv=False)
    large = np.maximum(values, 1.0)
    # Beyond 1: ln(1 + s^2) = 2 ln s + ln(1 + s^-2), because s^2 may overflow.
    return float(np.sum(np.log(large) + 0.5 * np.log1p(np.square(np.minimum(values, 1.0 / large)))))
