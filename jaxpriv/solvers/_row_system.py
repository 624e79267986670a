"""The systems of the outputs and the Schur complement they leave, factored once for several right-hand sides.

Both interior-point methods come down to this. For every output y, with rows A_y (N, X), the diagonals di_y of
X/Z and d_y, and normals n_y (G, N) along which kappa_y is prescribed,

    G_y kappa_y = A_y di_y (rho_y + e) + link_y + (multiples of n_y),     n_y' kappa_y = level_y,
    (sum_y di_y) e = rest + sum_y di_y A_y' kappa_y,      G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1.

With R_y = K_y A_y diag(di_y) and K_y n_y = u_y tri_y that is, for a right-hand side (rho, link, level, rest),

    a_y = (1 - u u')(R rho + K link) + u tri'^-1 level,
    e = S^-1 ( rest + sum_y R_y'a_y ),      S = sum_y [ diag(di_y) - R_y'(1 - u u') R_y ],
    kappa_y = K_y'( a_y + (1 - u u') R_y e ).

On CPU dense systems take the kernels of `jaxpriv._native`; everything else is JAX and the same.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxpriv._native import with_kernel
from jaxpriv.solvers._factors import DenseFactor, RowFactor, arrow_factor, dense_factor, dot, forward, orthonormal
from jaxpriv.solvers._linear_algebra import inverse_factor


class RowSystem(eqx.Module):
    """The factored systems."""

    rows: RowFactor
    u: Any  # (Y, N, G): orthonormal basis of K n
    tri: Any  # (Y, G, G): K n = u tri
    schur: Any  # (X, X): S^-1 = schur'schur
    transposable: bool = eqx.field(static=True)

    def solve(self, rho: Any, link: Any, level: Any, rest: Any) -> tuple[Any, Any]:
        """(kappa (M, Y, N), e (M, X)) for M right-hand sides: (M, Y, X), (M, Y, N), (M, Y, G) and (M, X)."""
        if isinstance(self.rows, DenseFactor) and not self.transposable:
            return _solve(self.rows.k, self.rows.r, self.u, self.tri, self.schur, rho, link, level, rest)
        return jax.vmap(self._solve_one)(rho, link, level, rest)

    def _solve_one(self, rho: Any, link: Any, level: Any, rest: Any) -> tuple[Any, Any]:
        def along(coordinates: Any) -> Any:
            return dot("ytn,yn->yt", self.u, coordinates)

        def project(a: Any) -> Any:
            return a - along(dot("ytn,yt->yn", self.u, a))

        a = project(self.rows.down_each(rho) + self.rows.left(link)) + along(forward(self.tri, level))
        rhs = rest + self.rows.up(a)
        e = jnp.matmul(jnp.matmul(self.schur, rhs, precision="highest"), self.schur, precision="highest")
        return self.rows.left_transposed(a + project(self.rows.down(e))), e


def row_system(
    a: Any, extra: Any, di: Any, d: Any, normals: Any, *, diagonal: bool = False, transposable: bool = False
) -> RowSystem:
    """Factor for shared rows `a` (T, X), rows `extra` (Y, W, X) of each output, `normals` (Y, G, T + W).

    `diagonal`: a (X,) is the diagonal of the shared rows. `transposable`: the solutions will be transposed by
    JAX, which it can do for its own operations only.
    """
    if diagonal:
        rows, schur = arrow_factor(a, extra, di, d)
        u, tri, schur = _with_normals(rows, schur, normals)
    else:
        k, r, u, tri, schur = _columns(a, extra, di, d, normals)
        rows = DenseFactor(k, r)
    return RowSystem(rows, u, tri, inverse_factor(schur, di.sum(axis=0)), transposable)


def _with_normals(rows: RowFactor, schur: Any, normals: Any) -> tuple[Any, Any, Any]:
    """(u, tri, Schur complement on the directions that keep the level), given the one without normals."""
    columns = [rows.left(normals[:, g]) for g in range(normals.shape[1])]
    u, tri = orthonormal(jnp.stack(columns, axis=2) if columns else jnp.swapaxes(normals, 1, 2))
    if columns:
        seen = rows.seen(u)
        schur = schur + jnp.matmul(seen.T, seen, precision="highest")
    return u, tri, schur


def portable_columns(a: Any, extra: Any, di: Any, d: Any, normals: Any) -> tuple[Any, Any, Any, Any, Any]:
    """K, R, u, tri and the Schur complement in JAX, for every device."""
    rows, schur = dense_factor(a, extra, di, d)
    return rows.k, rows.r, *_with_normals(rows, schur, normals)


def portable_solve(k: Any, r: Any, u: Any, tri: Any, schur: Any, *sides: Any) -> tuple[Any, Any]:
    """`RowSystem.solve` in JAX, for every device."""
    return RowSystem(DenseFactor(k, r), u, tri, schur, transposable=True).solve(*sides)


def _column_shapes(a: Any, extra: Any, di: Any, d: Any, normals: Any) -> tuple[tuple[int, ...], ...]:
    (outputs, rows), inputs, levels = d.shape, a.shape[1], normals.shape[1]
    system = (outputs, rows, rows), (outputs, rows, inputs)
    return *system, (outputs, rows, levels), (outputs, levels, levels), (inputs, inputs)


_columns = with_kernel("jaxpriv_columns", _column_shapes, portable_columns)
_solve = with_kernel("jaxpriv_solve", lambda *args: (args[6].shape, args[8].shape), portable_solve)
