"""Newton systems by matrices of the order of the rows: for few rows, and for diagonal ones.

With G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1, R_y = K_y A_y diag(di_y) and K_y n_y = u_y tri_y the
equations of `_newton_system` become

    a_y = (1 - u u')(R rho + K link) + u tri'^-1 level,
    e = S^-1 ( row - sum_y di_y rho_y + sum_y R_y'a_y ),      S = sum_y [ diag(di_y) - R_y'(1 - u u') R_y ],
    kappa_y = K_y'( a_y + (1 - u u') R_y e ).

On CPU dense systems take the kernels of `jaxpriv._runtime.native`; everything else is JAX and the same.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.native import with_kernel
from jaxpriv._runtime.types import Arr
from jaxpriv.solvers._inverse_factors import (
    DenseFactor,
    RowFactor,
    arrow_factor,
    dense_factor,
    forward,
    inverse_factor,
    orthonormal,
    rmatvec,
)


class RowSystem(NamedTuple):
    """The factored systems."""

    a: Arr  # (T, X), or its diagonal (X,)
    extra: Arr  # (Y, W, X)
    di: Arr  # (Y, X)
    rows: RowFactor
    u: Arr  # (Y, N, G): orthonormal basis of K n
    tri: Arr  # (Y, G, G): K n = u tri
    schur: Arr  # (X, X): S^-1 = schur'schur
    transposable: bool

    def solve(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        """(kappa, dX, dZ, e); see `newton_system`."""
        rest = row - (self.di * rho).sum(axis=1)
        if isinstance(self.rows, DenseFactor) and not self.transposable:
            factors = self.rows.k, self.u, self.tri, self.schur, self.a, self.extra, self.di
            kappa, e = _row_solve(*factors, rho, link, level, rest)
        else:
            kappa, e = self.reduced(rho, link, level, rest)
        dz = rmatvec(self.a, self.extra, kappa) - e[:, None, :]
        return kappa, self.di * (rho - dz), dz, e

    def reduced(self, rho: Arr, link: Arr, level: Arr, rest: Arr) -> tuple[Arr, Arr]:
        """(kappa, e) of a stack of right-hand sides; `rest` = row - sum_y di rho."""

        def along(coordinates: Arr) -> Arr:
            return xp.einsum("ytn,myn->myt", self.u, coordinates)

        def project(a: Arr) -> Arr:
            return a - along(xp.einsum("ytn,myt->myn", self.u, a))

        a = project(self.rows.both(rho, link)) + along(forward(self.tri, level))
        rhs = rest + self.rows.up(a)
        e = xp.matmul(xp.matmul(rhs, self.schur.T), self.schur)
        return self.rows.left_transposed(a + project(self.rows.down(e))), e


def row_system(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr, *, diagonal: bool, transposable: bool) -> RowSystem:
    """Factor; the arguments are those of `newton_system`."""
    if diagonal:
        rows, schur = arrow_factor(a, extra, di, d)
        u, tri, schur = _with_normals(rows, rows.projected, schur, normals)
    else:
        k, u, tri, schur = _row_columns(a, extra, di, d, normals)
        rows = DenseFactor(k, a, extra, di)
    return RowSystem(a, extra, di, rows, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def _with_normals(rows: RowFactor, projected: Callable[[Arr], Arr], schur: Arr, normals: Arr) -> tuple[Arr, Arr, Arr]:
    """(u, tri, Schur complement on the directions that keep the level), given the one without normals.

    `projected`: the rows R_y' u_y, (Y N, X), for every column of u (Y, T + W, N).
    """
    if normals.shape[1] == 0:
        return *orthonormal(xp.swapaxes(normals, 1, 2)), schur
    u, tri = orthonormal(xp.moveaxis(rows.left(xp.swapaxes(normals, 0, 1)), 0, 2))
    rows_of_u = projected(u)
    return u, tri, schur + xp.matmul(rows_of_u.T, rows_of_u)


def portable_row_columns(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[Arr, Arr, Arr, Arr]:
    """K, u, tri and the Schur complement in JAX or NumPy, for every device."""
    rows, big, schur = dense_factor(a, extra, di, d)

    def projected(u: Arr) -> Arr:
        return xp.einsum("ytn,ytx->ynx", u, big).reshape(-1, big.shape[2])

    return rows.k, *_with_normals(rows, projected, schur, normals)


def portable_row_solve(
    k: Arr, u: Arr, tri: Arr, schur: Arr, a: Arr, extra: Arr, di: Arr, *sides: Arr
) -> tuple[Arr, Arr]:
    """`RowSystem.reduced` for several right-hand sides in JAX or NumPy, for every device."""
    return RowSystem(a, extra, di, DenseFactor(k, a, extra, di), u, tri, schur, transposable=True).reduced(*sides)


def _row_column_shapes(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[tuple[int, ...], ...]:
    (outputs, rows), inputs, levels = d.shape, a.shape[1], normals.shape[1]
    return (outputs, rows, rows), (outputs, rows, levels), (outputs, levels, levels), (inputs, inputs)


_row_columns = with_kernel("jaxpriv_rows_factor", _row_column_shapes, portable_row_columns)
_row_solve = with_kernel("jaxpriv_rows_solve", lambda *args: (args[8].shape, args[10].shape), portable_row_solve)
