"""Newton systems by matrices of the order of the rows: for few rows, and for diagonal ones.

With G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1, R_y = K_y A_y diag(di_y) and K_y n_y = u_y tri_y the
equations of `_newton_system` become

    a_y = (1 - u u')(R rho + K link) + u tri'^-1 level,
    e = S^-1 ( row - sum_y di_y rho_y + sum_y R_y'a_y ),      S = sum_y [ diag(di_y) - R_y'(1 - u u') R_y ],
    kappa_y = K_y'( a_y + (1 - u u') R_y e ).

On CPU dense systems take the kernels of `jaxpriv._native`; everything else is JAX and the same.
"""

from typing import Any, NamedTuple

from jaxpriv import _arrays as xp
from jaxpriv._native import with_kernel
from jaxpriv._types import Arr
from jaxpriv.solvers._factors import DenseFactor, RowFactor, arrow_factor, dense_factor, forward, orthonormal
from jaxpriv.solvers._linear_algebra import inverse_factor


class RowSystem(NamedTuple):
    """The factored systems."""

    a: Any  # (T, X), or its diagonal (X,); None, as the next two, where only the factors are needed
    extra: Any  # (Y, W, X)
    di: Any  # (Y, X)
    rows: RowFactor
    u: Arr  # (Y, N, G): orthonormal basis of K n
    tri: Arr  # (Y, G, G): K n = u tri
    schur: Arr  # (X, X): S^-1 = schur'schur
    transposable: bool

    def solve(self, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, Arr, Arr, Arr]:
        """(kappa, dX, dZ, e); see `newton_system`."""
        rest = row - (self.di * rho).sum(axis=1)
        if isinstance(self.rows, DenseFactor) and not self.transposable:
            kappa, e = _solve(self.rows.k, self.rows.r, self.u, self.tri, self.schur, rho, link, level, rest)
        else:
            kappa, e = self.reduced(rho, link, level, rest)
        dz = self._told(kappa) - e[:, None, :]
        return kappa, self.di * (rho - dz), dz, e

    def _told(self, kappa: Arr) -> Arr:
        """A_y' kappa_y of every output and right-hand side."""
        shared = self.a.shape[0]
        top = kappa[..., :shared]
        told = top * self.a if self.a.ndim == 1 else xp.matmul(top, self.a)
        return told + xp.einsum("myw,ywx->myx", kappa[..., shared:], self.extra) if self.extra.shape[1] else told

    def reduced(self, rho: Arr, link: Arr, level: Arr, rest: Arr) -> tuple[Arr, Arr]:
        """(kappa, e) of a stack of right-hand sides; `rest` = row - sum_y di rho."""

        def along(coordinates: Arr) -> Arr:
            return xp.einsum("ytn,myn->myt", self.u, coordinates)

        def project(a: Arr) -> Arr:
            return a - along(xp.einsum("ytn,myt->myn", self.u, a))

        a = project(self.rows.down_each(rho) + self.rows.left(link)) + along(forward(self.tri, level))
        rhs = rest + self.rows.up(a)
        e = xp.matmul(xp.matmul(rhs, self.schur.T), self.schur)
        return self.rows.left_transposed(a + project(self.rows.down(e))), e


def row_system(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr, *, diagonal: bool, transposable: bool) -> RowSystem:
    """Factor; the arguments are those of `newton_system`."""
    if diagonal:
        rows, schur = arrow_factor(a, extra, di, d)
        u, tri, schur = _with_normals(rows, schur, normals)
    else:
        k, r, u, tri, schur = _columns(a, extra, di, d, normals)
        rows = DenseFactor(k, r)
    return RowSystem(a, extra, di, rows, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def _with_normals(rows: RowFactor, schur: Arr, normals: Arr) -> tuple[Arr, Arr, Arr]:
    """(u, tri, Schur complement on the directions that keep the level), given the one without normals."""
    if normals.shape[1] == 0:
        return *orthonormal(xp.swapaxes(normals, 1, 2)), schur
    u, tri = orthonormal(xp.moveaxis(rows.left(xp.swapaxes(normals, 0, 1)), 0, 2))
    seen = rows.seen(u)
    return u, tri, schur + xp.matmul(seen.T, seen)


def portable_columns(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[Arr, Arr, Arr, Arr, Arr]:
    """K, R, u, tri and the Schur complement in JAX or NumPy, for every device."""
    rows, schur = dense_factor(a, extra, di, d)
    return rows.k, rows.r, *_with_normals(rows, schur, normals)


def portable_solve(k: Arr, r: Arr, u: Arr, tri: Arr, schur: Arr, *sides: Arr) -> tuple[Arr, Arr]:
    """`RowSystem.reduced` for several right-hand sides in JAX or NumPy, for every device."""
    system = RowSystem(None, None, None, DenseFactor(k, r), u, tri, schur, transposable=True)
    return system.reduced(*sides)


def _column_shapes(a: Arr, extra: Arr, di: Arr, d: Arr, normals: Arr) -> tuple[tuple[int, ...], ...]:
    (outputs, rows), inputs, levels = d.shape, a.shape[1], normals.shape[1]
    system = (outputs, rows, rows), (outputs, rows, inputs)
    return *system, (outputs, rows, levels), (outputs, levels, levels), (inputs, inputs)


_columns = with_kernel("jaxpriv_rows_factor", _column_shapes, portable_columns)
_solve = with_kernel("jaxpriv_rows_solve", lambda *args: (args[6].shape, args[8].shape), portable_solve)
