"""Batched positive definite systems by inverse factors: G^-1 = K'K with K lower triangular.

Solving with K is a matrix product. On CPU the batched LAPACK kernels behind `cholesky` and
`triangular_solve` run one small matrix at a time; splitting the matrix in halves leaves them only
blocks of `_BASE` rows and turns the rest into products that run at full speed on every device.
"""

from jaxpriv import _arrays as xp
from jaxpriv._native import with_kernel
from jaxpriv._types import Arr, BoolLike, ScalarLike

# Small enough that LAPACK does little, large enough that the recursion adds few operations.
_BASE = 16


def _transpose(a: Arr) -> Arr:
    return xp.swapaxes(a, -1, -2)


def _factor(g: Arr) -> Arr:
    """K with G^-1 = K'K for a stack of positive definite matrices; NaN where one is not."""
    size = g.shape[-1]
    if size <= _BASE:
        return xp.inverse_root(g)
    half = (size + 1) // 2
    upper = _factor(g[..., :half, :half])
    below = xp.matmul(g[..., half:, :half], _transpose(upper))  # the Cholesky factor's lower left block
    lower = _factor(g[..., half:, half:] - xp.matmul(below, _transpose(below)))
    corner = -xp.matmul(xp.matmul(lower, below), upper)
    zero = xp.zeros((*g.shape[:-2], half, size - half), like=g)
    return xp.concatenate([xp.concatenate([upper, zero], axis=-1), xp.concatenate([corner, lower], axis=-1)], axis=-2)


def portable_inverse_factor(g: Arr, scale: Arr) -> Arr:
    """`inverse_factor` in JAX or NumPy, for every device."""
    eye = xp.eye(g.shape[-1], like=g)

    def failed(carry: tuple[ScalarLike, Arr]) -> BoolLike:
        shift, factor = carry
        # A breakdown anywhere spreads to the last row of the factor.
        return ~xp.isfinite(factor[..., -1, :].sum()) & (shift < 1e-4)

    def again(carry: tuple[ScalarLike, Arr]) -> tuple[ScalarLike, Arr]:
        shift = xp.maximum(carry[0] * 100.0, 1e-14)
        return shift, _factor(g + shift * scale[..., None, :] * eye)

    return xp.while_loop(failed, again, (xp.zeros((), like=g), _factor(g)))[1]


_inverse_factor = with_kernel("jaxpriv_inverse_factor", lambda g, scale: g.shape, portable_inverse_factor)


def inverse_factor(g: Arr, scale: Arr) -> Arr:
    """K with G^-1 = K'K; where G is not positive definite, its diagonal is raised first.

    The shift is 0, then 1e-14, 1e-12, ... of `scale` (a diagonal, (..., n)): the least that works.
    """
    return _inverse_factor(g, scale)


def small_solve(matrix: Arr, rhs: Arr) -> Arr:
    """matrix^-1 rhs for a system of the size of the number of limits (often one)."""
    return rhs / matrix[0] if matrix.shape[0] == 1 else xp.solve(matrix, rhs)
