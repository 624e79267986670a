"""Newton systems by matrices of the order of the inputs: no difference of large numbers late in a solve.

With the roots s = di^1/2 and h = d^-1/2 of the diagonals, h n = u tri (orthonormal columns, upper triangular) and

    B_y = (1 - u u') h A_y s  (N, X),     1 + B_y'B_y = (K_y'K_y)^-1,    K_y lower triangular,

the equations of `_newton_system` become, for v_y = dX_y / s,

    b_y = (1 - u u') h link + u tri'^-1 level,       v_y = K'K s ( rho + e - A'h b_y ),
    S e = row - sum_y s K'K s (rho - A'h b_y),       S = sum_y s K'K s,
    kappa_y = h ( (1 - u u') h A dX_y + b_y ).

1 + B'B is never singular and S is a sum of squares, while with matrices of the rows (`row_system`) both S and dX are
differences: of di, up to 1/mu, and of what is nearly as large. In turn a row loses what d is below 1e-16 of its
square A_t di A_t', which the other form keeps. On the central path the square is at most about d/mu; beyond it d is
raised to `_LEAST` times the square, so that a rule whose posterior mass has underflown moves less than Newton's
method would.
"""

from typing import NamedTuple

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.native import with_kernel
from jaxpriv._runtime.types import Arr
from jaxpriv.solvers._inverse_factors import (
    forward,
    inverse_factor,
    matvec,
    orthonormal,
    portable_inverse_factor,
    rmatvec,
)

# Least ratio of d to the row's square A_t di A_t': the rounding error of the square in float64 is about 1e-16 of it.
_LEAST = 1e-16


class InputSystem(NamedTuple):
    """The factored systems."""

    a: Arr  # (T, X)
    extra: Arr  # (Y, W, X)
    s: Arr  # (Y, X)
    h: Arr  # (Y, N)
    k: Arr  # (Y, X, X)
    u: Arr  # (Y, N, G)
    tri: Arr  # (Y, G, G)
    schur: Arr  # (X, X): S^-1 = schur'schur
    transposable: bool

    def solve(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        """(kappa, dX, dZ, e); see `newton_system`."""
        if self.transposable:
            return self._solved(rho, link, level, row)
        parts = self.a, self.extra, self.s, self.h, self.k, self.u, self.tri, self.schur
        return _input_solve(*parts, rho, link, level, row)

    def _solved(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        def along(coordinates: Arr) -> Arr:
            return xp.einsum("ytn,myn->myt", self.u, coordinates)

        def project(v: Arr) -> Arr:
            return v - along(xp.einsum("ytn,myt->myn", self.u, v))

        def down(v: Arr) -> Arr:
            """K v."""
            return xp.einsum("yzx,myx->myz", self.k, v)

        def up(v: Arr) -> Arr:
            """K'v."""
            return xp.einsum("yzx,myz->myx", self.k, v)

        b = project(self.h * link) + along(forward(self.tri, level))
        half = down(self.s * (rho - rmatvec(self.a, self.extra, self.h * b)))
        short = row - (self.s * up(half)).sum(axis=1)
        e = xp.matmul(xp.matmul(short, self.schur.T), self.schur)
        # The two parts nearly cancel. Added before the product with K', their rounding is as small along the rows as
        # K is there; added behind it, h would make up to 1e10 of it.
        dx = self.s * up(half + down(self.s * e[:, None]))
        kappa = self.h * (project(self.h * matvec(self.a, self.extra, dx)) + b)
        return kappa, dx, rmatvec(self.a, self.extra, kappa) - e[:, None], e


def input_system(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr, *, transposable: bool) -> InputSystem:
    """Factor; the arguments are those of `newton_system`."""
    s, h, k, u, tri, schur = _input_columns(a, extra, di, d, normals)
    return InputSystem(a, extra, s, h, k, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def portable_input_columns(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[Arr, ...]:
    """s, h, K, u, tri and S in JAX or NumPy, for every device."""
    rows = xp.concatenate([xp.broadcast_to(a, (di.shape[0], *a.shape)), extra], axis=1)
    d = xp.maximum(d, _LEAST * xp.matmul(rows**2, di[..., None])[..., 0])
    s, h = xp.sqrt(di), xp.where(d == 0, 0.0, 1.0 / xp.sqrt(xp.where(d == 0, 1.0, d)))
    u, tri = orthonormal(xp.swapaxes(h[:, None] * normals, 1, 2))
    b = h[:, :, None] * rows * s[:, None, :]
    b = b - xp.einsum("ytn,ynx->ytx", u, xp.einsum("ytn,ytx->ynx", u, b))
    matrix = xp.einsum("ytx,ytz->yxz", b, b) + xp.eye(di.shape[1], like=di)
    k = portable_inverse_factor(matrix, xp.diagonal(matrix, axis1=1, axis2=2))
    flat = (k * s[:, None, :]).reshape(-1, di.shape[1])
    return s, h, k, u, tri, xp.matmul(flat.T, flat)


def portable_input_solve(*args: Arr) -> tuple[Arr, Arr, Arr, Arr]:
    """`InputSystem.solve` in JAX or NumPy, for every device."""
    return InputSystem(*args[:8], transposable=True).solve(*args[8:])


def _input_column_shapes(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[tuple[int, ...], ...]:
    inputs, levels = di.shape[1], normals.shape[1]
    return di.shape, d.shape, (*di.shape, inputs), (*d.shape, levels), (di.shape[0], levels, levels), (inputs, inputs)


def _input_solve_shapes(*args: Arr) -> tuple[tuple[int, ...], ...]:
    rho, link, _, row = args[8:]
    return link.shape, rho.shape, rho.shape, row.shape


_input_columns = with_kernel("jaxpriv_inputs_factor", _input_column_shapes, portable_input_columns)
_input_solve = with_kernel("jaxpriv_inputs_solve", _input_solve_shapes, portable_input_solve)
