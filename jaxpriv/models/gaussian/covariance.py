"""A covariance matrix taken apart into scales and a Cholesky factor, or refused with its position."""

from typing import NamedTuple

import numpy as np

from jaxpriv._runtime.validation import finite, is_traced, real_array
from jaxpriv.errors import InputError

# Symmetry is required up to the rounding of a printed table.
_ASYMMETRY = 1e-9


# A correlation matrix with an eigenvalue below this is singular for float64: 12 of its 16 digits are gone.
_SINGULAR = 1e-12


class Factored(NamedTuple):
    """diag(scale) L L' diag(scale), with L L' a correlation matrix whose least eigenvalue is `smallest`."""

    scale: np.ndarray
    lower: np.ndarray
    smallest: float

    @property
    def matrix(self) -> np.ndarray:
        """The covariance matrix."""
        factor = self.scale[:, None] * self.lower
        return factor @ factor.T


def host_matrix(value: object, name: str, *, ndim: int | tuple[int, ...] = 2) -> np.ndarray:
    """A finite float64 matrix; tracers are refused, because eigenvalues are checked and sorted here."""
    if is_traced(value):
        raise InputError(f"{name} is traced: jaxpriv.models.gaussian runs on the host, outside jit, vmap and grad")
    return finite(real_array(value, name, ndim=ndim), name)


def factored(value: object, name: str) -> Factored:
    """Scales and Cholesky factor of a covariance matrix: symmetric, positive definite.

    Raises `InputError` naming the position: not square, NaN or infinite, not symmetric, a variance that is not
    positive, an eigenvalue that is negative or too small (then the position is the variable with the largest part in
    the offending combination). Variables are scaled to unit variance first, so their units do not matter.
    """
    matrix = host_matrix(value, name)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} has shape {matrix.shape}; a covariance matrix is square")
    variance = np.diag(matrix)
    if not np.all(variance > 0):
        first = int(np.flatnonzero(~(variance > 0))[0])
        raise InputError(f"{name}[{first}, {first}] is a variance and must be positive")
    scale = np.sqrt(variance)
    correlation = matrix / scale[:, None] / scale
    apart = np.abs(correlation - correlation.T) > _ASYMMETRY
    if np.any(apart):
        i, j = (int(k) for k in np.argwhere(apart)[0])
        raise InputError(f"{name}[{i}, {j}] differs from {name}[{j}, {i}]; a covariance matrix is symmetric")
    correlation = 0.5 * (correlation + correlation.T)
    values, vectors = np.linalg.eigh(correlation)
    if not values[0] > _SINGULAR:
        first = int(np.argmax(np.abs(vectors[:, 0])))
        kind = "not positive semidefinite" if values[0] < -_SINGULAR else "singular"
        hint = "" if values[0] < -_SINGULAR else ": leave out variables that others determine"
        raise InputError(f"{name} is {kind}; see variable {first}, {name}[{first}, :]{hint}")
    return Factored(scale, np.linalg.cholesky(correlation), float(values[0]))
